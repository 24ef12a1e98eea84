//! Answers to probes while the server waits for the right database, so that the kubelet does not
//! take it for dead: it lives, and is not ready.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::request_info::RequestInfo;
use axum::response::Response;
use http::{Method, StatusCode, Uri};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::health::{Check, Health};
use super::response::text;
use super::server::ServerError;

/// Most connections at one time. A kubelet opens one for each probe.
const CONNECTIONS: usize = 32;
/// Longest time of a connection.
const LIMIT: Duration = Duration::from_secs(10);
/// Pause after the system refused a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The task that answers probes.
pub struct Probes(JoinHandle<()>);

impl Probes {
    /// Begins to answer at `address`.
    ///
    /// # Errors
    /// If the address is taken or not ours.
    pub async fn start(address: SocketAddr, tls: ServerConfig) -> Result<Self, ServerError> {
        let listener = TcpListener::bind(address)
            .await
            .map_err(|source| ServerError { address, source })?;
        let tls = TlsAcceptor::from(Arc::new(tls));
        Ok(Self(tokio::spawn(answer(listener, tls))))
    }

    /// Ends; the address is free afterwards.
    pub async fn stop(self) {
        self.0.abort();
        // It was told to end, which is its only result.
        let _ = self.0.await;
    }
}

async fn answer(listener: TcpListener, tls: TlsAcceptor) {
    let health = Arc::new(health());
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    let serving = connection(stream, tls.clone(), Arc::clone(&health));
                    connections.spawn(async move {
                        // Whoever is not done by then asks again.
                        let _ = timeout(LIMIT, serving).await;
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(stream: TcpStream, tls: TlsAcceptor, health: Arc<Health>) {
    let stream = match tls.accept(stream).await {
        Ok(stream) => stream,
        Err(error) => return tracing::debug!(%error, "TLS handshake failed"),
    };
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let response = respond(&health, request.method(), request.uri());
        async move { Ok::<_, Infallible>(response) }
    });
    let http = Builder::new(TokioExecutor::new());
    if let Err(error) = http.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(error, "connection ended");
    }
}

/// Returns the conditions of health while the server waits.
fn health() -> Health {
    Health::new(vec![Check::new("database", || false)])
}

fn respond(health: &Health, method: &Method, uri: &Uri) -> Response {
    let info = RequestInfo::parse(method, uri).ok();
    info.and_then(|info| health.answer(&info))
        .unwrap_or_else(|| {
            let words = "the server waits for the right database\n";
            text(StatusCode::SERVICE_UNAVAILABLE, words)
        })
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("/livez", 200, "ok")]
    #[case("/readyz", 500, "[-]database failed")]
    #[case("/apis", 503, "waits for the right database")]
    #[tokio::test]
    async fn it_lives_and_is_not_ready(#[case] uri: &str, #[case] code: u16, #[case] words: &str) {
        let response = respond(&health(), &Method::GET, &uri.parse().unwrap());
        assert_eq!(response.status().as_u16(), code);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body = String::from_utf8(body.to_vec()).unwrap();
        assert!(body.contains(words), "{body}");
    }
}
