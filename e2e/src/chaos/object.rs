//! The data that the harness writes into objects, and how it reads it back.

use crds::control::checksum;
use serde_json::{Value, json};

use super::ledger::{Key, Stamp};
use testreports::ReportKind;

/// Annotation with [`Stamp::seq`].
pub const SEQ: &str = "chaos/seq";
/// Annotation with [`Stamp::id`].
pub const ID: &str = "chaos/id";
/// Label that watchers select by.
pub const LABEL: &str = "chaos/part";
/// The selected value of the label, and the other.
pub const PARTS: [&str; 2] = ["selected", "other"];
/// Field manager of server-side apply.
pub const MANAGER: &str = "chaos";
/// Most results in a report.
const RESULTS: u64 = 12;
/// Fields that the store of the object sets.
const OF_STORE: [&str; 5] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
];

/// The wanted object under a name, without the parts that a write changes.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The key of the object; the name is empty as long as the server has not assigned it.
    pub key: Key,
    /// True when it has the label that is selected.
    pub selected: bool,
    /// An owner in its namespace: name and uid of a `ConfigMap`.
    pub owner: Option<(String, String)>,
}

impl Subject {
    /// Returns the path of the collection that it is in.
    #[must_use]
    pub fn collection(&self) -> String {
        let namespace = self.key.kind.namespaced().then_some(&*self.key.namespace);
        self.key.kind.path(namespace)
    }

    /// Returns the path of the object.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}/{}", self.collection(), self.key.name)
    }

    /// Returns the whole object as it is sent to create it.
    #[must_use]
    pub fn body(&self, stamp: Stamp) -> Value {
        let results: Vec<Value> = (0..=stamp.id % RESULTS)
            .map(|number| {
                json!({"policy": format!("policy-{number}"), "result": "pass",
                    "message": format!("write {} says so", stamp.id)})
            })
            .collect();
        let mut object = self.head(stamp);
        body_of(&mut object, self.key.kind)["results"] = json!(results);
        object["metadata"]["labels"] = json!({LABEL: PARTS[usize::from(!self.selected)]});
        if let Some((name, uid)) = &self.owner {
            object["metadata"]["ownerReferences"] =
                json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid}]);
        }
        object
    }

    /// Returns the fields that server-side apply owns: the stamp and nothing that other verbs leave
    /// out.
    #[must_use]
    pub fn applied(&self, stamp: Stamp) -> Value {
        let mut object = self.head(stamp);
        object["metadata"]["labels"] = json!({LABEL: PARTS[usize::from(!self.selected)]});
        object
    }

    fn head(&self, stamp: Stamp) -> Value {
        let kind = self.key.kind;
        let mut object = json!({
            "apiVersion": format!("{}/{}", kind.group(), kind.version()),
            "kind": kind.kind(), "metadata": {}});
        if !self.key.name.is_empty() {
            object["metadata"]["name"] = json!(self.key.name);
        }
        if kind.namespaced() {
            object["metadata"]["namespace"] = json!(self.key.namespace);
        }
        if kind.ephemeral() {
            object["spec"] = json!({"owner":
                {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}});
        }
        mark(&mut object, kind, stamp);
        object
    }
}

/// Writes the stamp into an object.
pub fn mark(object: &mut Value, kind: ReportKind, stamp: Stamp) {
    object["metadata"]["annotations"][SEQ] = json!(stamp.seq.to_string());
    object["metadata"]["annotations"][ID] = json!(stamp.id.to_string());
    body_of(object, kind)["summary"]["pass"] = json!(stamp.seq);
}

/// Returns a patch of RFC 7386 with the stamp.
#[must_use]
pub fn merge_patch(kind: ReportKind, stamp: Stamp) -> Value {
    let mut patch = json!({});
    mark(&mut patch, kind, stamp);
    patch
}

/// Returns a patch of RFC 6902 with the stamp.
#[must_use]
pub fn json_patch(kind: ReportKind, stamp: Stamp) -> Value {
    let annotation = |name: &str| format!("/metadata/annotations/{}", name.replace('/', "~1"));
    let body = if kind.ephemeral() { "/spec" } else { "" };
    json!([
        {"op": "replace", "path": annotation(SEQ), "value": stamp.seq.to_string()},
        {"op": "replace", "path": annotation(ID), "value": stamp.id.to_string()},
        {"op": "replace", "path": format!("{body}/summary/pass"), "value": stamp.seq},
    ])
}

fn body_of(object: &mut Value, kind: ReportKind) -> &mut Value {
    if kind.ephemeral() {
        &mut object["spec"]
    } else {
        object
    }
}

/// Returns the stamp of an object, if it has one.
#[must_use]
pub fn stamp(object: &Value) -> Option<Stamp> {
    let annotations = &object["metadata"]["annotations"];
    let number = |name: &str| annotations[name].as_str()?.parse().ok();
    Some(Stamp {
        seq: number(SEQ)?,
        id: number(ID)?,
    })
}

/// Returns whether the body is of another write than the annotations.
#[must_use]
pub fn torn(object: &Value, kind: ReportKind) -> bool {
    let body = if kind.ephemeral() {
        &object["spec"]
    } else {
        object
    };
    let seq = stamp(object).map(|stamp| stamp.seq);
    seq.is_some() && body["summary"]["pass"].as_u64() != seq
}

/// Returns a checksum of the fields that clients wrote, without those of the store.
#[must_use]
pub fn content(object: &Value) -> String {
    let mut object = object.clone();
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in OF_STORE {
            meta.remove(field);
        }
    }
    if let Some(whole) = object.as_object_mut() {
        // Entries of a list may leave these out; single objects never do.
        whole.remove("apiVersion");
        whole.remove("kind");
    }
    hex::encode(checksum(&object))
}

/// Returns the key of an object.
#[must_use]
pub fn key(kind: ReportKind, object: &Value) -> Key {
    let text = |field: &str| {
        let text = object["metadata"][field].as_str();
        text.unwrap_or_default().to_owned()
    };
    Key {
        kind,
        namespace: text("namespace"),
        name: text("name"),
    }
}

/// Returns the resourceVersion of an object or list, 0 where there is none.
#[must_use]
pub fn version(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str();
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(kind: ReportKind) -> Subject {
        Subject {
            key: Key {
                kind,
                namespace: "n".into(),
                name: "a".into(),
            },
            selected: true,
            owner: Some(("o".into(), "u".into())),
        }
    }

    #[test]
    fn every_way_to_write_leaves_the_stamp_in_annotations_and_body() {
        for kind in [ReportKind::PolicyReport, ReportKind::EphemeralReport] {
            let (first, second) = (Stamp { seq: 1, id: 7 }, Stamp { seq: 2, id: 9 });
            let mut object = subject(kind).body(first);
            assert_eq!(stamp(&object), Some(first));
            assert!(!torn(&object, kind));
            let patch: json_patch::Patch =
                serde_json::from_value(json_patch(kind, second)).unwrap();
            let mut patched = object.clone();
            json_patch::patch(&mut patched, &patch).unwrap();
            assert_eq!(stamp(&patched), Some(second));
            json_patch::merge(&mut object, &merge_patch(kind, second));
            assert_eq!(object, patched);
            assert!(!torn(&object, kind));
            object["metadata"]["annotations"][SEQ] = json!("5");
            assert!(torn(&object, kind));
        }
    }

    #[test]
    fn content_is_what_clients_wrote() {
        let mut object = subject(ReportKind::PolicyReport).body(Stamp { seq: 1, id: 7 });
        let before = content(&object);
        object["metadata"]["uid"] = json!("x");
        object["metadata"]["resourceVersion"] = json!("5");
        assert_eq!(content(&object), before);
        object["summary"]["pass"] = json!(3);
        assert_ne!(content(&object), before);
    }
}
