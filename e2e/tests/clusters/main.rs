//! Tests on real clusters: each module is a program of its own to `hack/test`, with clusters of its
//! own. They are one binary because linking operator and server once for each takes minutes.
//! `cargo test --workspace --test clusters takeover::` runs one of them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "as in unit tests; helpers too"
)]

mod abuse;
mod admission;
mod api_clients;
mod api_support;
mod authority;
mod certificates;
mod chaos;
mod client_go;
mod cloudnativepg;
mod cloudnativepg_operator;
mod common;
mod connection_age;
mod crds;
mod database_modes;
mod database_move;
mod demo;
mod embedded_backup;
mod examples;
mod external;
mod gitops;
mod gone_first;
mod incumbent;
mod install_ways;
mod installations;
mod interference;
mod isolation;
mod kill_matrix;
mod kyverno;
mod managed;
mod many_back;
mod migration;
mod older_crd;
mod operators;
mod patroni;
mod policies;
mod quickstart;
mod restore;
mod rights;
mod round_trip;
mod runbook;
mod settings;
mod takeover;
mod upgrade;
mod upkeep;
mod witness;
