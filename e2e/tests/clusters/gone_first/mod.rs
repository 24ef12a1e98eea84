//! What a `ReportsServer` needs deleted before it, on a cluster with operator, server and a witness.

mod crd;
mod ground;
mod namespace;
