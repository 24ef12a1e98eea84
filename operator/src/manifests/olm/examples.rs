//! Examples that consoles offer: those of `manifests/examples`.

use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::manifests::error::Error;
use crate::manifests::installation::Files;

/// The example with which a form begins.
pub(super) const FIRST: &str = "minimal";

/// Returns the `ReportsServer` of each example, called as its file: they share a name otherwise, and
/// consoles list them by name.
pub(super) fn examples(files: &Files) -> Result<Vec<Value>, Error> {
    let mut found = Vec::new();
    for (path, text) in files {
        for document in serde_yaml::Deserializer::from_str(text) {
            let mut object = Value::deserialize(document)?;
            if object["kind"] == "ReportsServer" {
                object["metadata"]["name"] = json!(path.trim_end_matches(".yaml"));
                found.push(object);
            }
        }
    }
    Ok(found)
}
