//! PostgreSQL that the operator does not run itself, against a real kube-apiserver and servers that
//! really run: what the operator makes of it and says about it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "as in unit tests; helpers too"
)]

mod cloudnativepg;
mod external;
mod managed;
mod subject;
