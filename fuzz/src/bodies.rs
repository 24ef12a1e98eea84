//! Bodies with objects, in JSON and in YAML, on the way of a create.

use std::sync::LazyLock;

use apimachinery::definition::ResourceDefinition;
use apimachinery::encoding::{to_json, to_yaml};
use apimachinery::schema::{
    Encoding, MAX_ERRORS, MAX_UNKNOWN, Malformed, Structural, decode, repeated_keys,
};
use serde_json::Value;

use crate::parts::bounded;
use crate::server::definitions;

static SCHEMAS: LazyLock<Vec<ResourceDefinition>> = LazyLock::new(definitions);

/// A body in JSON.
pub fn json_body(data: &[u8]) {
    if let Some(value) = read(data, Encoding::Json) {
        on_its_way(&value, data);
    }
}

/// A body in YAML.
pub fn yaml_body(data: &[u8]) {
    let repeated = repeated_keys(data);
    let told = repeated.iter().map(|key| key.to_string().len()).sum();
    bounded("what is repeated in a body", told, data);
    match decode(data, Encoding::Yaml) {
        Ok(decoded) => assert_eq!(repeated.is_empty(), decoded.duplicates.is_empty()),
        Err(_) => assert!(repeated.is_empty()),
    }
    if let Some(value) = read(data, Encoding::Yaml) {
        on_its_way(&value, data);
    }
}

fn read(data: &[u8], encoding: Encoding) -> Option<Value> {
    let decoded = match decode(data, encoding) {
        Ok(decoded) => decoded,
        Err(error) => {
            bounded("an error", error.to_string().len(), data);
            return None;
        }
    };
    let told = decoded.duplicates.iter().map(String::len).sum();
    bounded("what is said of duplicates", told, data);
    round_trips(&decoded.value);
    Some(decoded.value)
}

/// A value that was read is written as JSON and as YAML, and read again as the same.
fn round_trips(value: &Value) {
    let json = to_json(value).expect("a value has a JSON form");
    let yaml = to_yaml(value).expect("a value has a YAML form");
    for (text, encoding) in [(json, Encoding::Json), (yaml, Encoding::Yaml)] {
        let again = decode(&text, encoding).unwrap_or_else(|error| {
            panic!("{error}: {}", String::from_utf8_lossy(&text));
        });
        let same = plain(&again.value) == plain(value);
        assert!(same, "{}", String::from_utf8_lossy(&text));
        assert!(again.duplicates.is_empty());
    }
}

/// With whole numbers as integers, whatever notation they came in: Go writes `1e17` as
/// `100000000000000000`, and reads that as an integer.
pub fn plain(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            let text = format!("{}", number.as_f64().unwrap_or_default());
            text.parse::<i64>()
                .map_or_else(|_| value.clone(), Value::from)
        }
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), plain(value)))
            .collect(),
        other => other.clone(),
    }
}

fn on_its_way(value: &Value, data: &[u8]) {
    for definition in &*SCHEMAS {
        for version in definition.served_versions() {
            conforms(&version.schema, value.clone(), data);
        }
    }
}

/// Shaping and defaulting are done once for good, and what is said is bounded.
pub fn conforms(schema: &Structural, mut value: Value, data: &[u8]) {
    let unknown = match schema.coerce(&mut value, Malformed::Refuse) {
        Ok(unknown) => unknown,
        Err(error) => return bounded("an error", error.to_string().len(), data),
    };
    assert!(
        unknown.len() <= MAX_UNKNOWN + data.len(),
        "{}",
        unknown.len()
    );
    let told = unknown.iter().map(String::len).sum();
    bounded("what is unknown of a body", told, data);
    schema.default_values(&mut value);
    let shaped = value.clone();
    let unknown = schema
        .coerce(&mut value, Malformed::Refuse)
        .expect("it was shaped");
    assert_eq!(unknown, Vec::<String>::new());
    assert_eq!(value, shaped);
    schema.default_values(&mut value);
    assert_eq!(value, shaped);

    let errors = schema.validate(&value);
    assert!(errors.len() <= MAX_ERRORS);
    let told = errors.iter().map(|error| error.to_string().len()).sum();
    bounded("what is wrong with a body", told, data);
    let ratcheted = schema.validate_update(&value, &shaped);
    assert!(ratcheted.len() <= errors.len());
}
