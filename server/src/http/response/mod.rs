//! Answers from objects and errors.

#[cfg(test)]
mod tests;

use apimachinery::encoding::{EncodingError, to_json, to_json_pretty, to_yaml};
use apimachinery::error::ApiError;
use apimachinery::protobuf;
use axum::body::Body;
use axum::response::Response;
use http::header::{CONTENT_TYPE, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, StatusCode};
use serde::Serialize;

use super::negotiation::{Accepted, MediaType, Transform};

/// Returns an answer with an object in the agreed form.
///
/// # Errors
/// 500 when the object cannot be encoded.
pub fn object<T: Serialize + ?Sized>(
    code: StatusCode,
    accepted: Accepted,
    value: &T,
) -> Result<Response, ApiError> {
    let body = encode(accepted, value).map_err(ApiError::internal)?;
    Ok(bytes(code, accepted.content_type(), body))
}

/// Returns an answer with a finished body.
pub fn bytes(code: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = code;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Returns an answer with a text, as Go's `http.Error` writes it.
pub fn text(code: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = bytes(code, "text/plain; charset=utf-8", body);
    response
        .headers_mut()
        .insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn encode<T: Serialize + ?Sized>(accepted: Accepted, value: &T) -> Result<Vec<u8>, EncodingError> {
    match (accepted.media_type, accepted.pretty) {
        (MediaType::Yaml, _) => to_yaml(value),
        (MediaType::Protobuf, _) => {
            let value = serde_json::to_value(value)?;
            protobuf::document(&value).ok_or(EncodingError::Protobuf)
        }
        (MediaType::Json, true) => to_json_pretty(value),
        (MediaType::Json, false) => {
            let mut body = to_json(value)?;
            body.push(b'\n');
            Ok(body)
        }
    }
}

/// Returns an error in the form that the client accepts.
#[must_use]
pub fn error(error: ApiError, accepted: Accepted) -> Response {
    let status = match error {
        ApiError::PageNotFound => return text(StatusCode::NOT_FOUND, "404 page not found\n"),
        ApiError::Status(status) => status.bounded(),
    };
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let plain = Accepted {
        transform: Transform::None,
        ..accepted
    };
    let mut response = match encode(plain, &status) {
        Ok(body) => bytes(code, plain.media_type.as_str(), body),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    };
    if let Some(seconds) = status.retry_after_seconds() {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}
