//! Whole requests, from the request line to the answer, and batches of the control API.

use std::sync::LazyLock;

use apimachinery::request_info::Query;
use apimachinery::request_info::RequestInfo;
use bytes::Bytes;
use crds::control::GateState;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, Method, Request, Uri};
use serde_json::Value;

use crate::headers;
use crate::parts::{bounded, first_line, parts};
use crate::server::{Answer, Server};

/// Most requests of one input.
const REQUESTS: usize = 6;
/// The path of batches.
const IMPORT: &str = "/apis/control.reports-server.io/v1alpha1/storedresources/\
                      policyreports.wgpolicyk8s.io/";

static OPEN: LazyLock<Server> = LazyLock::new(|| Server::start(GateState::Open));
static CLOSED: LazyLock<Server> = LazyLock::new(|| Server::start(GateState::Closed));

/// Requests in order: a line `METHOD TARGET`, headers in lines, an empty line, the body. None makes
/// the server panic or lose its database, and every refusal is a `Status`.
pub fn request(data: &[u8]) {
    let mut changed = false;
    for part in parts(data).into_iter().take(REQUESTS) {
        let Some(request) = read(part) else {
            break;
        };
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        let head = request.method() == Method::HEAD;
        let answer = OPEN.send(request);
        changed |= !reads && answer.code < 300;
        check(&answer, head, data);
    }
    if changed {
        OPEN.reset();
    }
}

fn read(part: &[u8]) -> Option<Request<Bytes>> {
    let (line, rest) = first_line(part);
    let (method, target) = line.split_once(' ')?;
    let (method, uri) = (method.parse::<Method>().ok()?, target.parse::<Uri>().ok()?);
    if waits(&method, &uri) {
        return None;
    }
    let end = rest.windows(2).position(|window| window == b"\n\n");
    // Without headers the body follows an empty line at once.
    let (lines, body) = match rest.strip_prefix(b"\n") {
        Some(body) => (&[][..], body),
        None => end.map_or((rest, &[][..]), |end| (&rest[..end], &rest[end + 2..])),
    };
    let mut request = Request::new(Bytes::copy_from_slice(body));
    *request.headers_mut() = headers::read(lines);
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    Some(request)
}

/// Returns whether a request would wait for seconds, as it must, or change what every later one
/// meets: a version that is not there yet, or an order of the operator.
fn waits(method: &Method, uri: &Uri) -> bool {
    let query = Query::parse(uri.query().unwrap_or_default());
    let ahead = |name: &str| {
        let version = query.get(name).and_then(|text| text.parse::<u64>().ok());
        version.is_some_and(|version| version > OPEN.counter())
    };
    let info = RequestInfo::parse(method, uri).unwrap_or_default();
    let order = info.api_group == crds::control::GROUP && info.is_mutating();
    ahead("resourceVersion") || order
}

fn check(answer: &Answer, head: bool, data: &[u8]) {
    let Answer { code, body, .. } = answer;
    assert!(!(501..=503).contains(code), "{code}: {}", show(body));
    if *code < 400 || head || !answer.whole || !is_plain_json(&answer.headers) {
        return;
    }
    bounded("a refusal", body.len(), data);
    let status: Value =
        serde_json::from_slice(body).unwrap_or_else(|e| panic!("{e}: {}", show(body)));
    assert_eq!(status["kind"], "Status", "{}", show(body));
    assert_eq!(status["code"], *code, "{}", show(body));
    assert_eq!(status["status"], "Failure", "{}", show(body));
    let panicked = status["message"]
        .as_str()
        .unwrap_or_default()
        .contains("made the server panic");
    assert!(!panicked, "{}", show(body));
}

fn is_plain_json(headers: &HeaderMap) -> bool {
    let type_ = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    type_ == Some("application/json") && !headers.contains_key(CONTENT_ENCODING)
}

fn show(body: &[u8]) -> String {
    String::from_utf8_lossy(&body[..body.len().min(2000)]).into_owned()
}

/// Batches of an import in order. Each is taken whole or refused, and what was taken is listed by
/// the digest with the versions that it came with.
pub fn import(data: &[u8]) {
    for part in parts(data).into_iter().take(REQUESTS) {
        let before = digest();
        let answer = CLOSED.send(control("POST", "import", part));
        check(&answer, false, data);
        let after = digest();
        if answer.code == 201 {
            let result: Value = serde_json::from_slice(&answer.body).expect("a result in JSON");
            assert_eq!(result["kind"], "ImportResult");
            listed(&after);
        } else {
            assert_eq!(before, after, "refused with {}, but changed", answer.code);
        }
    }
    CLOSED.reset();
}

fn control(method: &str, subresource: &str, body: &[u8]) -> Request<Bytes> {
    let mut request = Request::new(Bytes::copy_from_slice(body));
    *request.method_mut() = method.parse().expect("a method");
    *request.uri_mut() = format!("{IMPORT}{subresource}").parse().expect("a target");
    request
}

fn digest() -> Value {
    let answer = CLOSED.send(control("GET", "digest", b""));
    assert_eq!(answer.code, 200, "{}", show(&answer.body));
    let digest: Value = serde_json::from_slice(&answer.body).expect("a digest in JSON");
    digest["items"].clone()
}

/// Every object has a name, a namespace, a uid, and a version that a database can hold; in order.
fn listed(items: &Value) {
    let text = |item: &Value, field: &str| item[field].as_str().unwrap_or_default().to_owned();
    let mut last = None;
    for item in items.as_array().expect("a digest lists") {
        let key = (text(item, "namespace"), text(item, "name"));
        assert!(!key.0.is_empty() && !key.1.is_empty() && !text(item, "uid").is_empty());
        assert!(
            last.as_ref().is_none_or(|last| *last < key),
            "{last:?}, then {key:?}"
        );
        let version: u64 = text(item, "resourceVersion").parse().expect("a version");
        assert!(version > 0 && version < u64::MAX / 2);
        last = Some(key);
    }
}
