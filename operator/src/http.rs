//! The operator's own endpoints: `/metrics`, `/healthz` and `/readyz`, plain HTTP.

use std::future::Future;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::metrics::Metrics;

/// Media type of the `OpenMetrics` text format.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The reason why the endpoints could not be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is taken or not ours.
    #[error("cannot listen on {0}: {1}; choose another --metrics-bind-address")]
    Bind(SocketAddr, #[source] std::io::Error),
    /// Serving ended.
    #[error("the metrics endpoint failed: {0}")]
    Serve(#[source] std::io::Error),
}

#[derive(Clone)]
struct Shared {
    metrics: Metrics,
    ready: watch::Receiver<bool>,
}

/// A bound listener.
pub struct Server {
    listener: TcpListener,
    router: Router,
}

impl Server {
    /// Binds the listener. `ready` decides the answer of `/readyz`.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub async fn bind(
        address: SocketAddr,
        metrics: Metrics,
        ready: watch::Receiver<bool>,
    ) -> Result<Self, Error> {
        let listener = TcpListener::bind(address)
            .await
            .map_err(|source| Error::Bind(address, source))?;
        let router = Router::new()
            .route("/metrics", get(serve_metrics))
            .route("/healthz", get(|| async { "ok" }))
            .route("/readyz", get(readyz))
            .with_state(Shared { metrics, ready });
        Ok(Self { listener, router })
    }

    /// Returns the address on which it listens.
    ///
    /// # Errors
    /// If the socket is gone.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `end` resolves.
    ///
    /// # Errors
    /// If the listener fails.
    pub async fn run(self, end: impl Future<Output = ()> + Send + 'static) -> Result<(), Error> {
        let serve = axum::serve(self.listener, self.router).with_graceful_shutdown(end);
        serve.await.map_err(Error::Serve)
    }
}

async fn serve_metrics(State(shared): State<Shared>) -> Response {
    match shared.metrics.encode() {
        Ok(text) => ([(CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn readyz(State(shared): State<Shared>) -> Response {
    if *shared.ready.borrow() {
        "ok".into_response()
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "the kube-apiserver has not answered yet",
        )
            .into_response()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn request(address: SocketAddr, path: &str) -> String {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn endpoints_answer_and_readiness_follows_the_operator() {
        let (ready_tx, ready) = watch::channel(false);
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::bind(any, Metrics::new(), ready).await.unwrap();
        let address = server.address().unwrap();
        let (end_tx, end) = tokio::sync::oneshot::channel::<()>();
        let task = tokio::spawn(server.run(async move { end.await.unwrap_or(()) }));
        assert!(
            request(address, "/healthz")
                .await
                .starts_with("HTTP/1.1 200")
        );
        assert!(
            request(address, "/readyz")
                .await
                .starts_with("HTTP/1.1 503")
        );
        ready_tx.send_replace(true);
        assert!(
            request(address, "/readyz")
                .await
                .starts_with("HTTP/1.1 200")
        );
        let metrics = request(address, "/metrics").await;
        assert!(
            metrics.contains("application/openmetrics-text"),
            "{metrics}"
        );
        assert!(metrics.trim_end().ends_with("# EOF"), "{metrics}");
        drop(end_tx);
        task.await.unwrap().unwrap();
    }
}
