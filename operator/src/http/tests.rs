//! The endpoints on the loopback: over TLS, with a kube-apiserver that says who may read.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

use super::connections::CONNECTIONS;
use super::*;
use crate::certs::{Pair, SELF_SIGNED_VALIDITY, TLS_CRT, TLS_KEY, self_signed, validity_of};
use crate::metrics::Metrics;
use crate::testing::{self, Server};

/// The name under which the metrics are read.
const HOST: &str = "metrics.example";
/// The reader whom the cluster knows, and who may read.
const READER: &str = "system:serviceaccount:monitoring:prometheus";

/// Running endpoints.
struct Running {
    health: SocketAddr,
    metrics: SocketAddr,
    ready: watch::Sender<bool>,
    end: CancellationToken,
    task: JoinHandle<Result<(), Error>>,
}

impl Running {
    async fn start(secure: Option<Secure>) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let settings = Settings {
            health: any,
            metrics: any,
            secure,
        };
        let (ready, receiver) = watch::channel(false);
        let endpoints = Endpoints::bind(settings, Metrics::new(), receiver)
            .await
            .unwrap();
        let end = CancellationToken::new();
        Self {
            health: endpoints.health_address().unwrap(),
            metrics: endpoints.metrics_address().unwrap(),
            ready,
            end: end.clone(),
            task: tokio::spawn(endpoints.run(end)),
        }
    }

    async fn stop(self) {
        self.end.cancel();
        self.task.await.unwrap().unwrap();
    }
}

/// Metrics over TLS, with a certificate out of a folder.
struct Secured {
    running: Running,
    folder: TempDir,
    certificates: Arc<Certificates>,
}

impl Secured {
    async fn start(client: Client, pair: &Pair) -> Self {
        let folder = TempDir::new().unwrap();
        write(folder.path(), pair);
        let names = vec![HOST.to_owned()];
        let path = Some(folder.path().to_owned());
        let certificates = Certificates::new(path, names, Timestamp::now()).unwrap();
        let certificates = Arc::new(certificates);
        let secure = Secure {
            certificates: certificates.clone(),
            access: Access::new(client),
        };
        Self {
            running: Running::start(Some(secure)).await,
            folder,
            certificates,
        }
    }

    /// Returns the answer for a client that trusts a certificate, or the error of its handshake.
    async fn get(&self, trusted: &Pair, token: Option<&str>) -> std::io::Result<String> {
        let stream = TcpStream::connect(self.running.metrics).await?;
        let name = ServerName::try_from(HOST).unwrap();
        let stream = connector(trusted).connect(name, stream).await?;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
        Ok(request(stream, "/metrics", token).await)
    }

    /// Returns the answer for the reader, about whom the kube-apiserver is asked.
    async fn get_reviewed(&self, trusted: &Pair, server: &mut Server, allowed: bool) -> String {
        let answers = async {
            say_who(server, "good", reader()).await;
            say_whether(server, allowed).await;
        };
        let (answer, ()) = tokio::join!(self.get(trusted, Some("good")), answers);
        answer.unwrap()
    }
}

fn issue() -> Pair {
    let names = [HOST.to_owned()];
    let issued = self_signed(&names, Timestamp::now(), SELF_SIGNED_VALIDITY);
    issued.unwrap().0
}

fn write(folder: &Path, pair: &Pair) {
    std::fs::write(folder.join(TLS_CRT), &pair.cert).unwrap();
    std::fs::write(folder.join(TLS_KEY), &pair.key).unwrap();
}

fn connector(trusted: &Pair) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    let cert = CertificateDer::from_pem_slice(trusted.cert.as_bytes()).unwrap();
    roots.add(cert).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    TlsConnector::from(Arc::new(config))
}

async fn request(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    path: &str,
    token: Option<&str>,
) -> String {
    let token = token.map_or_else(String::new, |token| {
        format!("Authorization: Bearer {token}\r\n")
    });
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n{token}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn plain(address: SocketAddr, path: &str) -> String {
    let stream = TcpStream::connect(address).await.unwrap();
    request(stream, path, None).await
}

fn has_metrics(answer: &str) -> bool {
    answer.starts_with("HTTP/1.1 200")
        && answer.contains("application/openmetrics-text")
        && answer.trim_end().ends_with("# EOF")
}

/// Returns the line that shows the end of a certificate out of files.
fn end_of(pair: &Pair) -> String {
    let (_, end) = validity_of(&pair.cert).unwrap();
    format!(
        "\nreports_server_operator_metrics_certificate_expiry_timestamp_seconds\
         {{source=\"files\"}} {}\n",
        end.as_second()
    )
}

/// Answers the question whose a token is.
async fn say_who(server: &mut Server, token: &str, status: Value) {
    let received = server.next().await;
    assert_eq!(received.method, "POST");
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    assert!(received.path.starts_with(path), "{}", received.path);
    assert_eq!(received.body["spec"]["token"], token);
    let mut review = received.body.clone();
    review["status"] = status;
    received.answer(201, &review);
}

/// Answers the question whether the reader may read.
async fn say_whether(server: &mut Server, allowed: bool) {
    let received = server.next().await;
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    assert!(received.path.starts_with(path), "{}", received.path);
    let spec = &received.body["spec"];
    assert_eq!(spec["user"], READER);
    let asked = json!({"path": "/metrics", "verb": "get"});
    assert_eq!(spec["nonResourceAttributes"], asked);
    let mut review = received.body.clone();
    review["status"] = json!({"allowed": allowed});
    received.answer(201, &review);
}

fn reader() -> Value {
    json!({"authenticated": true, "user": {"username": READER, "groups": ["system:authenticated"]}})
}

#[tokio::test]
async fn health_is_plain_and_readiness_follows_the_operator() {
    let (client, _server) = testing::pair();
    let secured = Secured::start(client, &issue()).await;
    let running = &secured.running;
    let alive = plain(running.health, "/healthz").await;
    assert!(alive.starts_with("HTTP/1.1 200"), "{alive}");
    let waiting = plain(running.health, "/readyz").await;
    assert!(waiting.starts_with("HTTP/1.1 503"), "{waiting}");
    running.ready.send_replace(true);
    let ready = plain(running.health, "/readyz").await;
    assert!(ready.starts_with("HTTP/1.1 200"), "{ready}");
    let metrics = plain(running.health, "/metrics").await;
    assert!(metrics.starts_with("HTTP/1.1 404"), "{metrics}");
    secured.running.stop().await;
}

#[tokio::test]
async fn metrics_are_for_everybody_where_they_are_not_secured() {
    let running = Running::start(None).await;
    let metrics = plain(running.metrics, "/metrics").await;
    assert!(has_metrics(&metrics), "{metrics}");
    let health = plain(running.metrics, "/healthz").await;
    assert!(health.starts_with("HTTP/1.1 404"), "{health}");
    running.stop().await;
}

#[tokio::test]
async fn a_reader_who_may_is_asked_about_once() {
    let (client, mut server) = testing::pair();
    let pair = issue();
    let secured = Secured::start(client, &pair).await;
    let answer = secured.get_reviewed(&pair, &mut server, true).await;
    assert!(has_metrics(&answer), "{answer}");
    assert!(answer.contains(&end_of(&pair)), "{answer}");
    // Nobody answers a second question.
    let again = secured.get(&pair, Some("good")).await.unwrap();
    assert!(has_metrics(&again), "{again}");
    secured.running.stop().await;
}

#[tokio::test]
async fn a_reader_who_may_not_is_refused() {
    let (client, mut server) = testing::pair();
    let pair = issue();
    let secured = Secured::start(client, &pair).await;
    let answer = secured.get_reviewed(&pair, &mut server, false).await;
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    assert!(answer.contains(READER), "{answer}");
    secured.running.stop().await;
}

#[tokio::test]
async fn without_a_valid_token_nobody_reads() {
    let (client, mut server) = testing::pair();
    let pair = issue();
    let secured = Secured::start(client, &pair).await;
    let none = secured.get(&pair, None).await.unwrap();
    let invalid = json!({"authenticated": false});
    let answers = say_who(&mut server, "bad", invalid);
    let (bad, ()) = tokio::join!(secured.get(&pair, Some("bad")), answers);
    for answer in [none, bad.unwrap()] {
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
        let lower = answer.to_ascii_lowercase();
        assert!(lower.contains("www-authenticate: bearer"), "{answer}");
    }
    secured.running.stop().await;
}

#[tokio::test]
async fn a_kube_apiserver_that_does_not_say_admits_nobody_and_is_asked_again() {
    let (client, mut server) = testing::pair();
    let pair = issue();
    let secured = Secured::start(client, &pair).await;
    let refused = async {
        server.next().await.refuse(403, "Forbidden");
    };
    let (answer, ()) = tokio::join!(secured.get(&pair, Some("good")), refused);
    let answer = answer.unwrap();
    assert!(answer.starts_with("HTTP/1.1 500"), "{answer}");
    let answer = secured.get_reviewed(&pair, &mut server, true).await;
    assert!(has_metrics(&answer), "{answer}");
    secured.running.stop().await;
}

#[tokio::test]
async fn a_new_certificate_is_shown_without_a_restart() {
    let (client, _server) = testing::pair();
    let (first, second) = (issue(), issue());
    let secured = Secured::start(client, &first).await;
    assert!(secured.get(&first, None).await.is_ok());
    assert!(secured.get(&second, None).await.is_err());
    write(secured.folder.path(), &second);
    assert!(secured.certificates.look(Timestamp::now()).unwrap());
    assert!(secured.get(&second, None).await.is_ok());
    assert!(secured.get(&first, None).await.is_err());
    secured.running.stop().await;
}

#[tokio::test]
async fn metrics_over_tls_are_not_there_in_plain() {
    let (client, _server) = testing::pair();
    let secured = Secured::start(client, &issue()).await;
    let mut stream = TcpStream::connect(secured.running.metrics).await.unwrap();
    let request = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    // An alert, or a reset; no metrics.
    drop(stream.read_to_end(&mut answer).await);
    let answer = String::from_utf8_lossy(&answer);
    assert!(!answer.contains("HTTP/1.1"), "{answer}");
    secured.running.stop().await;
}

#[tokio::test]
async fn further_readers_wait_while_there_are_too_many() {
    let (client, _server) = testing::pair();
    let pair = issue();
    let secured = Secured::start(client, &pair).await;
    let mut silent = Vec::new();
    for _ in 0..CONNECTIONS {
        let stream = TcpStream::connect(secured.running.metrics).await;
        silent.push(stream.unwrap());
    }
    let answer = {
        let waiting = secured.get(&pair, None);
        tokio::pin!(waiting);
        let early = tokio::time::timeout(Duration::from_millis(300), waiting.as_mut());
        assert!(early.await.is_err(), "nobody has left");
        drop(silent.pop());
        waiting.await.unwrap()
    };
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    drop(silent);
    secured.running.stop().await;
}
