//! Makes the bytes of a request from a case.

use apimachinery::encoding;
use serde_json::{Map, Value};

use super::case::Encoding;
use super::step::{Content, Request};
use super::target::Target;
use super::variables::{self, Variables};
use crate::serving::request::Outgoing;

/// Returns the request that is sent, with the values of its side.
///
/// # Errors
/// The part of it that cannot be made, in words.
pub fn outgoing(
    request: &Request,
    target: &Target,
    encoding: Encoding,
    values: &Variables,
) -> Result<Outgoing, String> {
    let uri = variables::fill_text(&request.uri, values);
    if let Some(name) = variables::unknown(&uri) {
        return Err(format!("${{{name}}} is not known here"));
    }
    let (body, structured) = bytes(request, target, encoding, values)?;
    let mut headers = vec![
        ("accept".to_owned(), "application/json".to_owned()),
        // The manager of fields is called after it.
        ("user-agent".to_owned(), "conform/1.0".to_owned()),
    ];
    if request.body != Content::None || request.content_type.is_some() {
        let yaml = structured && encoding == Encoding::Yaml;
        let usual = if yaml {
            "application/yaml"
        } else {
            "application/json"
        };
        let content_type = request.content_type.as_deref().unwrap_or(usual);
        headers.push((
            "content-type".to_owned(),
            variables::fill_text(content_type, values),
        ));
    }
    if let Some(user) = &request.user {
        headers.push((
            "impersonate-user".to_owned(),
            variables::fill_text(user, values),
        ));
    }
    for (name, value) in &request.headers {
        headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        if let Some(value) = value {
            headers.push((name.clone(), variables::fill_text(value, values)));
        }
    }
    Ok(Outgoing {
        method: request.method.clone(),
        uri,
        headers,
        body,
    })
}

/// Returns the body, and whether it was a structured value.
fn bytes(
    request: &Request,
    target: &Target,
    encoding: Encoding,
    values: &Variables,
) -> Result<(Vec<u8>, bool), String> {
    let mut value = match &request.body {
        Content::None => return Ok((Vec::new(), false)),
        Content::Bytes(bytes) => return Ok((bytes.clone(), false)),
        Content::Text(text) => return Ok((variables::fill_text(text, values).into(), false)),
        Content::Report(name) => target.report(&variables::fill_text(name, values)),
        Content::Value(value) => value.clone(),
    };
    variables::fill(&mut value, values);
    for (pointer, new) in &request.set {
        let mut new = new.clone();
        variables::fill(&mut new, values);
        put(&mut value, &variables::fill_text(pointer, values), new)?;
    }
    for pointer in &request.unset {
        take(&mut value, &variables::fill_text(pointer, values));
    }
    let content_type = request.content_type.as_deref().unwrap_or("yaml");
    let yaml = encoding == Encoding::Yaml && content_type.ends_with("yaml");
    let text = if yaml {
        // Texts that look like something else have to be quoted for the YAML of Go, too.
        let text = encoding::to_yaml(&value).map_err(|error| error.to_string())?;
        String::from_utf8(text).map_err(|error| error.to_string())?
    } else {
        value.to_string()
    };
    Ok((text.into_bytes(), true))
}

/// Puts `new` at the place of the pointer, making the objects on the way. `-` is the place behind
/// the last item of a list.
///
/// # Errors
/// If the way leads through something that has no fields.
pub fn put(value: &mut Value, pointer: &str, new: Value) -> Result<(), String> {
    let mut place = value;
    for part in pointer.split('/').skip(1) {
        let key = part.replace("~1", "/").replace("~0", "~");
        if place.is_null() {
            *place = Value::Object(Map::new());
        }
        place = match place {
            Value::Object(map) => map.entry(key).or_insert(Value::Null),
            Value::Array(items) => {
                let index = key.parse().unwrap_or(items.len());
                if index >= items.len() {
                    items.push(Value::Null);
                }
                let last = items.len() - 1;
                &mut items[index.min(last)]
            }
            _ => return Err(format!("set {pointer}: '{key}' is not in an object")),
        };
    }
    *place = new;
    Ok(())
}

fn take(value: &mut Value, pointer: &str) {
    let Some((parent, key)) = pointer.rsplit_once('/') else {
        return;
    };
    let key = key.replace("~1", "/").replace("~0", "~");
    match value.pointer_mut(parent) {
        Some(Value::Object(map)) => {
            map.remove(&key);
        }
        Some(Value::Array(items)) => {
            if let Ok(index) = key.parse::<usize>()
                && index < items.len()
            {
                items.remove(index);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::conform::step::Step;
    use crate::conform::target;

    fn made(step: Value, encoding: Encoding) -> Outgoing {
        let targets = target::targets(&target::crds(false).unwrap());
        let target = targets
            .iter()
            .find(|t| t.plural == "policyreports")
            .unwrap();
        let Step::Request(request) = Step::parse(step).unwrap() else {
            unreachable!("it has a do");
        };
        let mut values = target.variables("n");
        values.insert("object".into(), json!({"metadata": {"name": "o"}}));
        outgoing(&request, target, encoding, &values).unwrap()
    }

    #[test]
    fn a_report_is_changed_and_written_as_yaml() {
        let step = json!({"do": "POST ${collection}", "report": "a",
            "set": {"/metadata/annotations/a~1b": "x", "/results/0/result": "fail"},
            "unset": ["/scope", "/metadata/labels"]});
        let sent = made(step, Encoding::Yaml);
        assert_eq!(
            sent.headers[2],
            ("content-type".into(), "application/yaml".into())
        );
        let body: Value = serde_yaml::from_slice(&sent.body).unwrap();
        assert_eq!(
            body["metadata"],
            json!({"name": "a", "annotations": {"a/b": "x"}})
        );
        assert_eq!(body["results"][0]["result"], "fail");
        assert!(body.get("scope").is_none());
    }

    #[test]
    fn a_saved_object_is_sent_back() {
        let step = json!({"do": "PUT ${item o}", "body": "${object}", "set": {"/x": 1}});
        let sent = made(step, Encoding::Json);
        let body: Value = serde_json::from_slice(&sent.body).unwrap();
        assert_eq!(body, json!({"metadata": {"name": "o"}, "x": 1}));
        assert!(
            sent.uri.ends_with("/namespaces/n/policyreports/o"),
            "{}",
            sent.uri
        );
    }

    #[test]
    fn types_and_headers_win_over_what_is_usual() {
        let step = json!({"do": "PATCH /x", "body": {}, "type": "application/merge-patch+json",
            "headers": {"Accept": "text/html"}});
        let sent = made(step, Encoding::Yaml);
        assert_eq!(sent.body, b"{}");
        assert_eq!(sent.headers[1].1, "application/merge-patch+json");
        assert_eq!(sent.headers[2], ("Accept".into(), "text/html".into()));
        let step = json!({"do": "POST /x", "body": {}, "headers": {"content-type": null,
            "accept": null, "user-agent": null}});
        assert!(made(step, Encoding::Json).headers.is_empty());
    }
}
