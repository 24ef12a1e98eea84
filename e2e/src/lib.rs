//! The server and its operator on a real Kubernetes, for tests and demo: how they are run there,
//! clients that notice everything, and other parts beside them.

pub mod abuse;
pub mod access;
pub mod chaos;
pub mod cnpg;
pub mod command;
pub mod demo;
pub mod incumbent;
pub mod kyverno;
pub mod matrix;
pub mod operator;
pub mod page;
pub mod patroni;
pub mod processes;
pub mod request;
pub mod round_trip;
pub mod s3;
pub mod signer;
pub mod steps;
pub mod takeover;
pub mod witness;
