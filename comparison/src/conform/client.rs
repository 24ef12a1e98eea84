//! The client for the requests of a comparison.

use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::ConfigExt as _;
use kube::{Client, Config};
use tower::{BoxError, ServiceBuilder};

/// Returns a client that sends each request once and without delay. kube's own asks again after a
/// 429, 503 or 504, which would hide them; and it leaves Nagle's algorithm on, by which the first
/// request of a connection takes 40 ms more (kube-rs/kube#2056).
///
/// # Errors
/// If the configuration holds unusable certificates.
pub fn direct(config: Config) -> Result<Client, kube::Error> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let tls = config.rustls_https_connector_with_connector(tcp)?;
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .map_err(BoxError::from)
        .service(legacy::Client::builder(TokioExecutor::new()).build(tls));
    Ok(Client::new(service, config.default_namespace))
}
