use http::Response;
use serde_json::json;
use tower_test::mock;

use super::*;
use crate::leader::Term;
use crate::testing::pair_within;

fn wire(respond: impl Fn(&Request<Body>) -> Response<Body> + Send + 'static) -> Wire {
    let (service, mut handle) = mock::pair::<Request<Body>, Response<Body>>();
    tokio::spawn(async move {
        while let Some((request, send)) = handle.next_request().await {
            let response = respond(&request);
            send.send_response(response);
        }
    });
    Wire::new(kube::Client::new(service, "default"))
}

#[tokio::test]
async fn watch_yields_whole_events_and_a_clean_end() {
    let wire = wire(|_| {
        let text = concat!(
            r#"{"type":"ADDED","object":{"a":1,"unknown":{"x":[1]}}}"#,
            "\n",
            r#"{"type":"BOOKMARK","object":{}}"#
        );
        Response::new(Body::from(text.as_bytes().to_vec()))
    });
    let mut stream = wire.watch("/apis/g/v/r?watch=1").await.unwrap();
    let first = stream.next().await.unwrap().unwrap();
    assert_eq!(first.object, json!({"a": 1, "unknown": {"x": [1]}}));
    assert_eq!(stream.next().await.unwrap().unwrap().type_, "BOOKMARK");
    assert_eq!(stream.next().await.unwrap(), None);
    assert!(!stream.is_ours());
}

#[tokio::test]
async fn a_cut_event_is_an_error_and_not_a_clean_end() {
    let wire = wire(|_| Response::new(Body::from(br#"{"type":"ADDED","obj"#.to_vec())));
    let mut stream = wire.watch("/apis/g/v/r?watch=1").await.unwrap();
    assert!(matches!(stream.next().await, Err(WireError::Decode { .. })));
}

#[tokio::test]
async fn an_error_status_keeps_code_reason_and_retry_after() {
    let wire = wire(|_| {
        let body = json!({"kind": "Status", "message": "storage is (re)initializing",
            "reason": "TooManyRequests", "code": 429});
        Response::builder()
            .status(429)
            .header("Retry-After", "2")
            .body(Body::from(body.to_string().into_bytes()))
            .unwrap()
    });
    let error = wire.get("/apis/g/v/r?limit=1").await.unwrap_err();
    assert_eq!(error.code(), Some(429));
    assert_eq!(error.retry_after(), Some(Duration::from_secs(2)));
    assert!(error.is_transient());
    assert_eq!(
        error.to_string(),
        "GET /apis/g/v/r: 429 TooManyRequests: storage is (re)initializing"
    );
}

#[tokio::test]
async fn a_write_after_the_term_is_no_failure_of_the_kube_apiserver() {
    let (client, _server) = pair_within(&Term::over());
    let wire = Wire::new(client);
    let call = wire.call(Method::POST, "/apis/g/v/r?x=y", "application/json", None);
    let error = call.await.unwrap_err();
    assert!(error.is_expired() && !error.is_transient(), "{error}");
    assert_eq!(error.path(), "/apis/g/v/r");
}

#[test]
fn query_encodes_continue_tokens() {
    assert_eq!(
        query("/x", &[("continue", "a+/=&b")]),
        "/x?continue=a%2B%2F%3D%26b"
    );
}
