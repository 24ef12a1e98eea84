//! Traces: spans of server and operator, exported to a collector by OTLP over HTTP.
//!
//! Spans are made with `tracing` everywhere, under the one target [`TARGET`]. The logs leave that
//! target out ([`LOG_DIRECTIVE`]), so a span costs nothing while there is no collector: its callsite
//! is off.

mod endpoint;
mod error;
mod export;
mod metrics;
mod parent;
mod pipeline;
mod queue;
mod transport;

pub use endpoint::Endpoint;
pub use error::TraceError;
pub use metrics::ExportMetrics;
pub use parent::continue_from;
pub use pipeline::{MAX_RATE, Service, Settings, Traces};

/// The target of every span that is exported.
pub const TARGET: &str = "spans";
/// The directive by which a filter of logs leaves those spans out.
pub const LOG_DIRECTIVE: &str = "spans=off";
