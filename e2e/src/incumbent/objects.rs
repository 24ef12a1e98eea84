//! All reports as a list shows them, whole, and their differences from others.

use std::collections::BTreeMap;

use http::Request;
use kube::Client;
use serde_json::{Map, Value};

use super::IncumbentError;
use crate::request::RequestError;
use testreports::{ReportKind, kinds};

/// Kind, namespace (empty for those of the cluster) and name.
pub type Key = (ReportKind, String, String);

/// Members of the metadata that a takeover has to leave as they are.
const KEPT: [&str; 8] = [
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
];
/// Members of the metadata that a store sets for an object that is created there anew.
const GIVEN: [&str; 2] = ["uid", "creationTimestamp"];

/// All objects of [`testreports::GROUPS`].
#[derive(Clone, Debug, Default)]
pub struct Objects(pub BTreeMap<Key, Value>);

impl Objects {
    /// Lists every kind.
    ///
    /// # Errors
    /// If a list is not available.
    pub async fn read(client: &Client) -> Result<Self, IncumbentError> {
        let mut objects = BTreeMap::new();
        for kind in kinds() {
            let list = list(client, kind, "").await?;
            for item in list["items"].as_array().into_iter().flatten() {
                objects.insert(key(kind, item), item.clone());
            }
        }
        Ok(Self(objects))
    }

    /// Returns the differences, as sentences. With `anew`, both may have their own uid and
    /// creationTimestamp.
    #[must_use]
    pub fn differences(&self, wanted: &Self, anew: bool) -> Vec<String> {
        let mut found = Vec::new();
        for (key, wanted) in &wanted.0 {
            match self.0.get(key) {
                None => found.push(format!("{key:?} is lost")),
                Some(object) => found.extend(
                    difference(&reduced(object, anew), &reduced(wanted, anew))
                        .map(|what| format!("{key:?}: {what}")),
                ),
            }
        }
        let strangers = self.0.keys().filter(|key| !wanted.0.contains_key(*key));
        found.extend(strangers.map(|key| format!("{key:?} is there and should not")));
        found
    }
}

/// Returns a list of the whole cluster; `query` begins with `?` where there is one.
///
/// # Errors
/// If it is not available.
pub async fn list(client: &Client, kind: ReportKind, query: &str) -> Result<Value, IncumbentError> {
    let request = Request::get(format!("{}{query}", kind.path(None)))
        .body(Vec::new())
        .map_err(|error| RequestError::of("list reports")(kube::Error::HttpError(error)))?;
    let answer = client.request::<Value>(request).await;
    Ok(answer.map_err(RequestError::of("list reports"))?)
}

/// Returns the key of an object.
#[must_use]
pub fn key(kind: ReportKind, object: &Value) -> Key {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    (kind, text("namespace").to_owned(), text("name").to_owned())
}

/// Returns the parts that have to be the same: everything beside the metadata, and of that
/// [`KEPT`].
fn reduced(object: &Value, anew: bool) -> Map<String, Value> {
    let mut members = object.as_object().cloned().unwrap_or_default();
    // Entries of a list may leave these out; single objects never do.
    members.remove("apiVersion");
    members.remove("kind");
    if let Some(metadata) = members.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| {
            KEPT.contains(&name.as_str()) && !(anew && GIVEN.contains(&name.as_str()))
        });
    }
    members
}

/// Returns the first member in which two objects differ.
fn difference(found: &Map<String, Value>, wanted: &Map<String, Value>) -> Option<String> {
    let mut names: Vec<_> = found.keys().chain(wanted.keys()).collect();
    names.sort();
    names.dedup();
    names
        .into_iter()
        .find_map(|name| match (found.get(name), wanted.get(name)) {
            (Some(Value::Object(found)), Some(Value::Object(wanted))) => {
                difference(found, wanted).map(|inner| format!("{name}.{inner}"))
            }
            (found, wanted) if found != wanted => {
                Some(format!("{name} is {found:?} and should be {wanted:?}"))
            }
            _ => None,
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn objects(uid: &str, version: &str, result: &str) -> Objects {
        let object = json!({"metadata": {"name": "a", "namespace": "n", "uid": uid,
            "resourceVersion": version}, "results": [{"result": result}]});
        Objects([(key(ReportKind::PolicyReport, &object), object)].into())
    }

    #[test]
    fn versions_may_differ_and_nothing_else() {
        let wanted = objects("1", "5", "pass");
        assert!(
            objects("1", "9", "pass")
                .differences(&wanted, false)
                .is_empty()
        );
        assert!(
            objects("2", "9", "pass")
                .differences(&wanted, true)
                .is_empty()
        );
        for other in [
            objects("2", "5", "pass"),
            objects("1", "5", "fail"),
            Objects::default(),
        ] {
            assert_eq!(other.differences(&wanted, false).len(), 1);
        }
        assert_eq!(wanted.differences(&Objects::default(), false).len(), 1);
    }
}
