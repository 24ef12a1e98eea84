//! Who dies in which step, and what a user does in it.

/// Who dies when.
#[derive(Clone, Copy, Debug)]
pub enum Point {
    /// The operator, right after this step of its migration, or right before it.
    Operator(&'static str),
    /// The servers while they take the copies.
    ServersInMirror,
    /// The servers while the operator writes back what they have.
    ServersInWriteback,
    /// The servers while they hold requests, and the operator after this step, which begins the
    /// hold: that leaves time for it.
    ServersInHold(&'static str),
    /// The servers as soon as they serve a group.
    ServersAfterSwitch,
}

pub const FORWARD: [Point; 13] = [
    Point::Operator("before:Mirror"),
    Point::Operator("Mirror"),
    Point::Operator("Verify"),
    Point::Operator("SwitchHold"),
    Point::Operator("SwitchPatch"),
    Point::Operator("SwitchConfirm"),
    Point::Operator("SwitchDrain"),
    Point::Operator("SwitchOpen"),
    Point::Operator("SwitchSettle"),
    Point::Operator("Prune"),
    Point::ServersInMirror,
    Point::ServersInHold("SwitchHold"),
    Point::ServersAfterSwitch,
];
pub const BACK: [Point; 9] = [
    Point::Operator("before:BackOpenDoor"),
    Point::Operator("BackOpenDoor"),
    Point::Operator("BackWrite"),
    Point::Operator("BackBurn"),
    Point::Operator("BackHold"),
    Point::Operator("BackRelease"),
    Point::Operator("BackClose"),
    Point::ServersInWriteback,
    Point::ServersInHold("BackHold"),
];

impl Point {
    /// The operator's fault point.
    pub fn fault(self) -> Option<&'static str> {
        match self {
            Self::Operator(step) | Self::ServersInHold(step) => Some(step),
            _ => None,
        }
    }

    /// Requests that were at a server when it died fail; a dead operator fails none.
    pub fn servers_die(self) -> bool {
        !matches!(self, Self::Operator(_))
    }
}

/// Steps in which a user changes his mind on the way there.
pub const STEPS_FORWARD: [&str; 9] = [
    "Mirror",
    "Verify",
    "SwitchHold",
    "SwitchPatch",
    "SwitchConfirm",
    "SwitchDrain",
    "SwitchOpen",
    "SwitchSettle",
    "Prune",
];

/// A deed of a user with the `ReportsServer` before a dead operator is there again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Suspends it, and lets it go on once it rests.
    Suspend,
    /// Deletes it, and applies it again once it is gone.
    Delete,
    /// Asks for the other owner, and for the first again once that is reached.
    Flip,
}

impl Deed {
    pub const ALL: [Self; 3] = [Self::Suspend, Self::Delete, Self::Flip];
}
