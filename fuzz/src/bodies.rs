//! Bodies with objects, in JSON and in YAML, on the way of a create.

use std::sync::LazyLock;

use apimachinery::definition::ResourceDefinition;
use apimachinery::encoding::{to_json, to_yaml};
use apimachinery::schema::{
    Encoding, MAX_DEPTH, MAX_ERRORS, MAX_UNKNOWN, Malformed, Structural, decode, repeated_keys,
};
use serde::Deserialize as _;
use serde_json::Value;

use crate::parts::bounded;
use crate::server::definitions;

/// Levels that the parser is let find by itself.
const LEVELS: usize = 127;

static SCHEMAS: LazyLock<Vec<ResourceDefinition>> = LazyLock::new(definitions);

/// A body in JSON.
pub fn json_body(data: &[u8]) {
    if let Some(value) = read(data, Encoding::Json) {
        on_its_way(&value, data);
    }
}

/// A body in YAML.
pub fn yaml_body(data: &[u8]) {
    levels_are_counted_first(data);
    let repeated = repeated_keys(data);
    let told = repeated.iter().map(|key| key.to_string().len()).sum();
    bounded("what is repeated in a body", told, data);
    if let Some(value) = read(data, Encoding::Yaml) {
        on_its_way(&value, data);
    }
}

/// What the parser would find too deep is refused before it is asked, and nothing else is: brackets
/// that are put in the midst of a text count where the parser takes them for brackets.
fn levels_are_counted_first(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let (before, behind) = text.split_at(text.floor_char_boundary(text.len() / 2));
    let nested = format!("{before}{}{behind}", "[".repeat(130));
    // The parser looks at the first document alone, which may end without a mark.
    let is_alone = |text: &str| serde_yaml::Deserializer::from_str(text).take(2).count() < 2;
    let marked = ["---", "...", "%"].iter().any(|mark| nested.contains(mark));
    if marked || !is_alone(text) || !is_alone(&nested) {
        return;
    }
    if is_too_deep(text).is_some_and(|parser| !parser) {
        assert!(!is_refused(text), "{text:?}");
    }
    if let Some(parser) = is_too_deep(&nested) {
        // An alias of itself is deep without a bracket.
        assert!(
            is_refused(&nested) == parser || nested.contains('*'),
            "{nested:?}"
        );
    }
}

/// Returns whether a body is refused for its depth before the parser is asked, which would name a
/// place.
fn is_refused(text: &str) -> bool {
    let told = decode(text.as_bytes(), Encoding::Yaml).map_err(|error| error.to_string());
    told.is_err_and(|error| error.ends_with(&format!("exceeded max depth of {MAX_DEPTH}")))
}

/// Returns what the parser by itself says of a text; none where it says that it is no YAML.
fn is_too_deep(text: &str) -> Option<bool> {
    let document = serde_yaml::Deserializer::from_str(text).next()?;
    match serde_yaml::Value::deserialize(document) {
        Ok(value) => Some(depth(&value) > LEVELS),
        Err(error) => error
            .to_string()
            .contains("recursion limit")
            .then_some(true),
    }
}

fn depth(value: &serde_yaml::Value) -> usize {
    use serde_yaml::Value;
    match value {
        Value::Sequence(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Mapping(map) => {
            let inside = map.iter().map(|(key, value)| depth(key).max(depth(value)));
            1 + inside.max().unwrap_or(0)
        }
        Value::Tagged(tagged) => depth(&tagged.value),
        _ => 0,
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

/// What was read is written as JSON and as YAML, and read again as the same.
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
