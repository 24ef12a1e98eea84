//! The listeners of the endpoints.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::access::Access;
use super::certificate::Certificates;
use super::error::Error;
use super::{connections, health, metrics};
use crate::metrics::Metrics;

/// The addresses of the endpoints, and who may read the metrics.
pub struct Settings {
    /// Address of `/healthz` and `/readyz`.
    pub health: SocketAddr,
    /// Address of `/metrics`.
    pub metrics: SocketAddr,
    /// TLS and authorization of the metrics; without, they are served over plain HTTP to everybody.
    pub secure: Option<Secure>,
}

/// TLS and authorization of the metrics.
pub struct Secure {
    /// The certificate.
    pub certificates: Arc<Certificates>,
    /// The decision who may read.
    pub access: Access,
}

/// The endpoints on their addresses.
pub struct Endpoints {
    health: (TcpListener, Router),
    metrics: (TcpListener, Router),
    tls: Option<Tls>,
}

/// The parts of TLS that are at work while the metrics are served.
struct Tls {
    acceptor: TlsAcceptor,
    certificates: Arc<Certificates>,
    /// The metrics that show the certificate.
    metrics: Metrics,
}

impl Tls {
    fn new(certificates: Arc<Certificates>, metrics: Metrics) -> Result<Self, Error> {
        let acceptor = connections::tls(certificates.clone()).map_err(Error::Tls)?;
        certificates.show(&metrics);
        Ok(Self {
            acceptor,
            certificates,
            metrics,
        })
    }

    async fn serve(self, listener: TcpListener, router: Router, end: CancellationToken) {
        tokio::select! {
            () = connections::serve(listener, self.acceptor, router, end) => {}
            () = self.certificates.follow(&self.metrics) => {}
        }
    }
}

impl Endpoints {
    /// Binds the listeners. `ready` decides the answer of `/readyz`.
    ///
    /// # Errors
    /// If an address cannot be bound.
    pub async fn bind(
        settings: Settings,
        metrics: Metrics,
        ready: watch::Receiver<bool>,
    ) -> Result<Self, Error> {
        let (access, tls) = match settings.secure {
            Some(Secure {
                certificates,
                access,
            }) => {
                let tls = Tls::new(certificates, metrics.clone())?;
                (Some(access), Some(tls))
            }
            None => (None, None),
        };
        let health = listen(settings.health, "--health-bind-address").await?;
        let listener = listen(settings.metrics, "--metrics-bind-address").await?;
        Ok(Self {
            health: (health, health::router(ready)),
            metrics: (listener, metrics::router(metrics, access)),
            tls,
        })
    }

    /// Returns the address of `/healthz` and `/readyz`.
    ///
    /// # Errors
    /// If the socket is gone.
    pub fn health_address(&self) -> io::Result<SocketAddr> {
        self.health.0.local_addr()
    }

    /// Returns the address of `/metrics`.
    ///
    /// # Errors
    /// If the socket is gone.
    pub fn metrics_address(&self) -> io::Result<SocketAddr> {
        self.metrics.0.local_addr()
    }

    /// Serves until `end`.
    ///
    /// # Errors
    /// If a listener fails.
    pub async fn run(self, end: CancellationToken) -> Result<(), Error> {
        let Self {
            health: (listener, router),
            metrics,
            tls,
        } = self;
        let health = connections::serve_plain(listener, router, end.clone());
        let (listener, router) = metrics;
        let metrics = async move {
            let Some(tls) = tls else {
                return connections::serve_plain(listener, router, end).await;
            };
            tls.serve(listener, router, end).await;
            Ok(())
        };
        let ((), ()) = tokio::try_join!(health, metrics).map_err(Error::Serve)?;
        Ok(())
    }
}

async fn listen(address: SocketAddr, option: &'static str) -> Result<TcpListener, Error> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|source| Error::Bind {
        address,
        option,
        source,
    })
}
