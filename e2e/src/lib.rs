//! A real Kubernetes for tests, and the tests that need one.

pub mod cluster;
