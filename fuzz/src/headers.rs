//! Headers: content negotiation, and the front proxy's names for a user.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use apimachinery::request_info::Query;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};
use reports_server::auth::FrontProxyConfig;
use reports_server::http::negotiation::{
    Accepted, BodyType, MediaType, Offer, Transform, accept, accept_discovery, accept_error,
    accepts_json, body_type, is_apply,
};

use crate::parts::{bounded, refused};

static FRONT_PROXY: LazyLock<FrontProxyConfig> = LazyLock::new(|| {
    let data = [
        ("requestheader-username-headers", r#"["X-Remote-User"]"#),
        ("requestheader-uid-headers", r#"["X-Remote-Uid"]"#),
        ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
        (
            "requestheader-extra-headers-prefix",
            r#"["X-Remote-Extra-"]"#,
        ),
    ];
    let data = data.map(|(key, value)| (key.to_owned(), value.to_owned()));
    FrontProxyConfig::parse(&BTreeMap::from(data)).expect("the configuration is a usual one")
});

/// Returns the lines `name: value` of a text, as far as HTTP takes them.
pub fn read(text: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in text.split(|byte| *byte == b'\n').take(500) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            continue;
        };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        let name = HeaderName::from_bytes(name);
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value)) {
            headers.append(name, value);
        }
    }
    headers
}

/// Headers in lines: what is agreed on is offered, and a proven proxy's words are all of the user.
pub fn headers(data: &[u8]) {
    let mut headers = read(data);
    let query = Query::parse("");
    for offer in [Offer::Objects, Offer::Watch, Offer::Status, Offer::Plain] {
        match accept(&headers, &query, offer) {
            Ok(accepted) => offered(accepted, offer),
            Err(error) => refused(&error, &[406], data),
        }
    }
    offered(accept_error(&headers, &query), Offer::Status);
    match accept_discovery(&headers) {
        Ok(form) => assert!(form.content_type().starts_with("application/json")),
        Err(error) => refused(&error, &[406], data),
    }
    body(&headers, data);
    proxy(&mut headers, data);

    // Whoever takes anything is never refused; JSON is the last resort.
    headers.append(ACCEPT, HeaderValue::from_static("*/*;q=0.001"));
    for offer in [Offer::Objects, Offer::Status, Offer::Plain] {
        assert!(accept(&headers, &query, offer).is_ok());
    }
    assert!(accepts_json(&headers));
}

fn offered(accepted: Accepted, offer: Offer) {
    let plain = accepted.transform == Transform::None;
    assert_eq!(accepted.stream, offer == Offer::Watch);
    match offer {
        Offer::Objects => assert!(!plain || accepted.media_type != MediaType::Protobuf),
        Offer::Watch => {
            assert_ne!(accepted.media_type, MediaType::Yaml);
            assert!(!plain || accepted.media_type != MediaType::Protobuf);
        }
        Offer::Status => assert!(plain),
        Offer::Plain => assert!(plain && accepted.media_type != MediaType::Protobuf),
    }
    assert!(
        accepted
            .content_type()
            .starts_with(accepted.media_type.as_str())
    );
}

fn body(headers: &HeaderMap, data: &[u8]) {
    match body_type(headers, &BodyType::OBJECTS) {
        Ok(type_) => assert!(BodyType::OBJECTS.contains(&type_)),
        Err(error) => refused(&error, &[415], data),
    }
    let patches = [
        BodyType::JsonPatch,
        BodyType::MergePatch,
        BodyType::ApplyYaml,
    ];
    match body_type(headers, &patches) {
        Ok(type_) => {
            // A patch is told by its type alone, which stands first.
            let given = headers.get(CONTENT_TYPE).expect("a patch has a type");
            assert!(given.as_bytes().starts_with(type_.as_str().as_bytes()));
            assert_eq!(is_apply(headers), type_ == BodyType::ApplyYaml);
        }
        Err(error) => refused(&error, &[415], data),
    }
}

fn proxy(headers: &mut HeaderMap, data: &[u8]) {
    match FRONT_PROXY.user(headers) {
        Ok(Some(user)) => {
            let named = headers.get("x-remote-user").expect("the user is named");
            assert_eq!(user.username.as_bytes(), named.as_bytes());
            assert!(!user.groups.iter().any(String::is_empty));
            bounded("a user", format!("{user:?}").len(), data);
        }
        Ok(None) => {}
        Err(error) => bounded("an error", error.to_string().len(), data),
    }
    FRONT_PROXY.strip(headers);
    let left = |name: &HeaderName| name.as_str().starts_with("x-remote-extra-");
    assert!(!headers.keys().any(left));
    assert_eq!(FRONT_PROXY.user(headers), Ok(None));
}
