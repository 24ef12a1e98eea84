//! The content of a column.

use serde::{Deserialize, Serialize};

/// A printer column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Column {
    /// Heading.
    pub name: String,
    /// OpenAPI type: `string`, `integer`, `number`, `boolean` or `date`.
    #[serde(rename = "type")]
    pub type_: String,
    /// OpenAPI format, may be empty.
    #[serde(default)]
    pub format: String,
    /// Text for `kubectl explain`-like uses; empty means one made from the path.
    #[serde(default)]
    pub description: String,
    /// Priority: 0 is shown always, more only in wide output.
    #[serde(default)]
    pub priority: i32,
    /// Path of the value in the object.
    pub json_path: String,
}
