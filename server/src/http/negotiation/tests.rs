use http::HeaderValue;
use http::header::CONTENT_TYPE;
use rstest::rstest;

use super::*;

fn with(name: http::HeaderName, value: &str) -> HeaderMap {
    HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
}

const JSON: (MediaType, Transform) = (MediaType::Json, Transform::None);
const YAML: (MediaType, Transform) = (MediaType::Yaml, Transform::None);
const ALL: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
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
#[case("application/json;stream=watch", JSON)]
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
#[case(METADATA, (MediaType::Protobuf, Transform::PartialObjectMetadataList(MetaVersion::V1)))]
fn agrees_on_objects(#[case] header: &str, #[case] expected: (MediaType, Transform)) {
    let got = accept(&with(ACCEPT, header), &Query::default(), Offer::Objects).unwrap();
    assert_eq!((got.media_type, got.transform), expected);
}

#[rstest]
#[case(Offer::Objects, "text/html", ALL)]
#[case(Offer::Objects, "application/vnd.kubernetes.protobuf", ALL)]
#[case(Offer::Objects, "application/json;as=Nothing;g=meta.k8s.io;v=v1", ALL)]
#[case(
    Offer::Objects,
    "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1",
    ALL
)]
#[case(Offer::Watch, "text/html", ALL)]
#[case(
    Offer::Watch,
    "application/yaml",
    "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
)]
#[case(Offer::Plain, "application/vnd.kubernetes.protobuf", ALL)]
fn refuses_the_rest(#[case] offer: Offer, #[case] header: &str, #[case] offered: &str) {
    let error = accept(&with(ACCEPT, header), &Query::default(), offer).unwrap_err();
    assert_eq!((error.code(), error.reason()), (406, "NotAcceptable"));
    assert_eq!(
        error.to_string(),
        format!("only the following media types are accepted: {offered}")
    );
}

#[test]
fn a_watch_in_protobuf_says_that_it_is_one() {
    let ask = |header: &str| {
        accept(&with(ACCEPT, header), &Query::default(), Offer::Watch)
            .unwrap()
            .content_type()
    };
    assert_eq!(ask("application/json;stream=watch"), "application/json");
    assert_eq!(ask("application/json"), "application/json");
    assert_eq!(
        ask("application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"),
        "application/vnd.kubernetes.protobuf;stream=watch"
    );
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
    assert_eq!(
        form("application/vnd.kubernetes.protobuf,application/json").media_type,
        MediaType::Protobuf
    );
    let transformed = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;\
        g=meta.k8s.io;v=v1,application/json";
    assert_eq!(form(transformed).media_type, MediaType::Json);
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
#[case("application/vnd.kubernetes.protobuf", Some(BodyType::Protobuf))]
#[case("Application/JSON;", Some(BodyType::Json))]
#[case("application/json;;=", None)]
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
         application/json, application/yaml, application/vnd.kubernetes.protobuf"
    );
}

#[test]
fn a_strategic_merge_patch_is_refused_with_the_types_that_work() {
    let patches = [BodyType::JsonPatch, BodyType::MergePatch];
    let headers = with(CONTENT_TYPE, "application/strategic-merge-patch+json");
    assert_eq!(body_type(&headers, &patches).unwrap_err().code(), 415);
    let headers = with(CONTENT_TYPE, "Application/Merge-Patch+JSON");
    assert_eq!(body_type(&headers, &patches).unwrap_err().code(), 415);
    assert_eq!(
        body_type(&HeaderMap::new(), &patches).unwrap_err().code(),
        415
    );
}

#[rstest]
#[case("*/*", Some(OpenApiForm::Json))]
#[case("application/json", Some(OpenApiForm::Json))]
#[case(
    "application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
    Some(OpenApiForm::Protobuf)
)]
#[case(
    "application/json;q=0.1, application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
    Some(OpenApiForm::Protobuf)
)]
#[case("application/vnd.kubernetes.protobuf", None)]
#[case("application/yaml", None)]
fn openapi_forms(#[case] accept: &str, #[case] expected: Option<OpenApiForm>) {
    assert_eq!(accept_openapi(&with(ACCEPT, accept)).ok(), expected);
}
