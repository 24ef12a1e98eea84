//! Logs and metrics.

mod logs;
mod metrics;
mod pieces;
mod requests;
mod reviews;
mod store;

pub use logs::{AUDIT_TARGET, LogError, LogFormat, LogLevel, install as install_logs};
pub use metrics::{CONTENT_TYPE as METRICS_CONTENT_TYPE, Metrics};
pub use pieces::PieceMetrics;
pub use requests::{GaugeGuard, RequestLabels, RequestMetrics};
pub use reviews::ReviewMetrics;
pub use store::{CommitMetrics, StoreCollector};
