//! The agent inside of a cluster's namespaces, and the requests to it.

pub(super) mod client;
mod processes;
pub(super) mod protocol;
mod server;

pub use protocol::{ProcessInfo, ProcessSpec, Signal};
pub use server::run;
