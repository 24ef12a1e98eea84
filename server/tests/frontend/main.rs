//! The way of a request from the socket to the API, over real TLS connections: certificates,
//! authentication, authorization, limits, discovery, and the end of the service. The cluster is
//! played by a service of the test.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // as in unit tests; helpers too

mod age;
mod audit;
mod authentication;
mod authorization;
mod bounds;
mod certificates;
mod cluster;
mod discovery;
mod hostile;
mod limits;
mod shutdown;
mod slow;
mod spans;
mod support;
mod watch_proxy;
