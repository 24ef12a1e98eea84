//! A server behind its pipeline, and what a request to it costs.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::error::MAX_BODY_BYTES;
use arc_swap::ArcSwap;
use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use reports_server::auth::{Authenticator, FrontProxyConfig, PeerCertificates, TokenAuthenticator};
use reports_server::http::{Health, LimitConfig, Limits, Pipeline};
use reports_server::telemetry::Metrics;
use serde_json::Value;
use tokio::sync::{Mutex, MutexGuard, watch};

use crate::harness::{Answer, Server};

/// Most CPU time of a request. The dearest take a few seconds of it in a build for tests; what
/// grows faster than its size would take minutes, or hours.
const CPU: Duration = Duration::from_secs(30);
/// Most memory that a request may take beside what was taken before, in MiB: about 170 times the
/// size of the largest body.
const MEMORY: usize = 512;
/// Longest answer that is a refusal: its texts are cut at 3 MiB each, and a character of them takes
/// up to six in JSON.
const REFUSAL: usize = 6 * 2 * MAX_BODY_BYTES + 64 * 1024;

/// Memory is that of the whole process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// A server, and what stands in front of it.
pub struct Target {
    pub server: Server,
    pipeline: Pipeline,
    _alone: MutexGuard<'static, ()>,
}

impl Target {
    pub async fn start() -> Self {
        let alone = ONE_AT_A_TIME.lock().await;
        let server = Server::start().await;
        let metrics = Arc::new(Metrics::new());
        let tokens = TokenAuthenticator::new(nobody(), metrics.reviews.clone());
        let front_proxy = Arc::new(ArcSwap::from_pointee(FrontProxyConfig::default()));
        let pipeline = Pipeline {
            authenticator: Authenticator::new(front_proxy, tokens),
            authorizer: server.rights.clone(),
            definitions: server.served.clone(),
            api: Arc::new(server.api.clone()),
            health: Health::new(Vec::new()),
            limits: Limits::new(&LimitConfig::default(), metrics.requests.clone()),
            metrics,
            audit: watch::channel(false).1,
            shutdown: server.shutdown.clone(),
        };
        Self {
            server,
            pipeline,
            _alone: alone,
        }
    }

    /// Sends a body of this type. Whatever is answered takes bounded time and memory, and a refusal
    /// is a bounded `Status`.
    pub async fn send(&self, method: &str, uri: &str, type_: &str, body: &[u8]) -> Answer {
        assert!(body.len() <= MAX_BODY_BYTES, "{} bytes", body.len());
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header("content-type", type_)
            .body(Body::from(body.to_vec()))
            .unwrap();
        let (before, began) = (resident_now(), cpu());
        let answer = self.answer(request).await;
        let (cpu, memory) = (cpu().saturating_sub(began), peak().saturating_sub(before));
        println!(
            "{method} {type_}, {} bytes: {} after {cpu:?} and {memory} MiB",
            body.len(),
            answer.code
        );
        assert!(cpu < CPU, "{cpu:?}: {}", head(&answer));
        assert!(memory < MEMORY, "{memory} MiB: {}", head(&answer));
        let warnings: usize = answer.warnings().iter().map(String::len).sum();
        assert!(warnings < 8 * 1024, "{warnings} bytes of warnings");
        if answer.code >= 400 {
            assert!(answer.code < 500, "{}: {}", answer.code, head(&answer));
            assert!(answer.body.len() <= REFUSAL, "{} bytes", answer.body.len());
            let status = answer.json();
            assert_eq!(status["kind"], "Status", "{}", head(&answer));
            assert_eq!(status["code"], answer.code, "{}", head(&answer));
            assert_ne!(status["reason"], Value::Null, "{}", head(&answer));
        }
        answer
    }

    /// As [`Target::send`]; the answer must have one of these codes.
    pub async fn expect(&self, codes: &[u16], to: (&str, &str, &str), body: &[u8]) -> Answer {
        let (method, uri, type_) = to;
        let answer = self.send(method, uri, type_, body).await;
        assert!(
            codes.contains(&answer.code),
            "{} to {method} of {type_}: {}",
            answer.code,
            head(&answer)
        );
        answer
    }

    /// A get, which must have this code.
    pub async fn get(&self, uri: &str, code: u16) -> Answer {
        self.expect(&[code], ("GET", uri, "application/json"), b"")
            .await
    }

    async fn answer(&self, request: Request<Body>) -> Answer {
        let peer = PeerCertificates::default();
        let response = self.pipeline.answer(peer, request).await;
        let (parts, body) = response.into_parts();
        Answer {
            code: parts.status.as_u16(),
            headers: parts.headers,
            body: body.collect().await.unwrap().to_bytes(),
        }
    }
}

/// The beginning of an answer.
pub fn head(answer: &Answer) -> String {
    answer.text().chars().take(500).collect()
}

/// A kube-apiserver that is never asked: who shows no token is nobody in particular.
fn nobody() -> kube::Client {
    let service = tower::service_fn(|_: Request<kube::client::Body>| async {
        Err::<http::Response<Body>, _>(std::io::Error::other("nobody shows a token"))
    });
    kube::Client::new(service, "default")
}

/// CPU time of this thread, which does all but the database's work.
fn cpu() -> Duration {
    let times = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let nanoseconds = times.split_whitespace().next().unwrap().parse().unwrap();
    Duration::from_nanos(nanoseconds)
}

/// Memory that is taken now, in MiB, from which the peak is counted.
fn resident_now() -> usize {
    // Not every system lets the peak be forgotten; then the earlier one counts.
    let forgotten = fs::write("/proc/self/clear_refs", "5").is_ok();
    memory(if forgotten { "VmRSS:" } else { "VmHWM:" })
}

fn peak() -> usize {
    memory("VmHWM:")
}

fn memory(field: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field));
    let kilobytes: usize = line
        .unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    kilobytes / 1024
}
