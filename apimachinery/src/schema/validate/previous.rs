//! Ratcheting: the value before the update.

use std::collections::HashMap;

use serde_json::Value;

use super::super::Structural;
use super::super::structural::{Additional, ListType};
use super::path::Path;

/// The former value, with the schema that says how its parts are found again.
#[derive(Clone, Copy)]
pub(super) struct Previous<'a> {
    pub value: &'a Value,
    pub schema: &'a Structural,
}

impl<'a> Previous<'a> {
    /// Returns the former value of a field, as far as the schema knows the field.
    fn property(self, name: &str) -> Option<Self> {
        let schema = match (self.schema.properties.get(name), &self.schema.additional) {
            (Some(property), _) => property,
            (None, Additional::Schema(below)) => below,
            (None, Additional::Any | Additional::Unspecified) => return None,
        };
        Some(Self {
            value: self.value.get(name)?,
            schema,
        })
    }

    /// Returns the former value of a field for judging it. `apiVersion` and `kind` of the object
    /// itself have none: they are converted before they are compared.
    pub fn field(self, name: &str, path: &Path<'_>) -> Option<Self> {
        if path.is_root() && matches!(name, "apiVersion" | "kind") {
            None
        } else {
            self.property(name)
        }
    }

    /// Returns whether `value` equals the former value. Objects with fields that the schema does
    /// not know, and `map` lists with items that have no key, never equal it.
    pub fn equals(self, value: &Value) -> bool {
        match (value, self.value) {
            (Value::Object(fields), Value::Object(former)) => {
                fields.len() == former.len()
                    && fields.iter().all(|(name, value)| {
                        self.property(name)
                            .is_some_and(|previous| previous.equals(value))
                    })
            }
            (Value::Array(items), Value::Array(former)) => {
                if items.len() != former.len() {
                    return false;
                }
                if !matches!(self.schema.list_type, ListType::Map(_)) {
                    return items == former;
                }
                let by_key = self.items();
                items.iter().all(|item| {
                    by_key
                        .of(item)
                        .is_some_and(|previous| previous.equals(item))
                })
            }
            (value, former) => value == former,
        }
    }

    /// Returns the former values of list items. Only items of a `map` list can be found again.
    pub fn items(self) -> Items<'a> {
        let (ListType::Map(keys), Some(schema), Value::Array(items)) = (
            &self.schema.list_type,
            self.schema.items.as_deref(),
            self.value,
        ) else {
            return Items::default();
        };
        let mut by_key = HashMap::new();
        for item in items {
            if let Some(key) = key_of(item, keys) {
                by_key.entry(key).or_insert(Self {
                    value: item,
                    schema,
                });
            }
        }
        Items { keys, by_key }
    }
}

/// The former values of list items. See [`Previous::items`].
#[derive(Default)]
pub(super) struct Items<'a> {
    keys: &'a [String],
    by_key: HashMap<String, Previous<'a>>,
}

impl<'a> Items<'a> {
    pub fn of(&self, item: &Value) -> Option<Previous<'a>> {
        self.by_key.get(&key_of(item, self.keys)?).copied()
    }
}

/// Returns the values of all keys; none unless all are there and scalar.
fn key_of(item: &Value, keys: &[String]) -> Option<String> {
    let fields = item.as_object()?;
    let values = keys
        .iter()
        .map(|key| fields.get(key).filter(|value| is_scalar(value)))
        .collect::<Option<Vec<_>>>()?;
    serde_json::to_string(&values).ok()
}

fn is_scalar(value: &Value) -> bool {
    matches!(value, Value::Bool(_) | Value::Number(_) | Value::String(_))
}
