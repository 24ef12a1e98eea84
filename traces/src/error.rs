//! The reason why there are no traces.

use std::io;
use std::path::PathBuf;

use opentelemetry_otlp::ExporterBuildError;

/// The reason why there are no traces.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The endpoint is no address of a collector.
    #[error("{endpoint:?} is no address of a collector: {why}")]
    Endpoint {
        /// The given text.
        endpoint: String,
        /// The error, as a phrase.
        why: &'static str,
    },
    /// The file with the CAs of the collector cannot be read.
    #[error("cannot read the CAs of the collector in {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The CAs of the collector cannot be used.
    #[error("cannot use the CAs of the collector: {0}")]
    Ca(String),
    /// The TLS of the client cannot be set up.
    #[error("cannot set up TLS to the collector: {0}")]
    Tls(#[from] rustls::Error),
    /// The thread of the export has no runtime.
    #[error("cannot start the export: {0}")]
    Runtime(#[source] io::Error),
    /// The exporter does not take the settings.
    #[error("cannot set up the export: {0}")]
    Exporter(#[from] ExporterBuildError),
}
