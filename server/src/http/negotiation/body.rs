//! Encodings of request bodies.

use http::HeaderMap;
use http::header::CONTENT_TYPE;

use crate::http::ApiError;

/// Encodings of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BodyType {
    /// `application/json`, and a body without a type
    Json,
    /// `application/yaml`
    Yaml,
    /// `application/json-patch+json`
    JsonPatch,
    /// `application/merge-patch+json`
    MergePatch,
    /// `application/apply-patch+yaml`
    ApplyYaml,
}

impl BodyType {
    /// The name in `Content-Type`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::JsonPatch => "application/json-patch+json",
            Self::MergePatch => "application/merge-patch+json",
            Self::ApplyYaml => "application/apply-patch+yaml",
        }
    }

    /// What a create or an update can carry.
    pub const OBJECTS: [Self; 2] = [Self::Json, Self::Yaml];
}

/// Whether the body is an apply patch.
#[must_use]
pub fn is_apply(headers: &HeaderMap) -> bool {
    body_type(headers, &[BodyType::ApplyYaml]).is_ok()
}

/// The encoding of a request body, which must be one of `allowed`. Parameters of the media type
/// are ignored. A body without a type is JSON.
///
/// # Errors
/// 415 with the allowed types.
pub fn body_type(headers: &HeaderMap, allowed: &[BodyType]) -> Result<BodyType, ApiError> {
    let value = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let value = value.split(';').next().unwrap_or_default().trim();
    if value.is_empty() && allowed.contains(&BodyType::Json) {
        return Ok(BodyType::Json);
    }
    allowed
        .iter()
        .find(|candidate| candidate.as_str().eq_ignore_ascii_case(value))
        .copied()
        .ok_or_else(|| {
            let names: Vec<_> = allowed.iter().map(|candidate| candidate.as_str()).collect();
            ApiError::unsupported_media_type(&names)
        })
}
