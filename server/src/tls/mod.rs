//! The serving certificate, and the certificates of clients.

mod certificate;
mod client_cert;
mod reload;

use std::sync::Arc;

use rustls::ServerConfig;

pub use certificate::{CertificateFiles, LoadError, Loaded};
pub use reload::{Certificates, reload};

/// Returns the TLS configuration that the kube-apiserver expects of an aggregated server: 1.2 or
/// newer, HTTP/2 preferred, client certificates asked for and not required.
///
/// # Errors
/// If the provider offers no common protocol version; never with the one that is compiled in.
pub fn server_config(certificates: Arc<Certificates>) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = client_cert::AnyClientCert::new(provider.clone());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_cert_resolver(certificates);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
