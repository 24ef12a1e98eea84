//! Traces, as a collector gets them.

use http::{Method, StatusCode};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode as SpanStatus;
use prost::Message;
use serde_json::json;
use traces::{MAX_RATE, Traces};
use tracing::Dispatch;
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::support::client::request;
use crate::support::collector::{Collector, attribute, hex};
use crate::support::kube_api::KubeApi;
use crate::support::{Options, start};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SENDER: &str = "00f067aa0ba902b7";
const PATH: &str = "/apis/wgpolicyk8s.io/v1alpha2/namespaces/a/policyreports/b";
const NAME: &str = "GET /apis/wgpolicyk8s.io/{version}/namespaces/{namespace}/policyreports/{name}";

/// Has the spans of this thread, on which the test's server runs, go to `traces`, while both parts of
/// the answer live: while there is one dispatcher alone, a span that another thread meets first is
/// decided on by that thread's, which is none, and is recorded nowhere from then on.
fn traced(traces: &Traces) -> (DefaultGuard, Dispatch) {
    let second = Dispatch::new(NoSubscriber::new());
    let layers = tracing_subscriber::registry().with(traces.layer());
    (layers.set_default(), second)
}

/// Returns a `traceparent` whose sender records its trace.
fn traceparent() -> String {
    format!("00-{TRACE}-{SENDER}-01")
}

#[tokio::test]
async fn a_request_goes_on_with_the_trace_of_the_kube_apiserver() {
    let collector = Collector::start().await;
    // Only what a sender records.
    let traces = collector.traces(0);
    let guard = traced(&traces);
    let server = start(Options::default()).await;
    let traceparent = traceparent();
    let headers = [
        ("x-remote-user", "bob"),
        ("traceparent", traceparent.as_str()),
        ("user-agent", "kubectl"),
        ("audit-id", "an-audit-id"),
    ];
    let mut proxy = server.proxy().await;
    let answer = proxy.send(request(PATH, &headers)).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    // One that nobody records.
    let plain = [("x-remote-user", "eve")];
    proxy.send(request(PATH, &plain)).await;
    drop(guard);

    let collected = collector.collected(traces).await;
    assert!(
        collected
            .services
            .iter()
            .all(|name| name == "reports-server"),
        "{collected:?}"
    );
    let span = collected.span(NAME);
    assert_eq!(hex(&span.trace_id), TRACE);
    assert_eq!(hex(&span.parent_span_id), SENDER);
    assert_eq!(span.kind(), SpanKind::Server);
    let expected = [
        ("http.request.method", "GET"),
        ("http.response.status_code", "200"),
        ("url.path", PATH),
        ("user_agent.original", "kubectl"),
        ("reports_server.request_id", "an-audit-id"),
        ("reports_server.verb", "get"),
        ("reports_server.api_group", "wgpolicyk8s.io"),
        ("reports_server.resource", "policyreports"),
        ("error.type", ""),
        // The same in every span.
        ("target", ""),
    ];
    for (name, value) in expected {
        assert_eq!(attribute(span, name), value, "{name}");
    }
    let review = collected.span("SubjectAccessReview");
    assert_eq!(review.trace_id, span.trace_id);
    assert_eq!(review.parent_span_id, span.span_id);
    assert_eq!(review.kind(), SpanKind::Client);
    let all: Vec<_> = collected.spans.iter().map(|span| &span.name).collect();
    assert_eq!(all.len(), 2, "{all:?}");
}

#[tokio::test]
async fn a_direct_client_has_no_say_in_what_is_recorded() {
    let collector = Collector::start().await;
    let traces = collector.traces(0);
    let guard = traced(&traces);
    let server = start(Options::default()).await;
    let traceparent = traceparent();
    let headers = [
        ("authorization", "Bearer good"),
        ("traceparent", traceparent.as_str()),
    ];
    let mut client = server.connect(None).await;
    let answer = client.send(request(PATH, &headers)).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    drop(guard);
    let collected = collector.collected(traces).await;
    assert!(collected.spans.is_empty(), "{collected:?}");
}

#[tokio::test]
async fn long_texts_of_a_client_are_cut() {
    let collector = Collector::start().await;
    let traces = collector.traces(MAX_RATE);
    let guard = traced(&traces);
    let server = start(Options::default()).await;
    let long = "x".repeat(20_000);
    let headers = [("x-remote-user", "bob"), ("user-agent", long.as_str())];
    let path = format!("/apis/{long}/v1/{long}/a/{long}");
    let mut client = server.proxy().await;
    let mut sent = request(&path, &headers);
    *sent.method_mut() = Method::from_bytes(b"MADE-UP").unwrap();
    client.send(sent).await;
    drop(guard);
    let collected = collector.collected(traces).await;
    let span = collected.span("HTTP");
    assert_eq!(attribute(span, "http.request.method"), "_OTHER");
    assert_eq!(attribute(span, "user_agent.original").len(), 1024);
    assert_eq!(attribute(span, "url.path"), path[..1024]);
    assert!(span.encoded_len() < 10_000, "{}", span.encoded_len());
}

#[tokio::test]
async fn errors_are_errors_and_probes_are_nothing() {
    let collector = Collector::start().await;
    let traces = collector.traces(MAX_RATE);
    let guard = traced(&traces);
    let forbidden = json!({"kind": "Status", "apiVersion": "v1", "metadata": {},
        "status": "Failure", "message": "no", "reason": "Forbidden", "code": 403});
    let kube = KubeApi::new(move |_, _| (403, forbidden.clone()));
    let server = start(Options {
        kube,
        ..Options::default()
    })
    .await;
    let mut proxy = server.proxy().await;
    proxy.get("/readyz").await;
    let answer = proxy
        .send(request(
            "/apis/made.up/v1/things",
            &[("x-remote-user", "bob")],
        ))
        .await;
    assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
    drop(guard);
    let collected = collector.collected(traces).await;
    // A path that a client makes up gives no name.
    let span = collected.span("GET");
    assert_eq!(attribute(span, "error.type"), "500");
    assert_eq!(span.status.as_ref().unwrap().code(), SpanStatus::Error);
    let review = collected.span("SubjectAccessReview");
    assert_eq!(review.status.as_ref().unwrap().code(), SpanStatus::Error);
    assert!(
        collected
            .spans
            .iter()
            .all(|span| hex(&span.trace_id) != TRACE),
        "{collected:?}"
    );
}
