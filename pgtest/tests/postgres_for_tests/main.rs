//! The servers of tests do what they say.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod crash;
mod faults;
mod pooler;
mod proxies;
mod server;
mod support;
