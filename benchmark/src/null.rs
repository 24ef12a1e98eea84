//! An aggregated API server that answers canned bodies from memory: the rest of a request's cost
//! when the server behind the kube-apiserver costs nothing.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use bytes::Bytes;
use futures::StreamExt as _;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Files of the canned bodies, in the order of [`Canned`].
pub const FILES: [&str; 4] = ["object.json", "list.json", "page.json", "label.json"];
/// Size of the chunks that hyper receives from a cache that is read in chunks.
const CHUNK: usize = 256 * 1024;

/// The bodies.
struct Canned {
    object: Bytes,
    list: Vec<Bytes>,
    page: Vec<Bytes>,
    label: Bytes,
}

impl Canned {
    fn read(folder: &Path) -> anyhow::Result<Self> {
        let [object, list, page, label] = FILES.map(|file| {
            let path = folder.join(file);
            std::fs::read(&path)
                .map(Bytes::from)
                .with_context(|| format!("cannot read {}", path.display()))
        });
        Ok(Self {
            object: object?,
            list: chunks(&list?),
            page: chunks(&page?),
            label: label?,
        })
    }
}

fn chunks(bytes: &Bytes) -> Vec<Bytes> {
    (0..bytes.len())
        .step_by(CHUNK)
        .map(|begin| bytes.slice(begin..(begin + CHUNK).min(bytes.len())))
        .collect()
}

/// Serves until the process ends.
///
/// # Errors
/// If the address is taken, or a file cannot be read.
pub async fn serve(
    address: SocketAddr,
    certificate: &Path,
    key: &Path,
    bodies: &Path,
) -> anyhow::Result<()> {
    let canned = Arc::new(Canned::read(bodies)?);
    let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<Vec<_>, _>>()?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_file(key)?)?;
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let listener = TcpListener::bind(address).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(connection(acceptor.clone(), stream, Arc::clone(&canned)));
    }
}

async fn connection(acceptor: TlsAcceptor, stream: TcpStream, canned: Arc<Canned>) {
    // A client that goes away ends its connection: nothing of it is ours.
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let Ok(stream) = acceptor.accept(stream).await else {
        return;
    };
    let service = service_fn(|request: Request<Incoming>| {
        let canned = Arc::clone(&canned);
        async move {
            let (head, body) = request.into_parts();
            let answer = answer(&canned, &head.method, head.uri.path(), head.uri.query());
            // Read, as a server would; a request that breaks off has no answer to be wrong.
            let _ = body.collect().await;
            Ok::<_, Infallible>(answer)
        }
    });
    // The same windows as the server's.
    let mut http = Builder::new(TokioExecutor::new());
    http.http1().timer(TokioTimer::new());
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(4000)
        .initial_stream_window_size(1024 * 1024)
        .initial_connection_window_size(16 * 1024 * 1024)
        .max_send_buf_size(4 * 1024 * 1024);
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}

fn answer(canned: &Canned, method: &Method, path: &str, query: Option<&str>) -> Response<Body> {
    let query = query.unwrap_or_default();
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (status, body) = match (method, segments.as_slice()) {
        (&Method::POST, _) => (StatusCode::CREATED, full(canned.object.clone())),
        (_, ["apis", _, _]) => (StatusCode::OK, full(discovery(&segments))),
        (_, ["apis", _, _, "events", count, bytes]) => (StatusCode::OK, events(count, bytes)),
        (&Method::PUT, _) | (_, ["apis", _, _, "namespaces", _, _, _]) => {
            (StatusCode::OK, full(canned.object.clone()))
        }
        (_, ["apis", ..]) if query.contains("watch=") => (StatusCode::OK, silence()),
        (_, ["apis", ..]) if query.contains("limit=") => (StatusCode::OK, parts(&canned.page)),
        (_, ["apis", ..]) if query.contains("labelSelector=") => {
            (StatusCode::OK, full(canned.label.clone()))
        }
        (_, ["apis", _, _, _]) => (StatusCode::OK, parts(&canned.list)),
        _ => (StatusCode::NOT_FOUND, full(Bytes::new())),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("application/json"),
    );
    response
}

fn full(bytes: Bytes) -> Body {
    Full::new(bytes).boxed_unsync()
}

fn parts(chunks: &[Bytes]) -> Body {
    let frames: Vec<_> = chunks
        .iter()
        .map(|chunk| Ok::<_, Infallible>(Frame::data(chunk.clone())))
        .collect();
    BodyExt::boxed_unsync(StreamBody::new(futures::stream::iter(frames)))
}

/// Returns a watch without events.
fn silence() -> Body {
    BodyExt::boxed_unsync(StreamBody::new(futures::stream::pending()))
}

/// Returns this many events of this many bytes, each a frame as a watch sends it.
fn events(count: &str, bytes: &str) -> Body {
    let object = "x".repeat(bytes.parse().unwrap_or(0));
    let event = Bytes::from(format!(
        "{{\"type\":\"MODIFIED\",\"object\":\"{object}\"}}\n"
    ));
    let count = count.parse().unwrap_or(0);
    let frames = futures::stream::repeat(event)
        .take(count)
        .map(|event| Ok(Frame::data(event)));
    BodyExt::boxed_unsync(StreamBody::new(frames))
}

fn discovery(segments: &[&str]) -> Bytes {
    let version = segments[1..].join("/");
    Bytes::from(format!(
        r#"{{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"{version}","resources":[]}}"#
    ))
}
