//! What is kept of `metadata.managedFields` while ownership is not tracked.
//!
//! Entries are stored as clients and imports give them. A client that leaves them out keeps those
//! of the stored object, and one that sends a single empty entry clears them, as on the
//! kube-apiserver; no entries are made up.

use serde_json::Value;

use super::{Object, meta};

const FIELD: &str = "managedFields";

/// Drops entries of a new object that cannot be read.
pub fn on_create(object: &mut Object) {
    meta::edit(object, |metadata| {
        if !metadata.get(FIELD).is_some_and(readable) {
            metadata.remove(FIELD);
        }
    });
}

/// Takes the entries of the stored object where those of the update are missing or cannot be read.
pub fn on_update(new: &mut Object, old: &Object) {
    let stored = meta::metadata(old).and_then(|m| m.get(FIELD));
    meta::edit(new, |metadata| {
        let entries = match metadata.remove(FIELD) {
            Some(given) if is_reset(&given) => None,
            Some(given) if readable(&given) => Some(match stored {
                // An update that changes nothing but times in the entries changes nothing.
                Some(stored) if without_times(&given) == without_times(stored) => stored.clone(),
                _ => given,
            }),
            _ => stored.cloned(),
        };
        if let Some(entries) = entries {
            metadata.insert(FIELD.to_owned(), entries);
        }
    });
}

/// One empty entry: the request to forget all of them.
fn is_reset(entries: &Value) -> bool {
    matches!(entries.as_array().map(Vec::as_slice),
        Some([only]) if only.as_object().is_some_and(serde_json::Map::is_empty))
}

fn readable(entries: &Value) -> bool {
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    entries.as_array().is_some_and(|entries| {
        !entries.is_empty()
            && entries.iter().all(|entry| {
                matches!(text(entry, "operation").as_str(), "Apply" | "Update")
                    && !text(entry, "apiVersion").is_empty()
                    && text(entry, "fieldsType") == "FieldsV1"
                    && matches!(entry["fieldsV1"], Value::Object(_) | Value::Null)
            })
    })
}

fn without_times(entries: &Value) -> Value {
    let mut entries = entries.clone();
    for entry in entries.as_array_mut().into_iter().flatten() {
        if let Some(entry) = entry.as_object_mut() {
            entry.remove("time");
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(manager: &str, time: &str) -> Value {
        json!({"manager": manager, "operation": "Update", "apiVersion": "g/v1", "time": time,
            "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}})
    }

    fn object(entries: Option<Value>) -> Object {
        let mut object = json!({"metadata": {}}).as_object().unwrap().clone();
        if let Some(entries) = entries {
            object["metadata"][FIELD] = entries;
        }
        object
    }

    fn updated(given: Option<Value>, stored: Option<Value>) -> Value {
        let mut new = object(given);
        on_update(&mut new, &object(stored));
        new["metadata"][FIELD].clone()
    }

    #[test]
    fn update_keeps_resets_or_replaces() {
        let (old, new) = (json!([entry("a", "1")]), json!([entry("b", "2")]));
        assert_eq!(updated(None, Some(old.clone())), old);
        assert_eq!(
            updated(Some(json!([{"operation": "?"}])), Some(old.clone())),
            old
        );
        assert_eq!(updated(Some(json!([{}])), Some(old.clone())), Value::Null);
        assert_eq!(updated(Some(new.clone()), Some(old.clone())), new);
        assert_eq!(
            updated(Some(json!([entry("a", "2")])), Some(old.clone())),
            old
        );
        assert_eq!(updated(Some(new.clone()), None), new);
        assert_eq!(
            updated(Some(json!([{"operation": "?"}])), None),
            Value::Null
        );
    }

    #[test]
    fn create_keeps_what_can_be_read() {
        for (entries, kept) in [
            (json!([entry("a", "1")]), true),
            (json!([{}]), false),
            (json!("x"), false),
        ] {
            let mut new = object(Some(entries));
            on_create(&mut new);
            assert_eq!(new["metadata"].get(FIELD).is_some(), kept);
        }
    }
}
