//! Which form an answer takes, and which form a body has.
//!
//! Follows `k8s.io/apiserver/pkg/endpoints/handlers/negotiation` and `goautoneg`: the clauses of
//! `Accept` are tried in the order of their quality, the first that fits an offered media type and
//! asks for an allowed transformation wins.

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};

use super::error::ApiError;
use super::request_info::Query;

/// Encodings of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MediaType {
    /// `application/json`
    #[default]
    Json,
    /// `application/yaml`
    Yaml,
}

impl MediaType {
    /// Every encoding, preferred first.
    pub const ALL: [Self; 2] = [Self::Json, Self::Yaml];

    /// The name in `Content-Type`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
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
    /// `meta.k8s.io/v1` or `meta.k8s.io/v1beta1`.
    #[must_use]
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// What the client wants made of the object (`as=` in `Accept`).
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

/// What an endpoint can answer with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Objects and lists: JSON or YAML, whole or transformed.
    Objects,
    /// A watch: JSON only, because YAML has no framing; whole or transformed.
    Watch,
    /// `Status` and other objects without transformation: JSON or YAML.
    Plain,
}

/// The form that was agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// Encoding.
    pub media_type: MediaType,
    /// What to make of the object.
    pub transform: Transform,
    /// Indent JSON.
    pub pretty: bool,
    /// The client asked for the media type with `stream=watch`; a watch says it back.
    pub stream: bool,
}

impl Accepted {
    /// The value of `Content-Type`.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match (self.media_type, self.stream) {
            (MediaType::Json, true) => "application/json;stream=watch",
            (media_type, _) => media_type.as_str(),
        }
    }
}

/// Agrees on the form of an answer.
///
/// # Errors
/// 406 with the offered media types when nothing that the client accepts is offered.
pub fn accept(headers: &HeaderMap, query: &Query, offer: Offer) -> Result<Accepted, ApiError> {
    let offered = match offer {
        Offer::Objects | Offer::Plain => &MediaType::ALL[..],
        Offer::Watch => &[MediaType::Json][..],
    };
    let header = joined(headers, &ACCEPT);
    let mut accepted = if header.is_empty() {
        Accepted::default()
    } else {
        clauses(&header)
            .iter()
            .find_map(|clause| offered.iter().find_map(|mt| clause.agree(*mt, offer)))
            .ok_or_else(|| {
                ApiError::not_acceptable(&offered.iter().map(|mt| mt.as_str()).collect::<Vec<_>>())
            })?
    };
    accepted.pretty = accepted.pretty || wants_pretty(headers, query);
    Ok(accepted)
}

/// The form of an error: what the client accepts, else JSON.
#[must_use]
pub fn accept_error(headers: &HeaderMap, query: &Query) -> Accepted {
    accept(headers, query, Offer::Plain).unwrap_or_default()
}

/// Whether JSON shall be indented: `?pretty=`, else for browsers and command line tools.
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

/// All values of a header as one list.
pub(crate) fn joined(headers: &HeaderMap, name: &http::HeaderName) -> String {
    let values: Vec<_> = headers
        .get_all(name)
        .iter()
        .filter_map(|v| v.to_str().ok())
        .collect();
    values.join(",")
}

/// One media range of `Accept`.
#[derive(Debug)]
struct Clause<'a> {
    main: &'a str,
    sub: &'a str,
    params: Vec<(&'a str, &'a str)>,
    quality: f32,
}

/// The clauses of `Accept`, best first; equal ones keep their order, wildcards come last.
fn clauses(header: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<_> = header.split(',').filter_map(Clause::parse).collect();
    clauses.sort_by(|a, b| {
        b.quality
            .total_cmp(&a.quality)
            .then_with(|| (a.main == "*").cmp(&(b.main == "*")))
            .then_with(|| (a.sub == "*").cmp(&(b.sub == "*")))
    });
    clauses
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut pieces = text.split(';').map(str::trim);
        let (main, sub) = match pieces.next()?.split_once('/') {
            Some((main, sub)) => (main.trim(), sub.trim()),
            None if text.trim() == "*" => ("*", "*"),
            None => return None,
        };
        let mut clause = Self {
            main,
            sub,
            params: Vec::new(),
            quality: 1.0,
        };
        for (key, value) in pieces.filter_map(|piece| piece.split_once('=')) {
            let (key, value) = (key.trim(), value.trim().trim_matches('"'));
            if key == "q" {
                clause.quality = value.parse().unwrap_or(1.0);
            } else {
                clause.params.push((key, value));
            }
        }
        Some(clause)
    }

    fn matches(&self, media_type: MediaType) -> bool {
        let Some((main, sub)) = media_type.as_str().split_once('/') else {
            return false;
        };
        (self.main == main && (self.sub == sub || self.sub == "*"))
            || (self.main == "*" && self.sub == "*")
    }

    fn param(&self, name: &str) -> &str {
        self.params
            .iter()
            .rev()
            .find(|(key, _)| *key == name)
            .map_or("", |(_, value)| value)
    }

    /// The clause applied to one offered media type, if it fits.
    fn agree(&self, media_type: MediaType, offer: Offer) -> Option<Accepted> {
        if !self.matches(media_type) {
            return None;
        }
        let stream = match self.param("stream") {
            "" => false,
            "watch" if offer == Offer::Watch => true,
            _ => return None,
        };
        let transform = self.transform()?;
        if offer == Offer::Plain && transform != Transform::None {
            // An error is never transformed; the clause still names an encoding.
            return Some(Accepted {
                media_type,
                ..Accepted::default()
            });
        }
        Some(Accepted {
            media_type,
            transform,
            pretty: self.param("pretty") == "1",
            stream,
        })
    }

    /// The transformation that is asked for; `None` when there is no such one.
    fn transform(&self) -> Option<Transform> {
        let (kind, group, version) = (self.param("as"), self.param("g"), self.param("v"));
        if kind.is_empty() && group.is_empty() && version.is_empty() {
            return Some(Transform::None);
        }
        let version = match (group, version) {
            ("meta.k8s.io", "v1") => MetaVersion::V1,
            ("meta.k8s.io", "v1beta1") => MetaVersion::V1Beta1,
            _ => return None,
        };
        match kind {
            "Table" => Some(Transform::Table(version)),
            "PartialObjectMetadata" => Some(Transform::PartialObjectMetadata(version)),
            "PartialObjectMetadataList" => Some(Transform::PartialObjectMetadataList(version)),
            _ => None,
        }
    }
}

/// The discovery document that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DiscoveryForm {
    /// `apidiscovery.k8s.io/v2`
    V2,
    /// `apidiscovery.k8s.io/v2beta1`
    V2Beta1,
    /// The unaggregated `APIGroupList`.
    Legacy,
}

impl DiscoveryForm {
    /// The exact `Content-Type`: kube-aggregator takes any other for a server that cannot aggregate.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::V2 => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            Self::V2Beta1 => {
                "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
            }
            Self::Legacy => "application/json",
        }
    }
}

/// Which form of `/apis` a client asks for.
///
/// # Errors
/// 406 when it accepts no JSON.
pub fn accept_discovery(headers: &HeaderMap) -> Result<DiscoveryForm, ApiError> {
    let header = joined(headers, &ACCEPT);
    if header.is_empty() {
        return Ok(DiscoveryForm::Legacy);
    }
    clauses(&header)
        .iter()
        .filter(|clause| clause.matches(MediaType::Json))
        .find_map(
            |clause| match (clause.param("as"), clause.param("g"), clause.param("v")) {
                ("", "", "") => Some(DiscoveryForm::Legacy),
                ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => Some(DiscoveryForm::V2),
                ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2beta1") => {
                    Some(DiscoveryForm::V2Beta1)
                }
                _ => None,
            },
        )
        .ok_or_else(|| ApiError::not_acceptable(&[MediaType::Json.as_str()]))
}

/// Whether the client takes JSON as it is.
#[must_use]
pub fn accepts_json(headers: &HeaderMap) -> bool {
    let header = joined(headers, &ACCEPT);
    header.is_empty()
        || clauses(&header)
            .iter()
            .any(|clause| clause.matches(MediaType::Json))
}

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

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use rstest::rstest;

    use super::*;

    fn with(name: http::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    const JSON: (MediaType, Transform) = (MediaType::Json, Transform::None);
    const YAML: (MediaType, Transform) = (MediaType::Yaml, Transform::None);
    const KUBECTL: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,\
        application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
    const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
         application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

    #[rstest]
    #[case("*/*", JSON)]
    #[case("application/*", JSON)]
    #[case("application/json", JSON)]
    #[case("application/yaml", YAML)]
    #[case("application/yaml;q=0.5, application/json;q=0.9", JSON)]
    #[case("*/*, application/yaml", YAML)]
    #[case("text/html, application/yaml;q=0.9, */*;q=0.8", YAML)]
    #[case("application/vnd.kubernetes.protobuf, application/json", JSON)]
    #[case("application/vnd.kubernetes.protobuf,application/json;q=0.9", JSON)]
    #[case(
        "application/json;as=Unknown;g=meta.k8s.io;v=v1, application/yaml",
        YAML
    )]
    #[case("application/json;as=Table;g=other;v=v1, application/json", JSON)]
    #[case("application/json;charset=utf-8", JSON)]
    #[case(KUBECTL, (MediaType::Json, Transform::Table(MetaVersion::V1)))]
    #[case(
        "application/yaml;as=Table;g=meta.k8s.io;v=v1beta1",
        (MediaType::Yaml, Transform::Table(MetaVersion::V1Beta1))
    )]
    #[case(METADATA, (MediaType::Json, Transform::PartialObjectMetadataList(MetaVersion::V1)))]
    fn agrees_on_objects(#[case] header: &str, #[case] expected: (MediaType, Transform)) {
        let got = accept(&with(ACCEPT, header), &Query::default(), Offer::Objects).unwrap();
        assert_eq!((got.media_type, got.transform), expected);
    }

    #[rstest]
    #[case(Offer::Objects, "text/html", "application/json, application/yaml")]
    #[case(
        Offer::Objects,
        "application/vnd.kubernetes.protobuf",
        "application/json, application/yaml"
    )]
    #[case(
        Offer::Objects,
        "application/json;as=Nothing;g=meta.k8s.io;v=v1",
        "application/json, application/yaml"
    )]
    #[case(Offer::Watch, "application/yaml", "application/json")]
    #[case(
        Offer::Objects,
        "application/json;stream=watch",
        "application/json, application/yaml"
    )]
    fn refuses_the_rest(#[case] offer: Offer, #[case] header: &str, #[case] offered: &str) {
        let error = accept(&with(ACCEPT, header), &Query::default(), offer).unwrap_err();
        assert_eq!((error.code(), error.reason()), (406, "NotAcceptable"));
        assert_eq!(
            error.to_string(),
            format!("only the following media types are accepted: {offered}")
        );
    }

    #[test]
    fn a_watch_says_the_stream_parameter_back() {
        let ask = |header: &str| {
            accept(&with(ACCEPT, header), &Query::default(), Offer::Watch)
                .unwrap()
                .content_type()
        };
        assert_eq!(
            ask("application/json;stream=watch"),
            "application/json;stream=watch"
        );
        assert_eq!(ask("application/json"), "application/json");
    }

    #[rstest]
    #[case("curl/8.0", "", true)]
    #[case("Mozilla/5.0 (X11)", "", true)]
    #[case("kubectl/v1.36", "", false)]
    #[case("kubectl/v1.36", "pretty=true", true)]
    #[case("curl/8.0", "pretty=false", false)]
    #[case("curl/8.0", "pretty=", true)]
    fn indents_for_people(#[case] agent: &str, #[case] query: &str, #[case] pretty: bool) {
        let headers = with(USER_AGENT, agent);
        let got = accept(&headers, &Query::parse(query), Offer::Objects).unwrap();
        assert_eq!(got.pretty, pretty);
    }

    #[test]
    fn errors_are_never_tables_and_always_have_a_form() {
        let form = |header: &str| accept_error(&with(ACCEPT, header), &Query::default());
        assert_eq!(form(KUBECTL).transform, Transform::None);
        assert_eq!(form("application/yaml").media_type, MediaType::Yaml);
        assert_eq!(form("image/png").media_type, MediaType::Json);
    }

    #[rstest]
    #[case(
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
         application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json",
        DiscoveryForm::V2
    )]
    #[case(
        "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
        DiscoveryForm::V2Beta1
    )]
    #[case(
        "application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList,application/json",
        DiscoveryForm::Legacy
    )]
    #[case("application/json", DiscoveryForm::Legacy)]
    #[case("*/*", DiscoveryForm::Legacy)]
    fn agrees_on_discovery(#[case] header: &str, #[case] expected: DiscoveryForm) {
        assert_eq!(accept_discovery(&with(ACCEPT, header)), Ok(expected));
    }

    #[rstest]
    #[case("application/json", Some(BodyType::Json))]
    #[case("application/json; charset=utf-8", Some(BodyType::Json))]
    #[case("", Some(BodyType::Json))]
    #[case("application/yaml", Some(BodyType::Yaml))]
    #[case("application/vnd.kubernetes.protobuf", None)]
    #[case("text/plain", None)]
    fn knows_request_bodies(#[case] header: &str, #[case] expected: Option<BodyType>) {
        let got = body_type(&with(CONTENT_TYPE, header), &BodyType::OBJECTS);
        if let Some(expected) = expected {
            assert_eq!(got, Ok(expected));
            return;
        }
        let error = got.unwrap_err();
        assert_eq!(
            (error.code(), error.reason()),
            (415, "UnsupportedMediaType")
        );
        assert_eq!(
            error.to_string(),
            "the body of the request was in an unknown format - accepted media types include: \
             application/json, application/yaml"
        );
    }

    #[test]
    fn a_strategic_merge_patch_is_refused_with_the_types_that_work() {
        let patches = [BodyType::JsonPatch, BodyType::MergePatch];
        let headers = with(CONTENT_TYPE, "application/strategic-merge-patch+json");
        assert_eq!(body_type(&headers, &patches).unwrap_err().code(), 415);
        assert_eq!(
            body_type(&HeaderMap::new(), &patches).unwrap_err().code(),
            415
        );
    }
}
