//! References to other objects.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name of an object in `targetNamespace`.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LocalReference {
    /// Name of the object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}
