//! A copy in etcd, and the text that is written for it. Pure.

use crds::control::{Checksum, checksum};
use serde_json::{Value, json};

use crate::migration::cluster::pages::{Identity, Key};

/// A copy in etcd.
#[derive(Clone, Debug)]
pub(super) struct Copy {
    pub uid: Box<str>,
    pub version: u64,
    pub content: Checksum,
    /// True while finalizers keep a copy that is being deleted. One that loses them by a write goes.
    pub deleting: bool,
    /// False until the server is known to have the object, or to have had it.
    pub matched: bool,
}

pub(super) fn copy_of(object: &Value, found: Identity, matched: bool) -> (Key, Copy) {
    (
        found.key,
        Copy {
            uid: found.uid.into(),
            version: found.version,
            content: content(object),
            deleting: is_deleting(object),
            matched,
        },
    )
}

/// Returns whether an object is being deleted.
pub(super) fn is_deleting(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
}

/// Metadata that the kube-apiserver assigns itself.
const ASSIGNED: [&str; 7] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "uid",
];

/// Returns the checksum of what a client has put into an object; equal on both sides once it is
/// written.
pub(super) fn content(object: &Value) -> Checksum {
    let mut bare = object.clone();
    if let Some(meta) = bare.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ASSIGNED {
            meta.remove(field);
        }
    }
    checksum(&bare)
}

/// Returns what a copy of an object has to have: its content, and true while it is being deleted.
fn says(object: &Value) -> (Checksum, bool) {
    (content(object), is_deleting(object))
}

/// Returns whether an object in etcd has what ours says, and is being deleted if that is.
pub fn is_copy(etcd: &Value, ours: &Value) -> bool {
    says(etcd) == says(ours)
}

/// Returns whether a copy has what our object says, and is being deleted if that is.
pub(super) fn is_up_to_date(copy: &Copy, ours: &Value) -> bool {
    (copy.content, copy.deleting) == says(ours)
}

/// Returns the body of a write: our object, as the door's version, at the state of etcd's copy.
pub(super) fn prepared(ours: &Value, api_version: &str, copy: Option<(&str, u64)>) -> Value {
    let mut body = ours.clone();
    if let Some(map) = body.as_object_mut() {
        map.insert("apiVersion".to_owned(), json!(api_version));
    }
    if let Some(meta) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in [
            "deletionGracePeriodSeconds",
            "deletionTimestamp",
            "resourceVersion",
            "uid",
        ] {
            meta.remove(field);
        }
        if let Some((uid, version)) = copy {
            meta.insert("uid".to_owned(), json!(uid));
            meta.insert("resourceVersion".to_owned(), json!(version.to_string()));
        }
    }
    body
}

/// Returns the preconditions of a deletion of one state of an object.
pub(super) fn preconditions(uid: &str, version: u64) -> Value {
    json!({"uid": uid, "resourceVersion": version.to_string()})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours() -> Value {
        json!({"apiVersion": "g/v1", "kind": "R", "results": [1], "metadata": {
            "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "900",
            "labels": {"x": "y"}, "generation": 3, "managedFields": [{"manager": "m"}]}})
    }

    #[test]
    fn content_ignores_what_the_apiserver_assigns_and_nothing_else() {
        let mut theirs = ours();
        theirs["apiVersion"] = json!("g/legacy");
        theirs["metadata"]["uid"] = json!("other");
        theirs["metadata"]["generation"] = json!(1);
        theirs["metadata"]["managedFields"] = json!([]);
        assert_eq!(content(&ours()), content(&theirs));
        theirs["metadata"]["labels"] = json!({});
        assert_ne!(content(&ours()), content(&theirs));
    }

    #[test]
    fn a_copy_is_up_to_date_while_it_has_what_ours_says() {
        let mut copy = Copy {
            uid: "theirs".into(),
            version: 7,
            content: content(&ours()),
            deleting: false,
            matched: true,
        };
        let mut same = ours();
        same["metadata"]["resourceVersion"] = json!("901");
        assert!(is_up_to_date(&copy, &same));
        let mut other = ours();
        other["results"] = json!([2]);
        assert!(!is_up_to_date(&copy, &other));
        let mut deleted = ours();
        deleted["metadata"]["deletionTimestamp"] = json!("2026-11-21T12:00:00Z");
        assert!(
            !is_up_to_date(&copy, &deleted),
            "the copy has to go as well"
        );
        copy.deleting = true;
        assert!(is_up_to_date(&copy, &deleted));
        assert!(!is_up_to_date(&copy, &ours()), "ours was made anew");
    }

    #[test]
    fn an_update_names_the_copy_it_was_made_for_and_a_create_names_none() {
        let update = prepared(&ours(), "g/legacy", Some(("theirs", 7)));
        assert_eq!(update["apiVersion"], "g/legacy");
        assert_eq!(update["metadata"]["uid"], "theirs");
        assert_eq!(update["metadata"]["resourceVersion"], "7");
        let create = prepared(&ours(), "g/legacy", None);
        assert_eq!(create["metadata"].get("uid"), None);
        assert_eq!(create["metadata"].get("resourceVersion"), None);
        assert_eq!(create["results"], json!([1]));
    }
}
