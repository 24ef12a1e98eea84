//! Writes that change nothing but times.

use serde_json::Value;

/// Takes the times of the managed fields back to those of `live` when nothing else differs, so that
/// a write without effect is none. Both objects are as they would be stored.
pub fn keep_timestamps(live: &Value, new: &mut Value) {
    let (Some(before), Some(after)) = (entries(live), entries(new)) else {
        return;
    };
    if before.is_empty() || before.len() != after.len() {
        return;
    }
    let same_entries = before
        .iter()
        .zip(after)
        .all(|(before, after)| without_time(before) == without_time(after));
    if !same_entries || !equal_beside_entries(live, new) {
        return;
    }
    let before = before.clone();
    if let Some(entries) = new.pointer_mut("/metadata/managedFields") {
        *entries = Value::Array(before);
    }
}

fn entries(object: &Value) -> Option<&Vec<Value>> {
    object.pointer("/metadata/managedFields")?.as_array()
}

fn without_time(entry: &Value) -> Value {
    let mut entry = entry.clone();
    if let Some(entry) = entry.as_object_mut() {
        entry.remove("time");
    }
    entry
}

fn equal_beside_entries(live: &Value, new: &Value) -> bool {
    let metadata = |object: &Value| object.get("metadata").and_then(Value::as_object).cloned();
    let is_same_metadata = match (metadata(live), metadata(new)) {
        (Some(mut before), Some(mut after)) => {
            before.remove("managedFields");
            after.remove("managedFields");
            before == after
        }
        (before, after) => before == after,
    };
    is_same_metadata && fields_but_metadata(live).eq(fields_but_metadata(new))
}

fn fields_but_metadata(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let fields = object.as_object().into_iter().flatten();
    fields.filter(|(name, _)| *name != "metadata")
}
