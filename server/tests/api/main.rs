//! The API in process: every verb against a real store, one module a verb.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "as in unit tests; helpers too"
)]

mod apply;
mod bodies;
mod compressed;
mod control;
mod copies;
mod create;
mod delete;
mod deletecollection;
mod faults;
mod gate;
mod get;
mod harness;
mod hostile;
mod list;
mod namespaces;
mod onward;
mod pages;
mod patch;
mod predecessor;
mod races;
mod spans;
mod sweep;
mod unchanged;
mod update;
mod versions;
mod watch;
