//! Connections over TLS: HTTP/1.1, as many as a few readers need, and each for a bounded time.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use super::certificate::Certificates;

/// Most connections at one time; further ones wait.
pub(super) const CONNECTIONS: usize = 64;
/// Longest TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time for the head of a request, and between two of them.
const HEAD_TIMEOUT: Duration = Duration::from_secs(75);
/// Most bytes of the head of a request; a token has one or two thousand.
const MAX_HEAD: usize = 64 * 1024;
/// Time after which a connection ends with its next answer.
const MAX_AGE: Duration = Duration::from_mins(10);
/// Longest time for an answer under way when a connection ends.
const DRAIN: Duration = Duration::from_secs(5);
/// Pause after the system refused a connection, for lack of file descriptors for instance.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Returns TLS 1.2 or newer with the certificate that is in use when a client connects.
///
/// # Errors
/// If the provider offers no common protocol version; never with the one that is compiled in.
pub(super) fn tls(certificates: Arc<Certificates>) -> Result<TlsAcceptor, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Serves until `end`, and then answers what has begun.
pub(super) async fn serve(
    listener: TcpListener,
    tls: TlsAcceptor,
    router: Router,
    end: CancellationToken,
) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    let tasks = TaskTracker::new();
    while let Some(Some((stream, slot))) = end.run_until_cancelled(accept(&listener, &slots)).await
    {
        tasks.spawn(connection(
            stream,
            slot,
            tls.clone(),
            router.clone(),
            end.clone(),
        ));
    }
    drop(listener);
    tasks.close();
    if timeout(DRAIN, tasks.wait()).await.is_err() {
        debug!("connections of readers of the metrics are cut off");
    }
}

/// Returns the next connection, when there is room for it.
async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    // The semaphore is never closed.
    let slot = slots.clone().acquire_owned().await.ok()?;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return Some((stream, slot)),
            Err(error) => {
                warn!(%error, "cannot accept a connection to the metrics");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(
    stream: TcpStream,
    _slot: OwnedSemaphorePermit,
    tls: TlsAcceptor,
    router: Router,
    end: CancellationToken,
) {
    let stream = match timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return debug!(%error, "TLS handshake failed"),
        Err(_) => return debug!("TLS handshake took too long"),
    };
    let service = TowerToHyperService::new(router);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = end.cancelled() => None,
        () = tokio::time::sleep(MAX_AGE) => None,
    };
    let ended = if let Some(ended) = ended {
        ended
    } else {
        connection.as_mut().graceful_shutdown();
        let Ok(ended) = timeout(DRAIN, connection).await else {
            return debug!("a reader of the metrics is cut off");
        };
        ended
    };
    if let Err(error) = ended {
        debug!(%error, "connection ended");
    }
}

/// Serves plain HTTP until `end`.
///
/// # Errors
/// If the listener fails.
pub(super) async fn serve_plain(
    listener: TcpListener,
    router: Router,
    end: CancellationToken,
) -> io::Result<()> {
    axum::serve(listener, router)
        .with_graceful_shutdown(end.cancelled_owned())
        .await
}
