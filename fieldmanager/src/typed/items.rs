//! Items of associative lists.

use serde_json::Value;

use crate::go;
use crate::path::PathElement;
use crate::schema::{List, ListRelation, TypeRef};

/// Returns the path element of an item, or the reason why it has none.
pub(super) fn path_element(list: &List, item: &Value) -> Result<PathElement, String> {
    match &list.relation {
        ListRelation::Atomic => Err("invalid indexing of non-associative list".to_owned()),
        ListRelation::Set => of_set(item),
        ListRelation::Map(keys) => of_map(keys, &list.items, item),
    }
}

fn of_set(item: &Value) -> Result<PathElement, String> {
    Err(match item {
        Value::Object(_) => "associative list without keys has an element that's a map type",
        Value::Array(_) => "not supported: associative list with lists as elements",
        Value::Null => "associative list without keys has an element that's an explicit null",
        scalar => return Ok(PathElement::value(scalar.clone())),
    }
    .to_owned())
}

fn of_map(keys: &[String], of: &TypeRef, item: &Value) -> Result<PathElement, String> {
    let item = match item {
        Value::Null => return Err("associative list with keys may not have a null element".into()),
        Value::Object(item) => item,
        _ => return Err("associative list with keys may not have non-map elements".into()),
    };
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        if let Some(value) = item.get(key) {
            found.push((key.clone(), value.clone()));
        } else if let Some(default) = default_of(of, key)? {
            found.push((key.clone(), default));
        }
    }
    if found.is_empty() {
        let keys: Vec<String> = keys.iter().map(|key| go::quote(key)).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't \
             have default values for any key fields)",
            keys.join(" ")
        ));
    }
    Ok(PathElement::key(found))
}

fn default_of(of: &TypeRef, key: &str) -> Result<Option<Value>, String> {
    let Some(map) = &of.resolve().map else {
        return Err(format!(
            "couldn't find default value for {key}: associative list may not have non-map types"
        ));
    };
    Ok(map.fields.get(key).and_then(|field| field.default.clone()))
}
