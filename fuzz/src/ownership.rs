//! Server-side apply and `managedFields`.

use std::sync::{Arc, LazyLock};

use apimachinery::definition::{ResourceDefinition, VersionDefinition};
use apimachinery::schema::{Encoding, Malformed, decode};
use fieldmanager::{ApplyError, FieldManager, FieldSet, Managed, keep_timestamps};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::parts::{bounded, first_line, parts};
use crate::server::definitions;

/// Most operations of one input.
const OPERATIONS: usize = 8;

static DEFINITIONS: LazyLock<Vec<ResourceDefinition>> = LazyLock::new(definitions);

/// One operation: `apply`, `force` or `update`, then the manager's name.
struct Operation<'a> {
    verb: &'a str,
    name: &'a str,
    object: &'a Value,
    now: Timestamp,
}

/// Operations in order, each a line `VERB NAME` and an object below it. An object says by its kind
/// which resource it is of; all are versions of one object.
pub fn apply(data: &[u8]) {
    let mut live: Option<Value> = None;
    let mut kind = None;
    for (number, part) in parts(data).into_iter().take(OPERATIONS).enumerate() {
        let (order, body) = first_line(part);
        let Ok(decoded) = decode(body, Encoding::Yaml) else {
            return;
        };
        let object = decoded.value;
        let known = DEFINITIONS.iter().find(|of| object["kind"] == *of.kind);
        let Some(definition) = kind.or(known) else {
            return;
        };
        kind = Some(definition);
        let Some(version) = definition.served_versions().next() else {
            return;
        };
        let manager = definition
            .field_manager(&version.name)
            .expect("it is served");
        let (verb, name) = order.split_once(' ').unwrap_or((&order, ""));
        let now = Timestamp::from_second(i64::try_from(number).unwrap_or_default());
        let operation = Operation {
            verb,
            name,
            object: &object,
            now: now.expect("a few seconds after 1970"),
        };
        if let Some(next) = operation.run(manager, version, live.as_ref(), data) {
            live = Some(next);
        }
    }
}

impl Operation<'_> {
    /// Returns the object afterwards; `None` when the operation is refused.
    fn run(
        &self,
        manager: &Arc<FieldManager>,
        version: &VersionDefinition,
        live: Option<&Value>,
        data: &[u8],
    ) -> Option<Value> {
        let next = match self.verb {
            "update" => {
                let new = shaped(version, self.object.clone())?;
                let new = manager.update(live, new, self.name, self.now);
                settled(live, new)
            }
            "apply" | "force" => {
                let applied = self.applied(manager, live);
                let applied = applied.map_err(|error| told(&error, data)).ok()?;
                let applied = settled(live, shaped(version, applied)?);
                // What nobody owns after all counts as old at the next apply, and is entered then.
                if applied["metadata"]["managedFields"].is_null() {
                    return Some(applied);
                }
                let again = self.applied(manager, Some(&applied));
                let again = again.unwrap_or_else(|error| panic!("refused when repeated: {error}"));
                let again = shaped(version, again);
                // A null in a key of a list is defaulted after the merge, which then finds no entry
                // of that key and adds another.
                if again.is_none() && holds_null(self.object) {
                    return Some(applied);
                }
                let again = again.expect("it was shaped");
                assert_eq!(settled(Some(&applied), again), applied, "applied twice");
                applied
            }
            _ => return None,
        };
        owned(&next, data);
        Some(next)
    }

    fn applied(&self, manager: &FieldManager, live: Option<&Value>) -> Result<Value, ApplyError> {
        let force = self.verb == "force";
        manager.apply(live, self.object, self.name, force, self.now)
    }
}

fn holds_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(holds_null),
        Value::Object(fields) => fields.values().any(holds_null),
        _ => false,
    }
}

/// As it is stored; `None` where it is not taken.
fn shaped(version: &VersionDefinition, mut object: Value) -> Option<Value> {
    let coerced = version.schema.coerce(&mut object, Malformed::Refuse);
    coerced.ok()?;
    version.schema.default_values(&mut object);
    let valid = version.schema.validate(&object).is_empty();
    valid.then_some(object)
}

fn settled(live: Option<&Value>, mut new: Value) -> Value {
    if let Some(live) = live {
        keep_timestamps(live, &mut new);
    }
    new
}

fn told(error: &ApplyError, data: &[u8]) {
    bounded("an error", error.to_string().len(), data);
    if let ApplyError::Conflicts(conflicts) = error {
        let causes = conflicts.causes();
        let told = causes
            .iter()
            .map(|of| of.field.len() + of.message.len())
            .sum();
        bounded("the causes of a conflict", told, data);
    }
}

/// The managers that were written can be read, and are written as they were.
fn owned(object: &Value, data: &[u8]) {
    let managed = Managed::decode(object).expect("what was written can be read");
    let written = &object["metadata"]["managedFields"];
    if !written.is_null() {
        assert_eq!(&managed.encode(), written);
    }
    bounded("managedFields", written.to_string().len(), data);
}

/// Two sets of fields: what is read is written and read again as the same, and the algebra holds;
/// and whole `managedFields` around them.
pub fn managed_fields(data: &[u8]) {
    let parts = parts(data);
    let json = |index: usize| Some(decode(parts.get(index)?, Encoding::Json).ok()?.value);
    let (first, second) = (json(0).unwrap_or_default(), json(1).unwrap_or_default());
    entries(&first);
    let sets = [&first, &second].map(FieldSet::from_fields_v1);
    let [Ok(a), Ok(b)] = sets else {
        for error in sets.into_iter().filter_map(Result::err) {
            bounded("an error", error.to_string().len(), data);
        }
        return;
    };
    for set in [&a, &b] {
        let written = set.to_fields_v1();
        assert_eq!(
            FieldSet::from_fields_v1(&written).as_ref(),
            Ok(set),
            "{written}"
        );
        let text: Value = serde_json::from_str(&set.to_json()).expect("it is JSON");
        assert_eq!(FieldSet::from_fields_v1(&text).as_ref(), Ok(set), "{text}");
        for path in set.paths() {
            assert!(set.contains(&path.0), "{path}");
        }
    }
    let (union, both, rest) = (a.union(&b), a.intersection(&b), a.difference(&b));
    assert_eq!(union, b.union(&a));
    assert_eq!(both, b.intersection(&a));
    assert_eq!(rest.union(&both), a);
    assert!(rest.intersection(&b).is_empty());
    assert_eq!(union.len(), rest.len() + b.len());
    assert!(a.difference(&a).is_empty());
    assert!(a.recursive_difference(&a).is_empty());
    assert_eq!(a.leaves().leaves(), a.leaves());
}

fn entries(value: &Value) {
    let list = match value {
        Value::Array(_) => value.clone(),
        other => json!([{"manager": "m", "operation": "Update", "apiVersion": "g/v1",
            "fieldsType": "FieldsV1", "fieldsV1": other}]),
    };
    let object = json!({"metadata": {"managedFields": list}});
    let Ok(managed) = Managed::decode(&object) else {
        return;
    };
    let written = managed.encode();
    let object = json!({"metadata": {"managedFields": &written}});
    let again = Managed::decode(&object).unwrap_or_else(|error| panic!("{error}: {written}"));
    assert_eq!(again.encode(), written);
}
