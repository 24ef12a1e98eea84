use std::time::Duration;

use apimachinery::error::MAX_BODY_BYTES;
use axum::body::Body;
use bytes::Bytes;
use futures::StreamExt;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use reports_server::http::LimitConfig;
use rstest::rstest;
use serde_json::json;

use crate::support::client::as_user;
use crate::support::{Options, TestServer, start};

const ECHO: &str = "/apis/g.io/v1/namespaces/n/echoes";
const GATE: &str = "/apis/g.io/v1/gates";

fn post(path: &str, body: Body) -> Request<Body> {
    let mut request = as_user(path, "bob").map(|_| body);
    *request.method_mut() = Method::POST;
    request
}

async fn limited(limits: LimitConfig) -> TestServer {
    start(Options {
        limits,
        ..Options::default()
    })
    .await
}

/// A body whose length is not announced.
fn streamed(bytes: usize) -> Body {
    let chunks = vec![Bytes::from(vec![b'x'; 64 * 1024]); bytes / (64 * 1024)];
    let last = Bytes::from(vec![b'x'; bytes % (64 * 1024)]);
    let all = futures::stream::iter(chunks).chain(futures::stream::iter([last]));
    Body::from_stream(all.map(Ok::<_, std::io::Error>))
}

#[rstest]
#[case(Body::from(vec![b'x'; MAX_BODY_BYTES]), true)]
#[case(Body::from(vec![b'x'; MAX_BODY_BYTES + 1]), false)]
#[case(streamed(MAX_BODY_BYTES), true)]
#[case(streamed(MAX_BODY_BYTES + 1), false)]
#[tokio::test]
async fn bodies_have_the_kube_apiservers_limit(#[case] body: Body, #[case] fits: bool) {
    let server = start(Options::default()).await;
    let answer = server.proxy().await.send(post(ECHO, body)).await;
    if fits {
        assert_eq!(answer.json()["body"], MAX_BODY_BYTES);
        return;
    }
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    let expected = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Request entity too large: limit is 3145728",
        "reason": "RequestEntityTooLarge", "code": 413});
    assert_eq!(answer.json(), expected);
}

#[tokio::test]
async fn too_many_requests_are_told_to_come_back_and_others_still_answered() {
    let server = limited(LimitConfig {
        reading: 1,
        ..LimitConfig::default()
    })
    .await;
    let (mut first, mut second) = (server.proxy().await, server.proxy().await);
    let held = tokio::spawn(async move { first.send(as_user(GATE, "bob")).await.status });
    server.api.arrived.notified().await;
    let answer = second.send(as_user(ECHO, "bob")).await;
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(answer.header("retry-after"), "1");
    let status = answer.json();
    assert_eq!(status["reason"], "TooManyRequests");
    assert_eq!(status["details"]["retryAfterSeconds"], 1);
    // Writes, watches, discovery and health have their own room.
    assert_eq!(
        second.send(post(ECHO, Body::empty())).await.status,
        StatusCode::OK
    );
    assert_eq!(
        second.send(as_user("/apis", "bob")).await.status,
        StatusCode::OK
    );
    let watch = second
        .open(as_user("/apis/g.io/v1/watches?watch=1", "bob"))
        .await
        .unwrap();
    assert_eq!(watch.status(), StatusCode::OK);
    server.api.gate.notify_one();
    assert_eq!(held.await.unwrap(), StatusCode::OK);
    assert_eq!(
        second.send(as_user(ECHO, "bob")).await.status,
        StatusCode::OK
    );
    let page = server.metrics.encode().unwrap();
    assert!(
        page.contains("reports_server_requests_shed_total{kind=\"readOnly\"} 1"),
        "{page}"
    );
}

#[tokio::test]
async fn bodies_share_a_budget() {
    let bytes = MAX_BODY_BYTES + 1024;
    let server = limited(LimitConfig {
        body_bytes: bytes,
        ..LimitConfig::default()
    })
    .await;
    let (mut first, mut second) = (server.proxy().await, server.proxy().await);
    let large = || Body::from(vec![b'x'; 2 * 1024 * 1024]);
    let held = tokio::spawn(async move { first.send(post(GATE, large())).await.status });
    server.api.arrived.notified().await;
    let answer = second.send(post(ECHO, large())).await;
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(
        second.send(post(ECHO, Body::from("small"))).await.status,
        StatusCode::OK
    );
    server.api.gate.notify_one();
    assert_eq!(held.await.unwrap(), StatusCode::OK);
    assert_eq!(
        second.send(post(ECHO, large())).await.status,
        StatusCode::OK
    );
}

#[tokio::test]
async fn requests_end_at_their_deadline_and_watches_have_none() {
    let deadline = Duration::from_millis(50);
    let server = limited(LimitConfig {
        deadline,
        ..LimitConfig::default()
    })
    .await;
    let mut proxy = server.proxy().await;
    let watch = as_user("/apis/g.io/v1/watches?watch=1", "bob");
    let watch = proxy.open(watch).await.unwrap().into_body();
    let answer = proxy.send(as_user(GATE, "bob")).await;
    assert_eq!(answer.status, StatusCode::GATEWAY_TIMEOUT);
    let status = answer.json();
    assert_eq!(status["reason"], "Timeout");
    assert_eq!(
        status["message"],
        "Timeout: request did not complete within the allotted duration"
    );
    // The watch has outlived the deadline and ends only with the server.
    server.drain.cancel();
    assert_eq!(watch.collect().await.unwrap().to_bytes(), "{}\n");
}

#[tokio::test]
async fn a_panic_is_one_requests_misfortune() {
    let server = start(Options::default()).await;
    let mut proxy = server.proxy().await;
    let answer = proxy.send(as_user("/apis/g.io/v1/panics", "bob")).await;
    assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(answer.json()["reason"], "InternalError");
    assert_eq!(
        proxy.send(as_user(ECHO, "bob")).await.status,
        StatusCode::OK
    );
}

#[tokio::test]
async fn a_client_that_goes_away_frees_its_place() {
    let server = limited(LimitConfig {
        reading: 1,
        ..LimitConfig::default()
    })
    .await;
    let mut gone = server.proxy().await;
    let held = tokio::spawn(async move { gone.open(as_user(GATE, "bob")).await.is_ok() });
    server.api.arrived.notified().await;
    held.abort();
    let mut next = server.proxy().await;
    let freed = async {
        while next.send(as_user(ECHO, "bob")).await.status != StatusCode::OK {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), freed)
        .await
        .unwrap();
}
