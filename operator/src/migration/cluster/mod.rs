//! The parts that talk to the kube-apiserver and to the server.

pub mod admission;
pub mod behind;
pub mod control;
pub mod deletion;
pub mod door;
pub mod endpoints;
pub mod identities;
pub mod marks;
pub mod operations;
pub mod pages;
pub mod revisions;
pub mod rights;
pub mod throttle;
pub mod wire;
