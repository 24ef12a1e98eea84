//! Steps of a migration by name, as fault points of the operator name them.

/// The steps of the way back, in their order.
pub const BACK: [&str; 6] = [
    "BackOpenDoor",
    "BackWrite",
    "BackBurn",
    "BackHold",
    "BackRelease",
    "BackClose",
];
