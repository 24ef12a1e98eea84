//! Filling in default values.

use serde_json::Value;

use super::Structural;

impl Structural {
    /// Fills in the schema's defaults for what is missing, and for nulls that are not nullable.
    pub fn default_values(&self, object: &mut Value) {
        if self.has_defaults {
            self.fill(object);
        }
    }

    fn fill(&self, _object: &mut Value) {}
}
