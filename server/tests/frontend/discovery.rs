use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, StatusCode};
use rstest::rstest;

use crate::support::client::{as_user, request};
use crate::support::{Options, start};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
const GROUP: &str = "/apis/wgpolicyk8s.io";

#[tokio::test]
async fn aggregated_discovery_is_revalidated_by_its_tag() {
    let server = start(Options::default()).await;
    let mut proxy = server.proxy().await;
    let user = ("x-remote-user", "system:kube-aggregator");
    let answer = proxy
        .send(request("/apis", &[user, ("accept", AGGREGATED)]))
        .await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(
        answer.header("content-type"),
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    );
    assert_eq!(answer.header("vary"), "Accept");
    assert_eq!(answer.header("cache-control"), "public");
    assert_eq!(answer.json()["kind"], "APIGroupDiscoveryList");
    let tag = answer.header("etag").to_owned();
    assert!(tag.len() == 130 && tag.starts_with('"'), "{tag}");
    let again = [
        user,
        ("accept", AGGREGATED),
        ("if-none-match", tag.as_str()),
    ];
    let answer = proxy.send(request("/apis", &again)).await;
    assert_eq!(
        (answer.status, answer.body.as_str()),
        (StatusCode::NOT_MODIFIED, "")
    );
    assert_eq!(answer.header("etag"), tag);
}

#[rstest]
#[case("/apis", "APIGroupList")]
#[case(GROUP, "APIGroup")]
#[case("/apis/wgpolicyk8s.io/v1alpha2", "APIResourceList")]
#[case("/apis/wgpolicyk8s.io/v1alpha2/", "APIResourceList")]
#[case("/apis/control.reports-server.io/v1alpha1", "APIResourceList")]
#[tokio::test]
async fn legacy_discovery_is_plain(#[case] path: &str, #[case] kind: &str) {
    let server = start(Options::default()).await;
    let answer = server.proxy().await.send(as_user(path, "bob")).await;
    assert_eq!(answer.json()["kind"], kind);
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.header("x-reports-server"), reports_server::VERSION);
    for absent in ["cache-control", "audit-id", "etag"] {
        assert_eq!(answer.header(absent), "", "{absent}");
    }
}

#[tokio::test]
async fn openapi_is_found_by_its_index_and_kept_by_its_hash() {
    let server = start(Options::default()).await;
    let mut proxy = server.proxy().await;
    let index = proxy.send(as_user("/openapi/v3", "bob")).await.json();
    let url = index["paths"]["apis/wgpolicyk8s.io/v1alpha2"]["serverRelativeURL"]
        .as_str()
        .unwrap();
    assert!(
        url.starts_with("/openapi/v3/apis/wgpolicyk8s.io/v1alpha2?hash="),
        "{url}"
    );
    let answer = proxy.send(as_user(url, "bob")).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.header("cache-control"), "public, immutable");
    assert!(
        answer.header("expires").ends_with(" GMT"),
        "{:?}",
        answer.headers
    );
    assert_eq!(answer.header("vary"), "Accept");
    // A hash of yesterday is answered with today's document, which must not be kept for ever.
    let old = "/openapi/v3/apis/wgpolicyk8s.io/v1alpha2?hash=OLD";
    let stale = proxy.send(as_user(old, "bob")).await;
    assert_eq!((stale.status, stale.body), (StatusCode::OK, answer.body));
    assert_eq!(stale.headers.get("cache-control"), None);
}

/// client-go names the form by a name that is no media type, and is answered by one that is.
#[rstest]
#[case("application/com.github.proto-openapi.spec.v3@v1.0+protobuf")]
#[case("text/html, application/com.github.proto-openapi.spec.v3.v1.0+protobuf;q=0.5")]
#[tokio::test]
async fn openapi_is_given_in_protobuf(#[case] accept: &str) {
    let server = start(Options::default()).await;
    let mut proxy = server.proxy().await;
    let path = "/openapi/v3/apis/wgpolicyk8s.io/v1alpha2";
    let json = proxy.send(as_user(path, "bob")).await;
    let asked = [("x-remote-user", "bob"), ("accept", accept)];
    let answer = proxy.send(request(path, &asked)).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(
        answer.header("content-type"),
        "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
    );
    assert_eq!(answer.header("etag"), json.header("etag"));
    assert!(answer.body.starts_with("\n\u{5}3.0.0"));
    let asked = [("x-remote-user", "bob"), ("accept", "text/html")];
    let answer = proxy.send(request(path, &asked)).await;
    assert_eq!(answer.status, StatusCode::NOT_ACCEPTABLE);
}

#[rstest]
#[case("/")]
#[case("/openapi/v2")]
#[case("/openapi/v3/apis/other.io/v1")]
#[case("/apis/other.io")]
#[case("/apis/wgpolicyk8s.io/v9")]
#[case("/api/v1/pods")]
#[tokio::test]
async fn other_paths_lead_nowhere(#[case] path: &str) {
    let server = start(Options::default()).await;
    let answer = server.proxy().await.send(as_user(path, "bob")).await;
    assert_eq!(
        (answer.status, answer.body.as_str()),
        (StatusCode::NOT_FOUND, "404 page not found\n")
    );
    assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8");
    assert_eq!(answer.header("x-reports-server"), reports_server::VERSION);
}

#[tokio::test]
async fn discovery_is_read_only() {
    let server = start(Options::default()).await;
    let mut request = as_user(GROUP, "bob");
    *request.method_mut() = Method::POST;
    let answer = server.proxy().await.send(request).await;
    assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn head_answers_without_a_body() {
    let server = start(Options::default()).await;
    let mut proxy = server.proxy().await;
    let length = proxy
        .send(as_user(GROUP, "bob"))
        .await
        .body
        .len()
        .to_string();
    let mut request = as_user(GROUP, "bob");
    *request.method_mut() = Method::HEAD;
    let answer = proxy.send(request).await;
    assert_eq!((answer.status, answer.body.as_str()), (StatusCode::OK, ""));
    assert_eq!(answer.header("content-length"), length);
}

#[tokio::test]
async fn large_answers_are_compressed_when_asked_for() {
    let server = start(Options::default()).await;
    let mut proxy = server.proxy().await;
    let ask = |path, encoding| {
        request(
            path,
            &[("x-remote-user", "bob"), ("accept-encoding", encoding)],
        )
    };
    let large = "/apis/g.io/v1/larges";
    let packed = proxy.send(ask(large, "gzip")).await;
    assert_eq!(packed.header("content-encoding"), "gzip");
    assert!(packed.body.len() < 10_000);
    let plain = proxy.send(ask(large, "identity")).await;
    assert_eq!(
        (plain.header("content-encoding"), plain.body.len()),
        ("", 200_000)
    );
    let small = proxy.send(ask("/apis/g.io/v1/echoes", "gzip")).await;
    assert_eq!(small.header("content-encoding"), "");
    let watch = proxy
        .open(ask("/apis/g.io/v1/watches?watch=1", "gzip"))
        .await
        .unwrap();
    assert!(!watch.headers().contains_key("content-encoding"));
}

#[tokio::test]
async fn metrics_name_only_resources_that_are_served() {
    let server = start(Options::default()).await;
    let mut proxy = server.proxy().await;
    let known = "/apis/wgpolicyk8s.io/v1alpha2/policyreports";
    let watch = proxy
        .open(as_user(&format!("{known}?watch=1"), "bob"))
        .await
        .unwrap();
    for path in [known, "/apis/g.io/v1/madeups"] {
        proxy.send(as_user(path, "bob")).await;
    }
    let path = "/apis/wgpolicyk8s.io/v1alpha2/namespaces/default/policyreports/a";
    let mut apply = as_user(path, "bob");
    *apply.method_mut() = Method::PATCH;
    let type_ = HeaderValue::from_static("application/apply-patch+yaml; charset=utf-8");
    apply.headers_mut().insert(CONTENT_TYPE, type_);
    proxy.send(apply).await;
    let answer = proxy.send(as_user("/metrics", "bob")).await;
    assert_eq!(
        answer.header("content-type"),
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    );
    let page = answer.body;
    let series = [
        "reports_server_requests_total{verb=\"list\",group=\"wgpolicyk8s.io\",\
         resource=\"policyreports\",code=\"200\"} 1",
        "reports_server_requests_total{verb=\"list\",group=\"\",resource=\"\",code=\"200\"} 1",
        "reports_server_requests_total{verb=\"apply\",group=\"wgpolicyk8s.io\",\
         resource=\"policyreports\",code=\"200\"} 1",
        "reports_server_watchers{verb=\"watch\",group=\"wgpolicyk8s.io\",\
         resource=\"policyreports\"} 1",
        "reports_server_reviews_total{kind=\"SubjectAccessReview\",outcome=\"answered\"}",
        "reports_server_connections 1",
    ];
    for expected in series {
        assert!(page.contains(expected), "{expected} is not in\n{page}");
    }
    assert!(!page.contains("madeups"));
    drop(watch);
}
