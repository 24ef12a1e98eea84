//! Filling in default values.

use serde_json::Value;

use super::structural::{Additional, Structural};

impl Structural {
    /// Fills in the schema's defaults for missing values, and for nulls that are not nullable.
    pub fn default_values(&self, object: &mut Value) {
        if !self.needs.defaults {
            return;
        }
        match object {
            Value::Object(fields) => {
                for (name, property) in &self.properties {
                    let Some(default) = &property.default else {
                        continue;
                    };
                    let missing = fields
                        .get(name)
                        .is_none_or(|value| property.refuses_null(value));
                    if missing {
                        fields.insert(name.clone(), default.clone());
                    }
                }
                for (key, value) in fields {
                    match (self.properties.get(key), &self.additional) {
                        (Some(property), _) => property.default_values(value),
                        (None, Additional::Schema(below)) => below.default_item(value),
                        (None, Additional::Any | Additional::Unspecified) => {}
                    }
                }
            }
            Value::Array(items) => {
                if let Some(below) = &self.items {
                    for item in items {
                        below.default_item(item);
                    }
                }
            }
            _ => {}
        }
    }

    fn default_item(&self, value: &mut Value) {
        if self.refuses_null(value) {
            *value = self.default.clone().unwrap_or_default();
        }
        self.default_values(value);
    }

    fn refuses_null(&self, value: &Value) -> bool {
        value.is_null() && !self.nullable
    }
}
