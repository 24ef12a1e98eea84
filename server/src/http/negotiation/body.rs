//! Encodings of request bodies.

use apimachinery::error::ApiError;
use http::HeaderMap;
use http::header::CONTENT_TYPE;

/// Encodings of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BodyType {
    /// `application/json`, and a body without a type
    Json,
    /// `application/yaml`
    Yaml,
    /// `application/vnd.kubernetes.protobuf`
    Protobuf,
    /// `application/json-patch+json`
    JsonPatch,
    /// `application/merge-patch+json`
    MergePatch,
    /// `application/apply-patch+yaml`
    ApplyYaml,
}

impl BodyType {
    /// Returns the name in `Content-Type`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
            Self::JsonPatch => "application/json-patch+json",
            Self::MergePatch => "application/merge-patch+json",
            Self::ApplyYaml => "application/apply-patch+yaml",
        }
    }

    /// Returns whether it is a kind of patch.
    const fn is_patch(self) -> bool {
        matches!(self, Self::JsonPatch | Self::MergePatch | Self::ApplyYaml)
    }

    /// Encodings of the body of a create or an update. Protobuf is among them in name: there is no
    /// custom resource that could be written in it.
    pub const OBJECTS: [Self; 3] = [Self::Json, Self::Yaml, Self::Protobuf];
}

/// Returns whether all parameters of a media type are `name=value`, but for a semicolon at the end.
fn well_formed(parameters: &str) -> bool {
    let parameters = parameters.trim();
    let parameters = parameters.strip_suffix(';').unwrap_or(parameters);
    parameters.is_empty()
        || parameters.split(';').all(|parameter| {
            let pair = parameter.split_once('=');
            pair.is_some_and(|(name, _)| !name.trim().is_empty())
        })
}

/// Returns whether the body is an apply patch.
#[must_use]
pub fn is_apply(headers: &HeaderMap) -> bool {
    body_type(headers, &[BodyType::ApplyYaml]).is_ok()
}

/// Returns the encoding of a request body, which must be one of `allowed`. Parameters of the media
/// type are ignored. A body without a type is JSON.
///
/// # Errors
/// 415 with the allowed types.
pub fn body_type(headers: &HeaderMap, allowed: &[BodyType]) -> Result<BodyType, ApiError> {
    let value = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    if value.is_empty() && allowed.contains(&BodyType::Json) {
        return Ok(BodyType::Json);
    }
    let (name, parameters) = value.split_once(';').unwrap_or((value, ""));
    let fits = |candidate: &&BodyType| {
        if candidate.is_patch() {
            // The kube-apiserver cuts the header of a patch at the semicolon, and reads others as
            // media types.
            candidate.as_str() == name
        } else {
            well_formed(parameters) && candidate.as_str().eq_ignore_ascii_case(name.trim())
        }
    };
    allowed.iter().find(fits).copied().ok_or_else(|| {
        let names: Vec<_> = allowed.iter().map(|candidate| candidate.as_str()).collect();
        ApiError::unsupported_media_type(&names)
    })
}
