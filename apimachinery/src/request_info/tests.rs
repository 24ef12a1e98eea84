use rstest::rstest;

use super::*;

fn parse(method: &str, uri: &str) -> RequestInfo {
    RequestInfo::parse(&method.parse().unwrap(), &uri.parse().unwrap()).unwrap()
}

/// Cases of `requestinfo_test.go`, moved to a named group, and those of the report clients.
/// Expected: verb, namespace, resource, subresource, name.
#[rstest]
#[case("GET", "/apis/g/v1/namespaces", "list", "", "namespaces", "", "")]
#[case(
    "GET",
    "/apis/g/v1/namespaces/other",
    "get",
    "other",
    "namespaces",
    "",
    "other"
)]
#[case(
    "GET",
    "/apis/g/v1/namespaces/other/reports",
    "list",
    "other",
    "reports",
    "",
    ""
)]
#[case(
    "GET",
    "/apis/g/v1/namespaces/other/reports/foo",
    "get",
    "other",
    "reports",
    "",
    "foo"
)]
#[case(
    "HEAD",
    "/apis/g/v1/namespaces/other/reports/foo",
    "get",
    "other",
    "reports",
    "",
    "foo"
)]
#[case("GET", "/apis/g/v1/reports", "list", "", "reports", "", "")]
#[case("HEAD", "/apis/g/v1/reports", "list", "", "reports", "", "")]
#[case(
    "GET",
    "/apis/g/v1/namespaces/other/reports/foo/status",
    "get",
    "other",
    "reports",
    "status",
    "foo"
)]
#[case(
    "GET",
    "/apis/g/v1/namespaces/other/status",
    "get",
    "other",
    "namespaces",
    "status",
    "other"
)]
#[case("GET", "/apis/g/v1/watch/reports", "watch", "", "reports", "", "")]
#[case(
    "GET",
    "/apis/g/v1/watch/namespaces/other/reports/foo/x",
    "watch",
    "other",
    "reports",
    "",
    "foo"
)]
#[case("GET", "/apis/g/v1/reports?watch=true", "watch", "", "reports", "", "")]
#[case("GET", "/apis/g/v1/reports?watch=1", "watch", "", "reports", "", "")]
#[case("GET", "/apis/g/v1/reports?watch=", "watch", "", "reports", "", "")]
#[case(
    "GET",
    "/apis/g/v1/reports?watch=anything",
    "watch",
    "",
    "reports",
    "",
    ""
)]
#[case("GET", "/apis/g/v1/reports?watch=false", "list", "", "reports", "", "")]
#[case("GET", "/apis/g/v1/reports?watch=False", "list", "", "reports", "", "")]
#[case("GET", "/apis/g/v1/reports?watch=0", "list", "", "reports", "", "")]
#[case(
    "GET",
    "/apis/g/v1/namespaces/a/reports/x?watch=true",
    "get",
    "a",
    "reports",
    "",
    "x"
)]
#[case(
    "GET",
    "/apis/g/v1/reports?fieldSelector=metadata.name%3Dfoo",
    "list",
    "",
    "reports",
    "",
    "foo"
)]
#[case(
    "GET",
    "/apis/g/v1/reports?watch=1&fieldSelector=metadata.namespace%3Da,metadata.name%3D%3Dfoo",
    "watch",
    "",
    "reports",
    "",
    "foo"
)]
#[case(
    "GET",
    "/apis/g/v1/reports?fieldSelector=metadata.name!%3Dfoo",
    "list",
    "",
    "reports",
    "",
    ""
)]
#[case(
    "GET",
    "/apis/g/v1/reports?fieldSelector=metadata.name%3Da/b",
    "list",
    "",
    "reports",
    "",
    ""
)]
#[case(
    "GET",
    "/apis/g/v1/reports?fieldSelector=metadata.name%3D",
    "list",
    "",
    "reports",
    "",
    ""
)]
#[case(
    "POST",
    "/apis/g/v1/namespaces/a/reports",
    "create",
    "a",
    "reports",
    "",
    ""
)]
#[case(
    "POST",
    "/apis/g/v1/namespaces/a/reports/x",
    "create",
    "a",
    "reports",
    "",
    "x"
)]
#[case(
    "PUT",
    "/apis/g/v1/namespaces/a/reports/x",
    "update",
    "a",
    "reports",
    "",
    "x"
)]
#[case(
    "PATCH",
    "/apis/g/v1/namespaces/a/reports/x",
    "patch",
    "a",
    "reports",
    "",
    "x"
)]
#[case(
    "DELETE",
    "/apis/g/v1/namespaces/a/reports/x",
    "delete",
    "a",
    "reports",
    "",
    "x"
)]
#[case(
    "DELETE",
    "/apis/g/v1/namespaces/a/reports",
    "deletecollection",
    "a",
    "reports",
    "",
    ""
)]
#[case(
    "DELETE",
    "/apis/g/v1/namespaces/a/reports/",
    "deletecollection",
    "a",
    "reports",
    "",
    ""
)]
#[case(
    "OPTIONS",
    "/apis/g/v1/namespaces/a/reports/x",
    "",
    "a",
    "reports",
    "",
    "x"
)]
#[case(
    "GET",
    "/apis/g/v1/namespaces/a/reports/x%20y",
    "get",
    "a",
    "reports",
    "",
    "x y"
)]
#[case(
    "GET",
    "/apis/g/v1/namespaces/a/reports/x%2Fy",
    "get",
    "a",
    "reports",
    "y",
    "x"
)]
fn reads_resource_requests(
    #[case] method: &str,
    #[case] uri: &str,
    #[case] verb: &str,
    #[case] namespace: &str,
    #[case] resource: &str,
    #[case] subresource: &str,
    #[case] name: &str,
) {
    let info = parse(method, uri);
    assert!(info.is_resource_request);
    assert_eq!(
        (info.api_group.as_str(), info.version.as_str()),
        ("g", "v1")
    );
    assert_eq!(
        (
            info.verb.as_str(),
            info.namespace.as_str(),
            info.resource.as_str(),
            info.subresource.as_str(),
            info.name.as_str()
        ),
        (verb, namespace, resource, subresource, name)
    );
}

#[rstest]
#[case("GET", "/", "get")]
#[case("GET", "/apis", "get")]
#[case("GET", "/apis/g", "get")]
#[case("GET", "/apis/g/v1", "get")]
#[case("POST", "/apis/g/v1/", "post")]
#[case("GET", "/openapi/v3/apis/g/v1", "get")]
#[case("GET", "/api/v1/pods", "get")]
fn reads_other_requests(#[case] method: &str, #[case] uri: &str, #[case] verb: &str) {
    let info = parse(method, uri);
    assert!(!info.is_resource_request);
    assert_eq!((info.verb.as_str(), info.path.as_str()), (verb, uri));
    assert_eq!((info.resource.as_str(), info.api_group.as_str()), ("", ""));
}

#[test]
fn refuses_what_cannot_be_read() {
    let read = |uri: &str| RequestInfo::parse(&Method::GET, &uri.parse().unwrap());
    assert_eq!(
        read("/apis/g/v1/watch"),
        Err(RequestInfoError::Incomplete("/apis/g/v1/watch".to_owned()))
    );
    assert_eq!(read("/apis/%ff"), Err(RequestInfoError::PathNotUtf8));
}

#[test]
fn keeps_repeated_query_values_in_order() {
    let query = Query::parse("dryRun=All&x=1&dryRun=b%20c&empty");
    assert_eq!(query.all("dryRun").collect::<Vec<_>>(), ["All", "b c"]);
    assert_eq!(query.get("empty"), Some(""));
    assert_eq!(query.get("none"), None);
    assert!(query.flag("empty") && !query.flag("none"));
}

#[test]
fn only_watches_run_long_and_only_writes_mutate() {
    assert!(parse("GET", "/apis/g/v1/reports?watch=1").is_long_running());
    assert!(!parse("GET", "/apis/g/v1/reports").is_long_running());
    assert!(!parse("GET", "/apis/g/v1?watch=1").is_long_running());
    assert!(parse("DELETE", "/apis/g/v1/reports").is_mutating());
    assert!(!parse("HEAD", "/apis/g/v1/reports").is_mutating());
}
