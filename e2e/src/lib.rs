//! A real Kubernetes for tests, and what tests, demo and benchmarks do with it.

pub mod bench;
pub mod chaos;
pub mod cluster;
pub mod cnpg;
pub mod conform;
pub mod incumbent;
pub mod kyverno;
pub mod operator;
pub mod patroni;
pub mod processes;
pub mod reports;
pub mod round_trip;
pub mod s3;
pub mod serving;
pub mod steps;
pub mod takeover;
pub mod witness;
