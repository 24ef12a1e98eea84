//! Requests as the kube-apiserver passes them on.

use axum::body::Body;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, USER_AGENT};
use http::request::Builder;
use http::{Method, Request};
use serde_json::Value;

pub const JSON: &str = "application/json";
pub const MERGE_PATCH: &str = "application/merge-patch+json";
pub const APPLY: &str = "application/apply-patch+yaml";

pub fn get(path: &str) -> Request<Body> {
    begun(Method::GET, path).body(Body::empty()).unwrap()
}

/// Returns a request whose answer may be compressed.
pub fn get_zipped(path: &str) -> Request<Body> {
    let request = begun(Method::GET, path).header(ACCEPT_ENCODING, "gzip");
    request.body(Body::empty()).unwrap()
}

pub fn with_body(method: Method, path: &str, content_type: &str, object: &Value) -> Request<Body> {
    let text = object.to_string();
    let request = begun(method, path)
        .header(CONTENT_TYPE, content_type)
        .header(CONTENT_LENGTH, text.len().to_string());
    request.body(Body::from(text)).unwrap()
}

fn begun(method: Method, path: &str) -> Builder {
    Request::builder()
        .method(method)
        .uri(path)
        .header("x-remote-user", "system:serviceaccount:counted:engine")
        .header("x-remote-group", "system:serviceaccounts")
        .header("audit-id", "00000000-0000-4000-8000-000000000002")
        .header(ACCEPT, JSON)
        .header(USER_AGENT, "engine/1")
}
