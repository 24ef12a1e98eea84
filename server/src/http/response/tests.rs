//! Errors as answers; their texts are tested where they are defined.

use http_body_util::BodyExt;
use rstest::rstest;

use super::*;

async fn body(response: Response) -> String {
    let body = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

#[rstest]
#[case(ApiError::too_many_requests("slow", 1), Some("1"))]
#[case(ApiError::service_unavailable("down", 5), Some("5"))]
#[case(ApiError::bad_request("no"), None)]
fn a_pause_is_told_in_the_header_too(#[case] refusal: ApiError, #[case] expected: Option<&str>) {
    let response = error(refusal, Accepted::default());
    assert_eq!(response.headers()["content-type"], "application/json");
    let header = response
        .headers()
        .get("retry-after")
        .map(|value| value.to_str().unwrap());
    assert_eq!(header, expected);
}

#[tokio::test]
async fn errors_are_yaml_or_indented_when_asked_for() {
    let yaml = Accepted {
        media_type: MediaType::Yaml,
        ..Accepted::default()
    };
    let response = error(ApiError::bad_request("no"), yaml);
    assert_eq!(response.headers()["content-type"], "application/yaml");
    assert_eq!(
        body(response).await,
        "apiVersion: v1\ncode: 400\nkind: Status\nmessage: \"no\"\nmetadata: {}\nreason: BadRequest\n\
         status: Failure\n"
    );
    let pretty = Accepted {
        pretty: true,
        ..Accepted::default()
    };
    let text = body(error(ApiError::unauthorized(), pretty)).await;
    assert!(
        text.starts_with("{\n  \"kind\": \"Status\",\n  \"apiVersion\""),
        "{text}"
    );
}
