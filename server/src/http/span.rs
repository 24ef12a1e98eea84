//! The span of a request in a trace, named and described as HTTP's semantic conventions of
//! OpenTelemetry say.

use apimachinery::request_info::RequestInfo;
use http::header::USER_AGENT;
use http::{HeaderMap, Method};
use tracing::Span;
use tracing::field::Empty;

use super::health::Health;

/// Longest text of a client that a span keeps, in bytes. A head may have a megabyte, and thousands of
/// spans wait in memory for the collector. The path of every report is shorter.
const MAX_TEXT: usize = 1024;
/// The method in place of one that a client makes up.
const OTHER_METHOD: &str = "_OTHER";

/// Returns the span of a request, from its head to the head of its answer. Probes have none: they
/// ask every few seconds. `known` says that the resource is one of ours; a path that a client makes
/// up gives no name, and a long text of a client is cut.
pub(super) fn begin(
    method: &Method,
    info: &RequestInfo,
    headers: &HeaderMap,
    request_id: &str,
    known: bool,
) -> Span {
    if Health::is_endpoint(info) {
        return Span::none();
    }
    let agent = headers
        .get(USER_AGENT)
        .and_then(|value| value.to_str().ok());
    tracing::info_span!(
        target: traces::TARGET,
        "request",
        otel.name = name(method, info, known),
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = method_of(method),
        http.route = known.then(|| route(info)),
        http.response.status_code = Empty,
        url.scheme = "https",
        url.path = cut(&info.path),
        user_agent.original = agent.map(cut),
        "error.type" = Empty,
        reports_server.request_id = request_id,
        reports_server.verb = cut(&info.verb),
        reports_server.api_group = cut(&info.api_group),
        reports_server.resource = cut(&info.resource),
        reports_server.subresource = cut(&info.subresource),
    )
}

/// Notes the answer. A refusal is no error of the server.
pub(super) fn finish(span: &Span, code: u16) {
    span.record("http.response.status_code", code);
    if code >= 500 {
        span.record("otel.status_code", "ERROR");
        span.record("error.type", code.to_string());
    }
}

fn name(method: &Method, info: &RequestInfo, known: bool) -> String {
    let method = match method_of(method) {
        OTHER_METHOD => "HTTP",
        method => method,
    };
    if known {
        format!("{method} {}", route(info))
    } else {
        method.to_owned()
    }
}

/// Returns the name of a method. A client may make up others than those of HTTP, of any length.
fn method_of(method: &Method) -> &str {
    match *method {
        Method::GET
        | Method::HEAD
        | Method::POST
        | Method::PUT
        | Method::PATCH
        | Method::DELETE
        | Method::CONNECT
        | Method::OPTIONS
        | Method::TRACE => method.as_str(),
        _ => OTHER_METHOD,
    }
}

/// Returns the beginning of a text of a client.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT)]
}

/// Returns the path of a resource with its variable parts left open.
fn route(info: &RequestInfo) -> String {
    let mut route = format!("/apis/{}/{{version}}", info.api_group);
    if !info.namespace.is_empty() {
        route.push_str("/namespaces/{namespace}");
    }
    route.push('/');
    route.push_str(&info.resource);
    if info.parts.len() > 1 {
        route.push_str("/{name}");
    }
    if !info.subresource.is_empty() {
        route.push_str("/{subresource}");
    }
    route
}

#[cfg(test)]
mod tests {
    use http::Uri;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("/apis/g.io/v1/echoes", "GET /apis/g.io/{version}/echoes")]
    #[case("/apis/g.io/v1/echoes/a", "GET /apis/g.io/{version}/echoes/{name}")]
    #[case(
        "/apis/g.io/v1/namespaces/a/echoes/b/status",
        "GET /apis/g.io/{version}/namespaces/{namespace}/echoes/{name}/{subresource}"
    )]
    fn the_names_of_spans_are_few(#[case] path: &str, #[case] expected: &str) {
        let uri: Uri = path.parse().unwrap();
        let info = RequestInfo::parse(&Method::GET, &uri).unwrap();
        assert_eq!(name(&Method::GET, &info, true), expected);
        assert_eq!(name(&Method::GET, &info, false), "GET");
        let made_up = Method::from_bytes(b"MADE-UP").unwrap();
        assert_eq!(method_of(&made_up), "_OTHER");
        assert_eq!(name(&made_up, &info, false), "HTTP");
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("/a"), "/a");
        let long = "é".repeat(MAX_TEXT);
        assert_eq!(cut(&long).len(), MAX_TEXT);
        assert_eq!(cut(&format!("a{long}")).len(), MAX_TEXT - 1);
    }
}
