//! Servers on a real PostgreSQL: the order of what they commit, and what happens to it and to
//! their clients when something fails.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "as in unit tests; helpers too"
)]

mod batching;
mod control;
mod credentials;
mod faults;
#[path = "../api/harness.rs"]
#[allow(
    dead_code,
    reason = "shared with the tests of the API, which need all of it"
)]
mod harness;
#[path = "../api/namespaces.rs"]
#[allow(
    dead_code,
    reason = "shared with the tests of the API, which need all of it"
)]
mod namespaces;
mod order;
mod questions;
mod sabotage;
mod support;
