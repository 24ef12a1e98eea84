//! An aggregated API server that answers canned bodies from memory: the rest of a request's cost
//! when the server behind the kube-apiserver costs nothing.

mod gzip;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use bytes::Bytes;
use futures::stream::{iter, pending};
use futures::{Stream, StreamExt as _};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
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
pub const FILES: [&str; 7] = [
    "object.json",
    "list.json",
    "page.json",
    "label.json",
    "metadata.json",
    "metadata.pb",
    "watch-list.json",
];
/// Size of the chunks that hyper receives from a cache that is read in chunks.
const CHUNK: usize = 256 * 1024;
const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The bodies.
struct Canned {
    object: Vec<Bytes>,
    list: Vec<Bytes>,
    page: Vec<Bytes>,
    label: Vec<Bytes>,
    metadata: Vec<Bytes>,
    metadata_protobuf: Vec<Bytes>,
    watch_list: Vec<Bytes>,
}

/// An answer, before it is compressed.
enum Answer {
    /// A text that is known.
    Text(StatusCode, Vec<Bytes>),
    /// The same as protobuf.
    Protobuf(Vec<Bytes>),
    /// A watch.
    Watch(Body),
}

impl Canned {
    fn read(folder: &Path) -> anyhow::Result<Self> {
        let [
            object,
            list,
            page,
            label,
            metadata,
            metadata_protobuf,
            watch_list,
        ] = FILES.map(|file| {
            let path = folder.join(file);
            let bytes = std::fs::read(&path);
            let bytes = bytes.with_context(|| format!("cannot read {}", path.display()))?;
            anyhow::Ok(chunks(&Bytes::from(bytes)))
        });
        Ok(Self {
            object: object?,
            list: list?,
            page: page?,
            label: label?,
            metadata: metadata?,
            metadata_protobuf: metadata_protobuf?,
            watch_list: watch_list?,
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
            let answer = response(&head, answer(&canned, &head));
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

fn answer(canned: &Canned, head: &Parts) -> Answer {
    let query = head.uri.query().unwrap_or_default();
    let path = head.uri.path().trim_matches('/');
    let segments: Vec<&str> = path.split('/').collect();
    let ok = |chunks: &Vec<Bytes>| Answer::Text(StatusCode::OK, chunks.clone());
    match (&head.method, segments.as_slice()) {
        (&Method::POST, _) => Answer::Text(StatusCode::CREATED, canned.object.clone()),
        (_, ["apis", _, _]) => Answer::Text(StatusCode::OK, vec![discovery(&segments)]),
        (_, ["apis", _, _, "events", count, bytes]) => Answer::Watch(events(count, bytes)),
        (&Method::PUT, _) | (_, ["apis", _, _, "namespaces", _, _, _]) => ok(&canned.object),
        (_, ["apis", ..]) if query.contains("sendInitialEvents=true") => {
            Answer::Watch(stream(iter(canned.watch_list.clone()).chain(pending())))
        }
        (_, ["apis", ..]) if query.contains("watch=") => Answer::Watch(silence()),
        (_, ["apis", ..]) if query.contains("limit=") => ok(&canned.page),
        (_, ["apis", ..]) if query.contains("labelSelector=") => ok(&canned.label),
        (_, ["apis", _, _, _]) => list(canned, head),
        _ => Answer::Text(StatusCode::NOT_FOUND, Vec::new()),
    }
}

/// Returns the list of everything, in the form that the client takes.
fn list(canned: &Canned, head: &Parts) -> Answer {
    let accepted = head.headers.get(header::ACCEPT);
    let accepted = accepted.and_then(|value| value.to_str().ok());
    let accepted = accepted.unwrap_or_default();
    if !accepted.contains("PartialObjectMetadataList") {
        return Answer::Text(StatusCode::OK, canned.list.clone());
    }
    if accepted.starts_with(PROTOBUF) {
        Answer::Protobuf(canned.metadata_protobuf.clone())
    } else {
        Answer::Text(StatusCode::OK, canned.metadata.clone())
    }
}

/// Returns the response, compressed where the client takes that and the server would do it.
fn response(head: &Parts, answer: Answer) -> Response<Body> {
    let (status, kind, chunks) = match answer {
        Answer::Text(status, chunks) => (status, JSON, chunks),
        Answer::Protobuf(chunks) => (StatusCode::OK, PROTOBUF, chunks),
        Answer::Watch(body) => return with_kind(Response::new(body), JSON),
    };
    let packed = gzip::is_wanted(&head.headers, &chunks);
    let body = if packed {
        stream(gzip::compressed(chunks))
    } else if chunks.len() < 2 {
        Full::new(chunks.into_iter().next().unwrap_or_default()).boxed_unsync()
    } else {
        stream(iter(chunks))
    };
    let mut response = with_kind(Response::new(body), kind);
    *response.status_mut() = status;
    if packed {
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

fn with_kind(mut response: Response<Body>, kind: &'static str) -> Response<Body> {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn stream(pieces: impl Stream<Item = Bytes> + Send + 'static) -> Body {
    let frames = pieces.map(|piece| Ok::<_, Infallible>(Frame::data(piece)));
    BodyExt::boxed_unsync(StreamBody::new(frames))
}

/// Returns a watch without events.
fn silence() -> Body {
    BodyExt::boxed_unsync(StreamBody::new(pending()))
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
