//! The reason why the endpoints cannot be served.

use std::io;
use std::net::SocketAddr;

/// The reason why the endpoints cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is taken or not ours.
    #[error("cannot listen on {address}: {source}; choose another {option}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The option that sets it.
        option: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// Serving ended.
    #[error("an endpoint failed: {0}")]
    Serve(#[source] io::Error),
    /// TLS cannot be set up.
    #[error("the metrics cannot be served over TLS: {0}")]
    Tls(#[source] rustls::Error),
}
