//! Everything that is not a resource: discovery, OpenAPI, metrics, version. Nothing here touches
//! the database, because a failing discovery would block the deletion of every namespace.

use apimachinery::document::Document;
use apimachinery::error::ApiError;
use apimachinery::protobuf::openapi_document;
use apimachinery::request_info::RequestInfo;
use axum::body::Body;
use axum::response::Response;
use http::header::{CACHE_CONTROL, ETAG, EXPIRES, IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use super::negotiation::{self, DiscoveryForm, MediaType, Offer, OpenApiForm};
use super::response::{bytes, object, text};
use crate::cluster::Served;
use crate::telemetry::{METRICS_CONTENT_TYPE, Metrics};

/// Answers a request that is not for a resource.
///
/// # Errors
/// 404 for a path that leads nowhere, 405 for a method other than GET and HEAD, 406.
pub fn answer(
    method: &Method,
    info: &RequestInfo,
    headers: &HeaderMap,
    served: &Served,
    metrics: &Metrics,
) -> Result<Response, ApiError> {
    let path = info.path.trim_matches('/');
    let parts: Vec<_> = path.split('/').collect();
    let found = match parts.as_slice() {
        ["apis"] => discovery(headers, info, served)?,
        ["apis", group] => {
            let document = served.discovery.group.get(*group);
            legacy(headers, info, document.ok_or(ApiError::PageNotFound)?)?
        }
        ["apis", group, version] => {
            let key = ((*group).to_owned(), (*version).to_owned());
            let document = served.discovery.resources.get(&key);
            legacy(headers, info, document.ok_or(ApiError::PageNotFound)?)?
        }
        ["openapi", "v3"] => {
            accept_json(headers)?;
            document(
                headers,
                &served.openapi.index,
                "application/json",
                Caching::Revalidate,
            )
        }
        ["openapi", "v3", rest @ ..] => openapi(info, headers, served, &rest.join("/"))?,
        ["metrics"] => match metrics.encode() {
            Ok(page) => bytes(StatusCode::OK, METRICS_CONTENT_TYPE, page),
            Err(error) => return Err(ApiError::internal(error)),
        },
        ["version"] => {
            let accepted = negotiation::accept(headers, &info.query, Offer::Plain)?;
            object(StatusCode::OK, accepted, &version())?
        }
        _ => return Err(ApiError::PageNotFound),
    };
    if matches!(*method, Method::GET | Method::HEAD) {
        Ok(found)
    } else {
        Ok(text(
            StatusCode::METHOD_NOT_ALLOWED,
            "405: Method Not Allowed\n",
        ))
    }
}

fn version() -> serde_json::Value {
    let mut numbers = crate::VERSION.split('.');
    serde_json::json!({
        "major": numbers.next().unwrap_or_default(),
        "minor": numbers.next().unwrap_or_default(),
        "gitVersion": format!("v{}", crate::VERSION),
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

/// The time for which a document may be reused without asking.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Caching {
    /// Ask each time.
    Revalidate,
    /// Ask each time, caches in between may store it.
    Public,
    /// The address holds the document's hash: it never changes.
    Immutable,
}

fn discovery(
    headers: &HeaderMap,
    info: &RequestInfo,
    served: &Served,
) -> Result<Response, ApiError> {
    let form = negotiation::accept_discovery(headers)?;
    let discovery = &served.discovery;
    Ok(match form {
        DiscoveryForm::V2 => document(
            headers,
            &discovery.aggregated_v2,
            form.content_type(),
            Caching::Public,
        ),
        DiscoveryForm::V2Beta1 => document(
            headers,
            &discovery.aggregated_v2beta1,
            form.content_type(),
            Caching::Public,
        ),
        DiscoveryForm::Legacy => legacy(headers, info, &discovery.groups)?,
    })
}

fn accept_json(headers: &HeaderMap) -> Result<(), ApiError> {
    negotiation::accepts_json(headers)
        .then_some(())
        .ok_or_else(|| ApiError::not_acceptable(&["application/json"]))
}

/// Returns a legacy discovery document, which carries no entity tag.
fn legacy(
    headers: &HeaderMap,
    info: &RequestInfo,
    document: &Document,
) -> Result<Response, ApiError> {
    let accepted = negotiation::accept(headers, &info.query, Offer::Plain)?;
    if accepted.media_type == MediaType::Json && !accepted.pretty {
        let body = document.body.clone();
        return Ok(bytes(StatusCode::OK, accepted.content_type(), body));
    }
    let value: serde_json::Value =
        serde_json::from_slice(&document.body).map_err(ApiError::internal)?;
    object(StatusCode::OK, accepted, &value)
}

fn openapi(
    info: &RequestInfo,
    headers: &HeaderMap,
    served: &Served,
    path: &str,
) -> Result<Response, ApiError> {
    let found = served
        .openapi
        .documents
        .get(path)
        .ok_or(ApiError::PageNotFound)?;
    let form = negotiation::accept_openapi(headers)?;
    // A hash of yesterday gets today's document. Go's servers redirect to the right address, but
    // the kube-apiserver refuses redirects of an aggregated server.
    let caching = match info.query.get("hash") {
        Some(hash) if hash == &*found.hash => Caching::Immutable,
        _ => Caching::Revalidate,
    };
    Ok(match form {
        OpenApiForm::Json => document(headers, found, form.content_type(), caching),
        OpenApiForm::Protobuf => {
            let encoded = in_protobuf(found)?;
            document(headers, &encoded, form.content_type(), caching)
        }
    })
}

/// Returns the document in protobuf, which few ask for, with the tag of its JSON, as Go's servers
/// have it.
fn in_protobuf(found: &Document) -> Result<Document, ApiError> {
    let value = serde_json::from_slice(&found.body).map_err(ApiError::internal)?;
    Ok(Document {
        body: openapi_document(&value).into(),
        hash: found.hash.clone(),
    })
}

/// Returns a document with its entity tag, or 304 when the client has it already.
fn document(
    headers: &HeaderMap,
    found: &Document,
    content_type: &'static str,
    caching: Caching,
) -> Response {
    let known = headers
        .get(IF_NONE_MATCH)
        .and_then(|value| value.to_str().ok());
    let mut response = if known.is_some_and(|tags| found.matches(tags)) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        bytes(StatusCode::OK, content_type, found.body.clone())
    };
    let mut set = |name: HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(name, value);
        }
    };
    set(ETAG, &found.etag());
    set(VARY, "Accept");
    match caching {
        Caching::Revalidate => {}
        Caching::Public => set(CACHE_CONTROL, "public"),
        Caching::Immutable => {
            set(CACHE_CONTROL, "public, immutable");
            set(EXPIRES, &in_a_year());
        }
    }
    response
}

/// Returns a year from now as an HTTP date.
fn in_a_year() -> String {
    let then = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(365 * 24);
    jiff::fmt::rfc2822::DateTimePrinter::new()
        .timestamp_to_rfc9110_string(&then)
        .unwrap_or_default()
}
