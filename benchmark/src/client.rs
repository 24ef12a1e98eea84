//! The load generator's connections: HTTP/1.1 over TLS, one request at a time, nothing more.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The certificates that an endpoint trusts and shows, as PEM.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The CA of the server.
    pub ca: String,
    /// The client's certificate.
    pub certificate: String,
    /// The client's key.
    pub key: String,
}

/// A server, and the way to connect to it.
#[derive(Clone)]
pub struct Endpoint {
    address: SocketAddr,
    host: HeaderValue,
    name: ServerName<'static>,
    tls: TlsConnector,
    headers: HeaderMap,
}

/// A request whose body was made before the clock started.
#[derive(Clone, Debug)]
pub struct Request {
    /// Method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// JSON, or nothing.
    pub body: Bytes,
    /// The `Accept` header, where there is one.
    pub accept: Option<&'static str>,
    /// Says if the answer may be compressed, as Go's clients always ask.
    pub gzip: bool,
}

/// An answer.
#[derive(Debug)]
pub struct Reply {
    /// Status.
    pub status: StatusCode,
    /// The whole body.
    pub body: Bytes,
    /// Time from the request to the first byte of the body.
    pub first_byte: Duration,
    /// Time from the request to the last byte.
    pub whole: Duration,
}

/// A warm connection.
pub struct Connection {
    host: HeaderValue,
    headers: HeaderMap,
    sender: http1::SendRequest<Full<Bytes>>,
}

impl Request {
    /// Returns a GET.
    #[must_use]
    pub fn get(path: impl Into<String>) -> Self {
        Self {
            method: Method::GET,
            path: path.into(),
            body: Bytes::new(),
            accept: None,
            gzip: false,
        }
    }

    /// Returns the request with an `Accept` header.
    #[must_use]
    pub fn accepting(mut self, accept: &'static str) -> Self {
        self.accept = Some(accept);
        self
    }

    /// Returns the request with the `Accept-Encoding` of client-go.
    #[must_use]
    pub fn compressed(mut self) -> Self {
        self.gzip = true;
        self
    }

    /// Returns a request with a body.
    #[must_use]
    pub fn new(method: Method, path: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Self {
            method,
            path: path.into(),
            body: body.into(),
            accept: None,
            gzip: false,
        }
    }
}

impl Endpoint {
    /// Returns a server at `address` whose certificate is for `name`; `headers` go with each
    /// request.
    ///
    /// # Errors
    /// If a certificate cannot be read.
    pub fn new(
        address: SocketAddr,
        name: &str,
        credentials: &Credentials,
        headers: &[(&'static str, &'static str)],
    ) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(credentials.ca.as_bytes())?)?;
        let chain = vec![CertificateDer::from_pem_slice(
            credentials.certificate.as_bytes(),
        )?];
        let key = PrivateKeyDer::from_pem_slice(credentials.key.as_bytes())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let headers = headers
            .iter()
            .map(|(name, value)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            })
            .collect();
        Ok(Self {
            address,
            host: HeaderValue::from_str(name)?,
            name: ServerName::try_from(name.to_owned())?,
            tls: TlsConnector::from(Arc::new(config)),
            headers,
        })
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// If the server does not accept it.
    pub async fn connect(&self) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(self.address)
            .await
            .with_context(|| format!("cannot connect to {}", self.address))?;
        stream.set_nodelay(true)?;
        let stream = self.tls.connect(self.name.clone(), stream).await?;
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(1024 * 1024)
            .handshake(TokioIo::new(stream))
            .await?;
        // Its end shows in the next request.
        tokio::spawn(connection);
        Ok(Connection {
            host: self.host.clone(),
            headers: self.headers.clone(),
            sender,
        })
    }

    /// Sends one request on a connection of its own.
    ///
    /// # Errors
    /// If the connection breaks.
    pub async fn once(&self, request: &Request) -> anyhow::Result<Reply> {
        self.connect().await?.send(request).await
    }
}

impl Connection {
    /// Sends a request and returns its answer's head.
    ///
    /// # Errors
    /// If the connection breaks.
    pub async fn open(&mut self, request: &Request) -> anyhow::Result<http::Response<Incoming>> {
        let mut message = http::Request::builder()
            .method(request.method.clone())
            .uri(&request.path)
            .body(Full::new(request.body.clone()))?;
        let headers = message.headers_mut();
        headers.clone_from(&self.headers);
        headers.insert(header::HOST, self.host.clone());
        if !request.body.is_empty() {
            let kind = if request.method == Method::PATCH {
                "application/merge-patch+json"
            } else {
                "application/json"
            };
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        if let Some(accept) = request.accept {
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        }
        if request.gzip {
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        }
        self.sender.ready().await.context("connection closed")?;
        Ok(self.sender.send_request(message).await?)
    }

    /// Sends a request and reads its answer.
    ///
    /// # Errors
    /// If the connection breaks.
    pub async fn send(&mut self, request: &Request) -> anyhow::Result<Reply> {
        let begun = Instant::now();
        let (head, mut body) = self.open(request).await?.into_parts();
        let mut bytes = BytesMut::new();
        let mut first_byte = None;
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame?.into_data() {
                first_byte.get_or_insert_with(|| begun.elapsed());
                bytes.extend_from_slice(&data);
            }
        }
        let whole = begun.elapsed();
        Ok(Reply {
            status: head.status,
            body: bytes.freeze(),
            first_byte: first_byte.unwrap_or(whole),
            whole,
        })
    }
}

impl Reply {
    /// Returns the answer when it is a success.
    ///
    /// # Errors
    /// If it is not, with the answer of the server.
    pub fn success(self) -> anyhow::Result<Self> {
        ensure!(
            self.status.is_success(),
            "{}: {}",
            self.status,
            String::from_utf8_lossy(&self.body[..self.body.len().min(500)])
        );
        Ok(self)
    }

    /// Returns whether the body is compressed.
    #[must_use]
    pub fn is_gzip(&self) -> bool {
        self.body.starts_with(&[0x1f, 0x8b])
    }

    /// Returns the first `resourceVersion` in the body: the object's own.
    #[must_use]
    pub fn resource_version(&self) -> Option<&str> {
        value_of(&self.body, b"\"resourceVersion\":\"")
    }
}

/// Returns the text after the first `key` up to the next quote.
#[must_use]
pub fn value_of<'a>(body: &'a [u8], key: &[u8]) -> Option<&'a str> {
    let begin = body.windows(key.len()).position(|window| window == key)? + key.len();
    let length = body[begin..].iter().position(|byte| *byte == b'"')?;
    std::str::from_utf8(&body[begin..begin + length]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_values_in_bodies() {
        let body = br#"{"metadata":{"resourceVersion":"12","x":"\"resourceVersion\":\"9"}}"#;
        assert_eq!(value_of(body, b"\"resourceVersion\":\""), Some("12"));
        assert_eq!(value_of(body, b"\"uid\":\""), None);
    }
}
