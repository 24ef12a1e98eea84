//! Preparation of a new object.

use serde_json::Value;

use super::{Object, meta, names, rfc3339};
use crate::registry::RegistryError;

/// Most names that are tried for one `generateName`. With eight, a million names with one prefix
/// collide in fewer than one of a thousand requests (KEP-4420).
pub const MAX_NAME_ATTEMPTS: usize = 8;

/// Makes the namespace of the object that of the request: fills an empty one, and clears the one
/// of a cluster-scoped object (`wanted` is empty).
///
/// # Errors
/// 400 when both name one and they differ.
pub fn ensure_namespace(object: &mut Object, wanted: &str) -> Result<(), RegistryError> {
    let given = meta::text(object, "namespace");
    if !given.is_empty() && !wanted.is_empty() && given != wanted {
        return Err(RegistryError::BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
                .to_owned(),
        ));
    }
    if given != wanted {
        meta::set_text(object, "namespace", wanted);
    }
    Ok(())
}

/// Takes the marks of a deletion and the selfLink out of a new object. One that is applied keeps
/// them, as on the kube-apiserver.
pub fn wipe(object: &mut Object) {
    meta::edit(object, |metadata| {
        metadata.remove("deletionTimestamp");
        metadata.remove("deletionGracePeriodSeconds");
        metadata.remove("selfLink");
    });
}

/// Sets the system metadata of a new object: uid, creationTimestamp, generation 1. Values of the
/// client are overwritten.
///
/// The name is left alone; see [`needs_name`].
pub fn assign(object: &mut Object, now: jiff::Timestamp) {
    meta::edit(object, |metadata| {
        metadata.insert(
            "uid".to_owned(),
            Value::String(uuid::Uuid::new_v4().to_string()),
        );
        metadata.insert("creationTimestamp".to_owned(), Value::String(rfc3339(now)));
        metadata.insert("generation".to_owned(), Value::from(1));
    });
}

/// Returns whether a name has to be generated from `metadata.generateName`.
#[must_use]
pub fn needs_name(object: &Object) -> bool {
    meta::text(object, "name").is_empty() && !meta::text(object, "generateName").is_empty()
}

/// Sets a new generated name.
pub fn generate_name(object: &mut Object) {
    let name = names::generate(meta::text(object, "generateName"));
    meta::set_text(object, "name", &name);
}

/// Removes an empty or unreadable resourceVersion from a new object, which must not carry one.
///
/// # Errors
/// 500, as the kube-apiserver answers, when there is a version in it.
pub fn take_resource_version(object: &mut Object) -> Result<(), RegistryError> {
    let given = meta::resource_version(object);
    meta::edit(object, |metadata| metadata.remove("resourceVersion"));
    match given {
        Some(version) if version != 0 => Err(RegistryError::Internal(
            "resourceVersion should not be set on objects to be created".to_owned(),
        )),
        _ => Ok(()),
    }
}

/// The time at which owner references are looked through, which the warning about them names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dedup {
    /// The moment when the object is read: of a create and an update.
    Received,
    /// The moment after a patch was applied. The kube-apiserver does so after mutating admission.
    Patched,
}

/// Returns whether an owner reference is there twice.
#[must_use]
pub fn has_duplicate_owners(object: &Object) -> bool {
    let owners = meta::metadata(object).and_then(|m| m.get("ownerReferences"));
    let owners = owners.and_then(Value::as_array).map(Vec::as_slice);
    let owners = owners.unwrap_or_default();
    (1..owners.len()).any(|index| owners[..index].contains(&owners[index]))
}

/// Removes owner references that are there twice, and returns the warning about it.
pub fn dedup_owner_references(object: &mut Object, dedup: Dedup) -> Option<String> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    let owners = metadata.get_mut("ownerReferences")?.as_array_mut()?;
    let mut kept: Vec<Value> = Vec::with_capacity(owners.len());
    let mut duplicates = Vec::new();
    for owner in owners.drain(..) {
        if kept.contains(&owner) {
            duplicates.push(owner["uid"].as_str().unwrap_or_default().to_owned());
        } else {
            kept.push(owner);
        }
    }
    *owners = kept;
    if duplicates.is_empty() {
        return None;
    }
    let when = match dedup {
        Dedup::Received => "",
        Dedup::Patched => " after mutating admission happens",
    };
    Some(format!(
        ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references \
         in 1.20+, and may reject such requests as early as 1.24; please fix your requests; \
         duplicate UID(s) observed: {}",
        duplicates.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn system_metadata_is_ours() {
        let mut new = object(
            json!({"metadata": {"name": "a", "uid": "theirs", "generation": 9,
            "creationTimestamp": "2000-01-01T00:00:00Z", "selfLink": "/x",
            "deletionTimestamp": "2000-01-01T00:00:00Z", "deletionGracePeriodSeconds": 3}}),
        );
        wipe(&mut new);
        assign(&mut new, "2026-11-21T08:00:00.5Z".parse().unwrap());
        let uid = meta::text(&new, "uid").to_owned();
        assert_eq!(uid.parse::<uuid::Uuid>().unwrap().get_version_num(), 4);
        assert_eq!(
            Value::Object(new),
            json!({"metadata": {"name": "a", "uid": uid,
            "generation": 1, "creationTimestamp": "2026-11-21T08:00:00Z"}})
        );
    }

    #[test]
    fn namespace_is_filled_cleared_or_refused() {
        let mut empty = object(json!({}));
        ensure_namespace(&mut empty, "d").unwrap();
        assert_eq!(meta::text(&empty, "namespace"), "d");
        assert!(matches!(
            ensure_namespace(&mut empty, "e"),
            Err(RegistryError::BadRequest(_))
        ));
        ensure_namespace(&mut empty, "").unwrap();
        assert_eq!(Value::Object(empty), json!({"metadata": {}}));
    }

    #[test]
    fn resource_version_is_refused_or_dropped() {
        for (version, refused) in [
            ("7", true),
            ("0", false),
            ("", false),
            ("x", false),
            ("+7", false),
        ] {
            let mut new = object(json!({"metadata": {"resourceVersion": version}}));
            assert_eq!(
                take_resource_version(&mut new).is_err(),
                refused,
                "{version}"
            );
            assert!(meta::metadata(&new).unwrap().is_empty());
        }
    }

    #[test]
    fn duplicate_owners_go_with_a_warning() {
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"});
        let other = json!({"apiVersion": "v1", "kind": "Pod", "name": "q", "uid": "u"});
        let mut new = object(json!({"metadata": {"ownerReferences": [owner, other, owner]}}));
        assert!(has_duplicate_owners(&new));
        let warning = dedup_owner_references(&mut new, Dedup::Received).unwrap();
        assert!(warning.ends_with("duplicate UID(s) observed: u"));
        assert_eq!(new["metadata"]["ownerReferences"], json!([owner, other]));
        assert!(!has_duplicate_owners(&new));
        assert!(!has_duplicate_owners(&object(json!({"metadata": {}}))));
        assert_eq!(dedup_owner_references(&mut new, Dedup::Received), None);
    }

    #[test]
    fn names_are_generated_only_when_there_is_none() {
        assert!(!needs_name(&object(
            json!({"metadata": {"name": "a", "generateName": "b-"}})
        )));
        assert!(!needs_name(&object(json!({"metadata": {}}))));
        let mut new = object(json!({"metadata": {"generateName": "b-"}}));
        assert!(needs_name(&new));
        generate_name(&mut new);
        assert!(meta::text(&new, "name").starts_with("b-"));
    }
}
