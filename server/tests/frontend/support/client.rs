//! Clients on real connections.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::TestServer;
use super::pki::{Ca, Leaf, SERVER_NAME};

/// One HTTP/2 connection.
pub struct Client {
    sender: http2::SendRequest<Body>,
    /// Ends when the connection has ended.
    pub closed: tokio::task::JoinHandle<()>,
}

/// An answer that has been read whole.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }
}

pub async fn connect_tls(
    address: SocketAddr,
    ca: &Ca,
    leaf: Option<&Leaf>,
    alpn: &[u8],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(ca.pem.as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match leaf {
        Some(leaf) => builder
            .with_client_auth_cert(leaf.chain(), leaf.key())
            .unwrap(),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![alpn.to_vec()];
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from(SERVER_NAME).unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
}

impl Client {
    pub async fn connect(address: SocketAddr, ca: &Ca, leaf: Option<&Leaf>) -> Self {
        let stream = connect_tls(address, ca, leaf, b"h2").await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
        let closed = tokio::spawn(async move {
            let _ = connection.await;
        });
        Self { sender, closed }
    }

    /// Sends a request and waits for the head of its answer.
    pub async fn open(&mut self, request: Request<Body>) -> hyper::Result<Response<Incoming>> {
        self.sender.ready().await?;
        self.sender.send_request(request).await
    }

    /// As [`Client::open`], for a task of its own.
    pub fn begin(
        &mut self,
        request: Request<Body>,
    ) -> impl Future<Output = hyper::Result<Response<Incoming>>> + use<> {
        self.sender.send_request(request)
    }

    pub async fn send(&mut self, request: Request<Body>) -> Answer {
        let response = self.open(request).await.unwrap();
        read(response).await
    }

    pub async fn get(&mut self, path: &str) -> Answer {
        self.send(request(path, &[])).await
    }
}

impl TestServer {
    /// A kube-apiserver's connection.
    pub async fn proxy(&self) -> Client {
        self.connect(Some(&self.pki.proxy())).await
    }

    pub async fn connect(&self, leaf: Option<&Leaf>) -> Client {
        Client::connect(self.address, &self.pki.serving, leaf).await
    }
}

pub fn request(path: &str, headers: &[(&str, &str)]) -> Request<Body> {
    let uri = format!("https://{SERVER_NAME}{path}");
    let request = Request::get(uri);
    headers
        .iter()
        .fold(request, |request, (name, value)| {
            request.header(*name, *value)
        })
        .body(Body::empty())
        .unwrap()
}

/// A request as the kube-apiserver passes it on for a user.
pub fn as_user(path: &str, user: &str) -> Request<Body> {
    request(path, &[("x-remote-user", user)])
}

pub async fn read(response: Response<Incoming>) -> Answer {
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let body = String::from_utf8_lossy(&body).into_owned();
    Answer {
        status: head.status,
        headers: head.headers,
        body,
    }
}

/// One request on an HTTP/1.1 connection of its own; an error when the connection breaks.
pub async fn get_http1(
    address: SocketAddr,
    ca: &Ca,
    path: &str,
) -> Result<(Answer, CertificateDer<'static>), Box<dyn std::error::Error + Send + Sync>> {
    let stream = connect_tls(address, ca, None, b"http/1.1").await?;
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let leaf = chain.first().ok_or("no certificate")?.clone().into_owned();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let response = sender
        .send_request(request(path, &[("host", SERVER_NAME)]))
        .await?;
    Ok((read(response).await, leaf))
}
