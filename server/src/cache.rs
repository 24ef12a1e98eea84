//! The objects and their recent events in memory: what every read is served from.
