//! A merge patch, as the kube-apiserver's library does it (`gopkg.in/evanphx/json-patch.v4`): by
//! RFC 7386, but nulls are removed from objects in lists, too, unless the list replaces an object.

use serde_json::{Map, Value};

/// Merges `patch` into `document`.
pub(super) fn merge(document: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (name, value) in patch {
        if value.is_null() {
            document.remove(name);
            continue;
        }
        match document.get_mut(name) {
            None | Some(Value::Null) => {
                document.insert(name.clone(), pruned(value));
            }
            Some(current) => merge_value(current, value),
        }
    }
}

fn merge_value(current: &mut Value, patch: &Value) {
    match (current, patch) {
        (Value::Object(current), Value::Object(patch)) => merge(current, patch),
        (current @ Value::Object(_), patch) => *current = patch.clone(),
        (current, patch) => *current = pruned(patch),
    }
}

/// Returns a copy without the nulls in its objects.
fn pruned(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(pruned).collect(),
        Value::Object(members) => {
            let kept = members.iter().filter(|(_, value)| !value.is_null());
            Value::Object(
                kept.map(|(name, value)| (name.clone(), pruned(value)))
                    .collect(),
            )
        }
        scalar => scalar.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[rstest::rstest]
    #[case(json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": null, "d": 3}}), json!({"a": {"c": 2, "d": 3}}))]
    #[case(json!({"l": [1]}), json!({"l": [{"x": null}, null]}), json!({"l": [{}, null]}))]
    #[case(json!({"l": {"a": 1}}), json!({"l": [{"x": null}]}), json!({"l": [{"x": null}]}))]
    #[case(json!({}), json!({"n": {"x": null, "y": [{"z": null}]}}), json!({"n": {"y": [{}]}}))]
    #[case(json!({"a": null}), json!({"a": {"x": null}}), json!({"a": {}}))]
    #[case(json!({"a": 1}), json!({"a": {"x": null}}), json!({"a": {}}))]
    #[case(json!({"a": 1}), json!({"b": null}), json!({"a": 1}))]
    fn merges(#[case] document: Value, #[case] patch: Value, #[case] expected: Value) {
        let (Value::Object(mut merged), Value::Object(patch)) = (document, patch) else {
            unreachable!("objects");
        };
        merge(&mut merged, &patch);
        assert_eq!(Value::Object(merged), expected);
    }
}
