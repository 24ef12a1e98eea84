//! The HTTP client of the export.

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry_http::{HttpClient, HttpError};
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio::runtime::{Builder, Runtime};

use super::error::TraceError;

/// Longest time for one attempt.
const ATTEMPT: Duration = Duration::from_secs(5);
/// Longest answer of a collector that is read, in bytes.
const MAX_ANSWER: usize = 64 << 10;

type Https = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// The client with the CAs that it trusts, as they were read.
#[derive(Debug)]
struct Present {
    ca: Option<Vec<u8>>,
    client: Https,
}

/// The reason why the last exchange failed; none where it did not. The exporter of the SDK calls each
/// of them a network error, also a CA that cannot be read.
#[derive(Clone, Debug, Default)]
pub(super) struct Cause(Arc<Mutex<Option<String>>>);

impl Cause {
    fn set(&self, cause: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = cause;
    }

    /// Returns the reason.
    pub(super) fn get(&self) -> Option<String> {
        let cause = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cause.clone()
    }
}

/// The HTTP client of the export. It has a runtime of its own: the thread of the export is none of
/// those of the process's runtime, and goes on after that one has ended.
#[derive(Debug)]
pub(super) struct Transport {
    runtime: Option<Runtime>,
    ca: Option<PathBuf>,
    present: Mutex<Option<Present>>,
    cause: Cause,
}

impl Transport {
    /// Returns a client that trusts the CAs of the file, which is read again for each export, else
    /// those of Mozilla: the images have no others.
    pub(super) fn new(ca: Option<PathBuf>) -> Result<Self, TraceError> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(TraceError::Runtime)?;
        Ok(Self {
            runtime: Some(runtime),
            ca,
            present: Mutex::default(),
            cause: Cause::default(),
        })
    }

    /// Returns what tells why an exchange failed.
    pub(super) fn cause(&self) -> Cause {
        self.cause.clone()
    }

    /// Returns the client with the CAs that are in the file now.
    fn client(&self) -> Result<Https, TraceError> {
        let read = |path: &PathBuf| {
            fs::read(path).map_err(|source| TraceError::Read {
                path: path.clone(),
                source,
            })
        };
        let ca = self.ca.as_ref().map(read).transpose()?;
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(present) = &*present
            && present.ca == ca
        {
            return Ok(present.client.clone());
        }
        let client = client(ca.as_deref())?;
        *present = Some(Present {
            ca,
            client: client.clone(),
        });
        Ok(client)
    }

    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client()?;
        let exchange = async {
            let answer = client.request(request.map(Full::new)).await?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, MAX_ANSWER).collect().await?;
            Ok::<_, HttpError>(Response::from_parts(head, body.to_bytes()))
        };
        tokio::time::timeout(ATTEMPT, exchange).await?
    }
}

#[async_trait]
impl HttpClient for Transport {
    /// Blocks: it is called on the thread of the export alone.
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = match &self.runtime {
            Some(runtime) => runtime.block_on(self.exchange(request)),
            None => Err("the export has ended".into()),
        };
        let failed = answer.as_ref().err();
        self.cause.set(failed.map(|error| sentence(error.as_ref())));
        answer
    }
}

impl Drop for Transport {
    /// A runtime must not be waited for where others run.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Returns an error with its causes. Some errors name their cause already; it is not repeated.
fn sentence(error: &(dyn Error + Send + Sync + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let more = cause.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        next = cause.source();
    }
    text
}

fn client(ca: Option<&[u8]>) -> Result<Https, TraceError> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(pem) => add(&mut roots, pem)?,
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_or_http()
        .enable_http1()
        .build();
    // Nobody looks after a connection between two exports: each has one of its own.
    Ok(Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(0)
        .build(connector))
}

fn add(roots: &mut RootCertStore, pem: &[u8]) -> Result<(), TraceError> {
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| TraceError::Ca(error.to_string()))?;
        roots
            .add(certificate)
            .map_err(|error| TraceError::Ca(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(TraceError::Ca("there is no certificate".to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn cas_are_read_again_for_each_export() {
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join("ca.crt");
        let transport = Transport::new(Some(file.clone())).unwrap();
        let failure = |transport: &Transport| transport.client().unwrap_err().to_string();
        assert!(failure(&transport).contains("cannot read"));
        fs::write(&file, "nothing").unwrap();
        assert!(failure(&transport).contains("no certificate"));
    }

    /// Returns the reason why a request fails to a port on which nobody listens.
    fn failure(ca: Option<PathBuf>) -> String {
        let transport = Transport::new(ca).unwrap();
        let cause = transport.cause();
        assert_eq!(cause.get(), None);
        let request = Request::post("http://127.0.0.1:1/").body(Bytes::new());
        let mut sent = transport.send_bytes(request.unwrap());
        let mut context = Context::from_waker(Waker::noop());
        let answer = sent.as_mut().poll(&mut context);
        assert!(matches!(answer, Poll::Ready(Err(_))), "{answer:?}");
        cause.get().unwrap()
    }

    #[test]
    fn the_reason_of_a_failure_is_kept() {
        let refused = failure(None);
        assert!(refused.contains("refused"), "{refused}");
        let unread = failure(Some(PathBuf::from("/nowhere/ca.crt")));
        assert!(unread.contains("cannot read the CAs"), "{unread}");
    }

    #[test]
    fn a_file_is_not_needed_for_public_cas() {
        assert!(Transport::new(None).unwrap().client().is_ok());
    }
}
