//! Requests for watches at the CRDs, as a kube-apiserver gets them.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::Request;
use axum::response::IntoResponse;
use futures::StreamExt;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, StatusCode};
use reports_server::cluster::{KubeWatches, WATCH_PROXY, WatchProxy, WatchProxyError};
use serde_json::json;

const URI: &str = "/apis/g.io/v1/things?watch=1&resourceVersion=7";
const JSON: &str = "application/json";

/// The URI and the headers of each request.
type Asked = Arc<Mutex<Vec<(String, HeaderMap)>>>;

/// Returns the watches of a kube-apiserver that answers all alike, and what it is asked.
async fn answering(status: StatusCode) -> (KubeWatches, Asked) {
    let asked = Asked::default();
    let noted = Arc::clone(&asked);
    let answer = async move |request: Request| {
        let uri = request.uri().to_string();
        noted.lock().unwrap().push((uri, request.headers().clone()));
        let headers = [(CONTENT_TYPE, JSON), (RETRY_AFTER, "0")];
        (status, headers, "a line\n").into_response()
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
    let dir = tempfile::tempdir().unwrap();
    let kubeconfig = dir.path().join("kubeconfig");
    let text = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"}}]});
    std::fs::write(&kubeconfig, text.to_string()).unwrap();
    (KubeWatches::new(Some(&kubeconfig)).await.unwrap(), asked)
}

#[tokio::test]
async fn the_request_is_the_clients_with_the_name_and_the_rights_of_the_server() {
    let (watches, asked) = answering(StatusCode::OK).await;
    let accept = Some("application/json;as=Table".to_owned());
    let mut pieces = watches.watch(URI.to_owned(), accept, JSON).await.unwrap();
    assert_eq!(pieces.next().await.unwrap(), "a line\n");
    assert_eq!(pieces.next().await, None);
    let asked = asked.lock().unwrap();
    let [(uri, headers)] = &asked[..] else {
        panic!("asked once: {asked:?}")
    };
    assert_eq!(uri, URI);
    assert_eq!(headers[USER_AGENT], WATCH_PROXY);
    assert_eq!(headers[ACCEPT], "application/json;as=Table");
    assert_eq!(headers["authorization"], "Bearer t");
}

/// A kube-apiserver that sends it on to a server of ours: the client asks again at once.
#[tokio::test]
async fn a_refusal_is_not_asked_again() {
    let (watches, asked) = answering(StatusCode::SERVICE_UNAVAILABLE).await;
    let refused = watches.watch(URI.to_owned(), None, JSON).await;
    assert!(matches!(
        refused.err(),
        Some(WatchProxyError::Refused {
            status: StatusCode::SERVICE_UNAVAILABLE,
            ..
        })
    ));
    assert_eq!(asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn another_form_than_that_of_the_answer_is_refused() {
    let (watches, _) = answering(StatusCode::OK).await;
    let form = "application/vnd.kubernetes.protobuf;stream=watch";
    let refused = watches.watch(URI.to_owned(), None, form).await;
    assert!(matches!(
        refused.err(),
        Some(WatchProxyError::Refused { .. })
    ));
}

#[tokio::test]
async fn no_more_go_on_than_the_bound_and_each_that_ends_makes_room() {
    let (watches, _) = answering(StatusCode::OK).await;
    let watch = async || watches.watch(URI.to_owned(), None, JSON).await;
    let mut open = Vec::new();
    for _ in 0..512 {
        open.push(watch().await.unwrap());
    }
    assert!(matches!(
        watch().await.err(),
        Some(WatchProxyError::TooMany)
    ));
    open.pop();
    assert!(watch().await.is_ok());
}
