//! `${name}` in the texts of cases.

use std::collections::BTreeMap;

use serde_json::Value;

/// Values by name.
pub type Variables = BTreeMap<String, Value>;

/// Puts values into all texts of `value`, keys of objects included. A text that is nothing but one
/// variable becomes its value; names without a value stay.
pub fn fill(value: &mut Value, variables: &Variables) {
    match value {
        Value::String(text) => {
            if let Some(whole) = exact(text).and_then(|name| variables.get(name)) {
                *value = whole.clone();
            } else {
                *text = fill_text(text, variables);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, variables)),
        Value::Object(map) => {
            let filled = std::mem::take(map).into_iter().map(|(key, mut value)| {
                fill(&mut value, variables);
                (fill_text(&key, variables), value)
            });
            *map = filled.collect();
        }
        _ => {}
    }
}

/// Expands long values: `{$repeat: {text: T, times: N}}` becomes a text, `{$repeat: {item: I,
/// times: N}}` a list.
pub fn expand(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(expand),
        Value::Object(map) => {
            if map.len() == 1
                && let Some(repeat) = map.get("$repeat")
            {
                *value = repeated(repeat);
            } else {
                map.values_mut().for_each(expand);
            }
        }
        _ => {}
    }
}

fn repeated(repeat: &Value) -> Value {
    let times = repeat["times"].as_u64();
    let times = times
        .and_then(|times| usize::try_from(times).ok())
        .unwrap_or(0);
    match &repeat["text"] {
        Value::String(text) => Value::from(text.repeat(times)),
        _ => Value::from(vec![repeat["item"].clone(); times]),
    }
}

/// Returns a text in which values are written, filled as by [`fill`].
#[must_use]
pub fn fill_text(text: &str, variables: &Variables) -> String {
    let mut text = text.to_owned();
    let mut from = text.len();
    // From the last one backwards, so that a name may be made of other variables.
    while let Some(start) = text[..from].rfind("${") {
        from = start;
        let Some(length) = text[start..].find('}') else {
            continue;
        };
        let name = &text[start + 2..start + length];
        if let Some(value) = lookup(name, variables) {
            text.replace_range(start..=start + length, &value);
        }
    }
    text
}

/// Returns the first name in `text` that has no value.
#[must_use]
pub fn unknown(text: &str) -> Option<&str> {
    let start = text.find("${")?;
    let length = text[start..].find('}')?;
    Some(&text[start + 2..start + length])
}

fn exact(text: &str) -> Option<&str> {
    let name = text.strip_prefix("${")?.strip_suffix('}')?;
    (!name.contains(['$', '{', '}'])).then_some(name)
}

fn lookup(name: &str, variables: &Variables) -> Option<String> {
    if let Some(item) = name.strip_prefix("item ") {
        let collection = lookup("collection", variables)?;
        return Some(format!("{collection}/{}", item.trim()));
    }
    match variables.get(name)? {
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn variables() -> Variables {
        [
            ("collection".to_owned(), json!("/apis/g/v/things")),
            ("name".to_owned(), json!("a")),
            ("object".to_owned(), json!({"x": 1})),
        ]
        .into()
    }

    #[rstest::rstest]
    #[case("${item a}?x=1", "/apis/g/v/things/a?x=1")]
    #[case("${item ${name}}/${name}", "/apis/g/v/things/a/a")]
    #[case("${later} and ${name}", "${later} and a")]
    #[case("${object}!", "{\"x\":1}!")]
    #[case("${name", "${name")]
    fn texts(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(fill_text(text, &variables()), expected);
    }

    #[test]
    fn a_whole_text_becomes_the_value() {
        let mut value = json!({"a": "${object}", "${name}/b": ["${name}"]});
        fill(&mut value, &variables());
        assert_eq!(value, json!({"a": {"x": 1}, "a/b": ["a"]}));
    }

    #[test]
    fn long_values_are_made() {
        let mut value = json!({"a": {"$repeat": {"text": "xy", "times": 2}},
            "b": [{"$repeat": {"item": {"c": 1}, "times": 2}}]});
        expand(&mut value);
        assert_eq!(value, json!({"a": "xyxy", "b": [[{"c": 1}, {"c": 1}]]}));
    }

    #[test]
    fn names_without_a_value_are_found() {
        assert_eq!(unknown("a ${b} c"), Some("b"));
        assert_eq!(unknown("a b"), None);
    }
}
