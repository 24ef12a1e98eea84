//! Aggregated API server for policy reports.
//!
//! A request goes down this list once and comes back once; nothing lower calls up: `http`
//! (connections, negotiation, limits) → `auth` → `api` (one file a verb) → `registry` → the crate
//! `storage`. The meaning of requests and objects is in the crate `apimachinery`.

pub mod api;
pub mod auth;
pub mod backup;
pub mod cluster;
pub mod config;
pub mod holds;
pub mod http;
pub mod registry;
pub mod run;
pub mod shutdown;
pub mod telemetry;
pub mod tls;
pub mod told;

/// Version of this server; sent with every answer as `X-Reports-Server`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
