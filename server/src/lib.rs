//! Aggregated API server for policy reports.
//!
//! A request goes down this list once and comes back once; nothing lower calls up:
//! `http` (connections, negotiation, limits) → `auth` → `api` (one file a verb) → `schema` →
//! `registry` → `cache` (serves every read) → `store` (change log and database).

pub mod api;
pub mod auth;
pub mod backup;
pub mod cache;
pub mod cluster;
pub mod config;
pub mod definition;
pub mod discovery;
pub mod document;
pub mod encoding;
pub mod error;
pub mod holds;
pub mod http;
pub mod meta_v1;
pub mod model;
pub mod mutation;
pub mod openapi;
pub mod protobuf;
pub mod registry;
pub mod request_info;
pub mod run;
pub mod schema;
pub mod selector;
pub mod shutdown;
pub mod status;
pub mod store;
pub mod table;
pub mod telemetry;
pub mod tls;

/// Version of this server; sent with every answer as `X-Reports-Server`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
