//! Forms of OpenAPI documents.

use apimachinery::error::ApiError;
use http::HeaderMap;
use http::header::ACCEPT;

use super::clause::clauses;
use super::joined;

/// The encoding of a document of OpenAPI v3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpenApiForm {
    /// JSON
    Json,
    /// gnostic's messages in protobuf
    Protobuf,
}

/// The encodings that can be asked for, as in `k8s.io/kube-openapi/pkg/handler3`. client-go asks
/// for protobuf by the last name, which is no media type to RFC 6838.
const OFFERED: [(&str, OpenApiForm); 3] = [
    ("application/json", OpenApiForm::Json),
    (PROTOBUF, OpenApiForm::Protobuf),
    (
        "application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
        OpenApiForm::Protobuf,
    ),
];
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";

impl OpenApiForm {
    /// Returns the value of `Content-Type`.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => PROTOBUF,
        }
    }
}

/// Returns the form of a document that a client asks for.
///
/// # Errors
/// 406 when it accepts neither.
pub fn accept_openapi(headers: &HeaderMap) -> Result<OpenApiForm, ApiError> {
    let header = joined(headers, &ACCEPT);
    if header.is_empty() {
        return Ok(OpenApiForm::Json);
    }
    clauses(&header)
        .iter()
        .find_map(|clause| {
            let mut offered = OFFERED.iter();
            offered.find_map(|(name, form)| clause.covers(name).then_some(*form))
        })
        .ok_or_else(|| ApiError::not_acceptable(&["application/json", PROTOBUF]))
}
