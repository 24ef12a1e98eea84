//! Objects drawn from a structural schema: valid ones, ones with a mistake, and hostile ones.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::strategy::Union;
use serde_json::{Map, Value, json};

/// A strategy for values.
pub type Values = BoxedStrategy<Value>;

/// Returns objects with this schema, without `apiVersion`, `kind` and `metadata`: most are valid,
/// some have a mistake, a few have several.
pub fn contents(schema: &Value) -> Values {
    let valid = object(schema, &["apiVersion", "kind", "metadata"]);
    let nearly = (valid.clone(), any::<Index>(), odd()).prop_map(spoilt);
    let hostile = (nearly.clone(), any::<Index>(), odd()).prop_map(spoilt);
    let extra = (valid.clone(), name(), odd()).prop_map(|(mut object, name, value)| {
        if let Value::Object(map) = &mut object {
            map.insert(name, value);
        }
        object
    });
    prop_oneof![6 => valid, 2 => nearly, 1 => hostile, 1 => extra].boxed()
}

/// Puts a value somewhere into an object, and returns the object.
pub fn spoilt((mut object, at, value): (Value, Index, Value)) -> Value {
    let mut places = Vec::new();
    pointers(&object, "", &mut places);
    if !places.is_empty()
        && let Some(place) = object.pointer_mut(&places[at.index(places.len())])
    {
        *place = value;
    }
    object
}

/// Collects all JSON pointers into a value, its own left out.
pub fn pointers(value: &Value, at: &str, places: &mut Vec<String>) {
    let mut inside = |key: &str, value: &Value| {
        let pointer = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
        pointers(value, &pointer, places);
        places.push(pointer);
    };
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                inside(&index.to_string(), item);
            }
        }
        Value::Object(map) => map.iter().for_each(|(key, value)| inside(key, value)),
        _ => {}
    }
}

/// Returns values that have this schema.
fn valid(schema: &Value) -> Values {
    let values = by_type(schema);
    if schema["nullable"] == true {
        return prop_oneof![4 => values, 1 => Just(Value::Null)].boxed();
    }
    values
}

fn by_type(schema: &Value) -> Values {
    if let Some(choices) = schema["enum"]
        .as_array()
        .filter(|choices| !choices.is_empty())
    {
        return select(choices.clone()).boxed();
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return prop_oneof![(0..9_i64).prop_map(Value::from), text()].boxed();
    }
    if schema["x-kubernetes-embedded-resource"] == true {
        let resource = json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}});
        return Just(resource).boxed();
    }
    match schema["type"].as_str() {
        Some("string") => formatted(schema),
        Some("integer") => integer(schema),
        Some("number") => select(vec![json!(0.5), json!(1), json!(2.5), json!(1000)]).boxed(),
        Some("boolean") => any::<bool>().prop_map(Value::from).boxed(),
        Some("array") => vec(valid(&schema["items"]), 0..3)
            .prop_map(Value::from)
            .boxed(),
        Some("object") => object(schema, &[]),
        _ => text(),
    }
}

fn formatted(schema: &Value) -> Values {
    match schema["format"].as_str() {
        Some("date-time") => Just(json!("2001-02-03T04:05:06Z")).boxed(),
        Some("byte") => Just(json!("YWJj")).boxed(),
        _ => text(),
    }
}

fn integer(schema: &Value) -> Values {
    let least = schema["minimum"].as_f64().unwrap_or(-3.0);
    let most = schema["maximum"].as_f64().unwrap_or(least + 20.0);
    (0..8_u32)
        .prop_map(move |step| {
            let value = (least + f64::from(step)).min(most);
            // Small whole numbers.
            Value::from(format!("{value:.0}").parse::<i64>().unwrap_or_default())
        })
        .boxed()
}

fn object(schema: &Value, without: &[&str]) -> Values {
    let required: Vec<&str> = schema["required"]
        .as_array()
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    if schema["additionalProperties"].is_object() {
        let values = valid(&schema["additionalProperties"]);
        return vec((name(), values), 0..3)
            .prop_map(|pairs| Value::Object(pairs.into_iter().collect()))
            .boxed();
    }
    let properties = schema["properties"].as_object();
    let fields = properties.into_iter().flatten();
    let fields = fields.filter(|(name, _)| !without.contains(&name.as_str()));
    let fields: Vec<_> = fields
        .map(|(name, schema)| {
            let needed = required.contains(&name.as_str());
            let name = name.clone();
            let field = valid(schema).prop_map(move |value| (name.clone(), value));
            if needed {
                field.prop_map(Some).boxed()
            } else {
                option::weighted(0.35, field).boxed()
            }
        })
        .collect();
    fields
        .prop_map(|fields| Value::Object(fields.into_iter().flatten().collect::<Map<_, _>>()))
        .boxed()
}

fn text() -> Values {
    select(vec!["a", "b:1", "0", "some-text", "x/y"])
        .prop_map(Value::from)
        .boxed()
}

/// Returns names of fields.
pub fn name() -> BoxedStrategy<String> {
    select(vec!["a", "b", "known", "summary", "kind", "é", "a.b/c", ""])
        .prop_map(str::to_owned)
        .boxed()
}

/// Returns values that nobody expects. No whole numbers with a fraction: see the deviation of that
/// name.
pub fn odd() -> Values {
    let fixed = vec![
        Value::Null,
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(1e300),
        json!(i64::MAX),
        json!(i64::MIN),
        json!(9_007_199_254_740_993_i64),
        json!(""),
        json!(" "),
        json!("<b>&'\"\\/"),
        json!("\u{0}\u{1f}\u{7f}\u{2028}"),
        json!("ünïcödé \u{1f600}"),
        json!("1"),
        json!("null"),
        json!([]),
        json!([null]),
        json!([[]]),
        json!({}),
        json!({"": null}),
        json!({"a": {"b": {"c": [1, "2", null]}}}),
    ];
    let choices = [
        select(fixed).boxed(),
        "[ -~]{0,12}".prop_map(Value::from).boxed(),
    ];
    Union::new(choices).boxed()
}

#[cfg(test)]
mod tests {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    use super::*;

    #[test]
    fn required_fields_are_there_and_types_are_right() {
        let schema = json!({"type": "object", "required": ["spec"], "properties": {
            "metadata": {"type": "object"},
            "spec": {"type": "object", "required": ["level"], "properties": {
                "level": {"type": "integer", "minimum": 2, "maximum": 4},
                "tags": {"type": "array", "items": {"type": "string"}}}}}});
        let mut runner = TestRunner::deterministic();
        for _ in 0..200 {
            let value = object(&schema, &["metadata"])
                .new_tree(&mut runner)
                .unwrap()
                .current();
            let level = value["spec"]["level"].as_i64().unwrap();
            assert!((2..=4).contains(&level), "{value}");
            assert!(value.get("metadata").is_none());
        }
    }

    #[test]
    fn pointers_lead_everywhere() {
        let value = json!({"a/b": [{"c": 1}]});
        let mut places = Vec::new();
        pointers(&value, "", &mut places);
        assert_eq!(places, ["/a~1b/0/c", "/a~1b/0", "/a~1b"]);
    }
}
