//! Connections: TLS, HTTP/1.1 and HTTP/2, and their end.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::age::{ConnectionAge, Old};
use super::pipeline::Pipeline;
use super::traffic::Traffic;
use crate::auth::PeerCertificates;

/// Longest TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time for the headers of an HTTP/1 request, and between two of them; and for the first
/// request of any connection.
const HEADER_TIMEOUT: Duration = Duration::from_secs(75);
/// Requests at one time on an HTTP/2 connection. The kube-apiserver sends everything, with all
/// watches, over one.
const MAX_STREAMS: u32 = 4000;
/// Bytes that a client may send ahead on one request, and on the whole connection.
const STREAM_WINDOW: u32 = 1024 * 1024;
const CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;
/// Most bytes that are buffered for one slow reader; Go's clients take 4 MiB ahead.
const SEND_BUFFER: usize = 4 * 1024 * 1024;
/// Silence after which the peer is asked whether it lives, and the time it has to answer.
const PING_INTERVAL: Duration = Duration::from_mins(1);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Longest header list, as in Go.
const MAX_HEADER_BYTES: u32 = 1024 * 1024;
/// Pause after the system refused a connection, for lack of file descriptors for instance.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}")]
pub struct ServerError {
    /// The address.
    pub address: SocketAddr,
    /// The error of the system.
    pub source: io::Error,
}

/// A listening server.
pub struct Server {
    listener: TcpListener,
    connections: Arc<Connections>,
}

/// The state that connections share.
struct Connections {
    tls: TlsAcceptor,
    pipeline: Arc<Pipeline>,
    http: Builder<TokioExecutor>,
    age: ConnectionAge,
    slots: Arc<Semaphore>,
    tasks: TaskTracker,
}

impl Server {
    /// Starts to listen. Connections wait in the system's queue until [`Server::run`].
    ///
    /// # Errors
    /// If the address is taken or not ours.
    pub async fn bind(
        address: SocketAddr,
        tls: ServerConfig,
        pipeline: Arc<Pipeline>,
        age: ConnectionAge,
    ) -> Result<Self, ServerError> {
        let listener = TcpListener::bind(address)
            .await
            .map_err(|source| ServerError { address, source })?;
        let connections = Connections {
            tls: TlsAcceptor::from(Arc::new(tls)),
            slots: Arc::new(Semaphore::new(pipeline.limits.connections)),
            pipeline,
            http: http(),
            age,
            tasks: TaskTracker::new(),
        };
        Ok(Self {
            listener,
            connections: Arc::new(connections),
        })
    }

    /// Returns the address that is listened on.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `drain` is cancelled; then takes no more connections, tells the clients to go
    /// (`GOAWAY`, `Connection: close`), answers the requests that have begun and returns, after
    /// `drain_timeout` at the latest. Returns true when everything had been answered by then.
    pub async fn run(self, drain: CancellationToken, drain_timeout: Duration) -> bool {
        let Self {
            listener,
            connections,
        } = self;
        // `None`: the drain has begun.
        while let Some(()) = drain
            .run_until_cancelled(connections.accept(&listener, &drain))
            .await
        {}
        // From here on a client is refused at once, and goes elsewhere, where it would wait.
        drop(listener);
        connections.tasks.close();
        timeout(drain_timeout, connections.tasks.wait())
            .await
            .is_ok()
    }
}

impl Connections {
    /// Takes one connection, when there is room for it.
    async fn accept(self: &Arc<Self>, listener: &TcpListener, drain: &CancellationToken) {
        // The semaphore is never closed.
        let Ok(slot) = self.slots.clone().acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, peer)) => {
                self.tasks
                    .spawn(self.clone().connection(stream, peer, slot, drain.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }

    async fn connection(
        self: Arc<Self>,
        stream: TcpStream,
        peer: SocketAddr,
        _slot: OwnedSemaphorePermit,
        drain: CancellationToken,
    ) {
        let _gauge = self.pipeline.metrics.requests.connection();
        // Watch events are small and must not wait for more to come.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%peer, %error, "cannot set TCP_NODELAY");
        }
        let stream = match timeout(HANDSHAKE_TIMEOUT, self.tls.accept(stream)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return tracing::debug!(%peer, %error, "TLS handshake failed"),
            Err(_) => return tracing::debug!(%peer, "TLS handshake took too long"),
        };
        if let Err(error) = self.serve(stream, drain).await {
            tracing::debug!(%peer, error, "connection ended");
        }
    }

    async fn serve(
        &self,
        stream: TlsStream<TcpStream>,
        drain: CancellationToken,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let peer = PeerCertificates::new(chain.iter().map(|c| c.clone().into_owned()).collect());
        let multiplexed = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let old = Arc::new(Old::default());
        let traffic = Arc::new(Traffic::default());
        let service = service_fn(|request: hyper::Request<Incoming>| {
            let answering = traffic.begin();
            let (pipeline, peer, old) = (self.pipeline.clone(), peer.clone(), old.clone());
            async move {
                let _answering = answering;
                let version = request.version();
                let mut response = pipeline.answer(peer, request.map(Body::new)).await;
                old.announce(version, response.headers_mut());
                Ok::<_, Infallible>(response)
            }
        });
        let connection = self.http.serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        tokio::select! {
            ended = connection.as_mut() => return ended,
            () = silence(&traffic) => return Err("no request in time".into()),
            () = drain.cancelled() => {}
            () = self.age.reached(&traffic) => {
                self.pipeline.metrics.requests.connection_aged();
                old.set();
                if multiplexed {
                    // `GOAWAY`: what has begun goes on, and what is begun until the client has
                    // heard of it is still answered.
                    connection.as_mut().graceful_shutdown();
                }
                tokio::select! {
                    ended = connection.as_mut() => return ended,
                    () = drain.cancelled() => {}
                }
            }
        }
        connection.as_mut().graceful_shutdown();
        connection.await
    }
}

/// Returns when there has been no request for too long after a connection began. HTTP/2, and the
/// part that detects which of the two is spoken, have no such limit of their own.
async fn silence(traffic: &Traffic) {
    tokio::time::sleep(HEADER_TIMEOUT).await;
    if traffic.has_begun() {
        std::future::pending::<()>().await;
    }
}

fn http() -> Builder<TokioExecutor> {
    let mut http = Builder::new(TokioExecutor::new());
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_headers(512);
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .max_header_list_size(MAX_HEADER_BYTES)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    http
}
