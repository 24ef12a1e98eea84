//! The form of an answer, and the form of a body.
//!
//! Follows `k8s.io/apiserver/pkg/endpoints/handlers/negotiation` and `goautoneg`: the clauses of
//! `Accept` are tried in the order of their quality, the first that fits an offered media type and
//! asks for an allowed transformation wins.

mod body;
mod clause;
mod discovery;
mod openapi;
#[cfg(test)]
mod tests;

use apimachinery::error::ApiError;
use apimachinery::request_info::Query;
use http::HeaderMap;
use http::header::{ACCEPT, USER_AGENT};

use clause::clauses;

pub use body::{BodyType, body_type, is_apply};
pub use discovery::{DiscoveryForm, accept_discovery};
pub use openapi::{OpenApiForm, accept_openapi};

/// Encodings of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MediaType {
    /// `application/json`
    #[default]
    Json,
    /// `application/yaml`
    Yaml,
    /// `application/vnd.kubernetes.protobuf`: of metadata and `Status` alone, as for every custom
    /// resource.
    Protobuf,
}

impl MediaType {
    /// Every encoding, preferred first.
    pub const ALL: [Self; 3] = [Self::Json, Self::Yaml, Self::Protobuf];

    /// Returns the name in `Content-Type`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }
}

/// Version of `meta.k8s.io` in which a transformed answer is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetaVersion {
    /// `v1`
    V1,
    /// `v1beta1`
    V1Beta1,
}

impl MetaVersion {
    /// Returns `meta.k8s.io/v1` or `meta.k8s.io/v1beta1`.
    #[must_use]
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// The transformation of the object that the client wants (`as=` in `Accept`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Transform {
    /// The object itself.
    #[default]
    None,
    /// A `Table`, for kubectl.
    Table(MetaVersion),
    /// The metadata of one object, or of each object in a watch.
    PartialObjectMetadata(MetaVersion),
    /// The metadata of a list.
    PartialObjectMetadataList(MetaVersion),
}

/// The forms in which an endpoint can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Objects and lists: JSON or YAML, whole or transformed; metadata in protobuf, too.
    Objects,
    /// A watch: as objects, but not in YAML, which has no framing.
    Watch,
    /// A `Status`: in any encoding.
    Status,
    /// Other objects without transformation: JSON or YAML.
    Plain,
}

/// The form that was agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// Encoding.
    pub media_type: MediaType,
    /// The transformation of the object.
    pub transform: Transform,
    /// True when JSON is indented.
    pub pretty: bool,
    /// True when the answer is a watch.
    pub stream: bool,
}

impl Accepted {
    /// Returns the value of `Content-Type`.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match (self.media_type, self.stream) {
            (MediaType::Protobuf, true) => "application/vnd.kubernetes.protobuf;stream=watch",
            (media_type, _) => media_type.as_str(),
        }
    }
}

/// Returns the agreed form of an answer.
///
/// # Errors
/// If nothing that the client accepts is offered: 406 with all media types.
pub fn accept(headers: &HeaderMap, query: &Query, offer: Offer) -> Result<Accepted, ApiError> {
    let header = joined(headers, &ACCEPT);
    let mut accepted = if header.is_empty() {
        Accepted::default()
    } else {
        clauses(&header)
            .iter()
            .find_map(|clause| {
                let mut offered = MediaType::ALL.iter();
                offered.find_map(|media_type| clause.agree(*media_type, offer))
            })
            .ok_or_else(|| ApiError::not_acceptable(&MediaType::ALL.map(MediaType::as_str)))?
    };
    if offer == Offer::Watch {
        if accepted.media_type == MediaType::Yaml {
            return Err(ApiError::not_acceptable(&[
                "application/json;stream=watch",
                "application/vnd.kubernetes.protobuf;stream=watch",
            ]));
        }
        accepted.stream = true;
    }
    accepted.pretty = accepted.pretty || wants_pretty(headers, query);
    Ok(accepted)
}

/// Returns the form of an error: one that the client accepts, else JSON.
#[must_use]
pub fn accept_error(headers: &HeaderMap, query: &Query) -> Accepted {
    accept(headers, query, Offer::Status).unwrap_or_default()
}

/// Returns whether JSON is to be indented: by `?pretty=`, else for browsers and command line tools.
fn wants_pretty(headers: &HeaderMap, query: &Query) -> bool {
    if let Some(value) = query.get("pretty").filter(|value| !value.is_empty()) {
        return matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True");
    }
    let agent = headers
        .get(USER_AGENT)
        .map_or(&b""[..], http::HeaderValue::as_bytes);
    [&b"curl"[..], b"Wget", b"Mozilla/5.0"]
        .iter()
        .any(|start| agent.starts_with(start))
}

/// Returns all values of a header as one list.
pub(crate) fn joined(headers: &HeaderMap, name: &http::HeaderName) -> String {
    let values: Vec<_> = headers
        .get_all(name)
        .iter()
        .filter_map(|v| v.to_str().ok())
        .collect();
    values.join(",")
}

/// Returns whether the client takes JSON as it is.
#[must_use]
pub fn accepts_json(headers: &HeaderMap) -> bool {
    let header = joined(headers, &ACCEPT);
    header.is_empty()
        || clauses(&header)
            .iter()
            .any(|clause| clause.matches(MediaType::Json))
}
