//! Ratcheting: what a value was before the update.

use std::collections::HashMap;

use serde_json::Value;

use super::super::Structural;
use super::super::structural::{Additional, ListType};
use super::path::Path;

/// The former self of a value, with the schema that says how its parts are found again.
#[derive(Clone, Copy)]
pub(super) struct Previous<'a> {
    pub value: &'a Value,
    pub schema: &'a Structural,
}

impl<'a> Previous<'a> {
    /// The former self of a field. `apiVersion` and `kind` of the object itself have none: they are
    /// converted before they are compared.
    pub fn field(self, name: &str, path: &Path<'_>) -> Option<Self> {
        if path.is_root() && matches!(name, "apiVersion" | "kind") {
            return None;
        }
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

    /// The former selves of list items. Only items of a `map` list can be found again.
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

/// See [`Previous::items`].
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

fn key_of(item: &Value, keys: &[String]) -> Option<String> {
    let fields = item.as_object()?;
    let values: Vec<&Value> = keys
        .iter()
        .map(|key| fields.get(key).unwrap_or(&Value::Null))
        .collect();
    serde_json::to_string(&values).ok()
}
