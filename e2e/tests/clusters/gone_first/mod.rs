//! Things that a `ReportsServer` needs, deleted before it, on a cluster with operator and server.

mod crd;
mod ground;
mod namespace;
