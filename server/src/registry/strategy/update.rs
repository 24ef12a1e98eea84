//! Preparation of an update: the fields that a client cannot change, and the consequences of a
//! change.

use apimachinery::mutation::{Mutation, broken};
use apimachinery::schema::FieldError;
use serde_json::Value;

use super::{Object, create, meta};
use crate::registry::RegistryError;

/// Checks the uid of the object that the sender of an update wants to change; empty is any. `key`
/// is the name of the object in storage.
///
/// # Errors
/// 409 when the stored object is another one.
pub fn check_uid(given: &str, old: &Object, key: &str) -> Result<(), RegistryError> {
    let stored = meta::text(old, "uid");
    if given.is_empty() || given == stored {
        return Ok(());
    }
    Err(RegistryError::Conflict {
        names_kind: false,
        detail: format!(
            "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, \
             AdditionalErrorMsg: Precondition failed: UID in precondition: {given}, UID in object \
             meta: {stored}"
        ),
    })
}

/// Returns the resourceVersion in an object; 0 for none.
///
/// # Errors
/// 500, as the kube-apiserver, when it is not a number.
pub fn version(object: &Object) -> Result<u64, RegistryError> {
    let text = meta::text(object, "resourceVersion");
    if text.is_empty() {
        return Ok(0);
    }
    meta::resource_version(object).ok_or_else(|| {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let reason = if is_number {
            "value out of range"
        } else {
            "invalid syntax"
        };
        let text = fieldmanager::go::quote(text);
        RegistryError::Internal(format!("strconv.ParseUint: parsing {text}: {reason}"))
    })
}

/// Checks the resourceVersion that the sender of an update has seen last.
///
/// # Errors
/// 409 when the stored object has changed since; 422 when the update names no version; 500, as the
/// kube-apiserver, when it is not a number.
pub fn check_version(new: &Object, old: &Object) -> Result<(), RegistryError> {
    let given = version(new)?;
    if given == 0 {
        return Err(RegistryError::UpdateWithoutVersion(FieldError::invalid(
            "metadata.resourceVersion",
            0,
            "must be specified for an update",
        )));
    }
    let current = given.to_string() == meta::text(old, "resourceVersion");
    if !current && !broken(Mutation::ConflictUnnoticed) {
        return Err(RegistryError::modified());
    }
    Ok(())
}

/// Fields that an update keeps: always, or only where it does not name them (a different value is
/// then refused by validation).
const KEPT: &[(&str, bool)] = &[
    ("uid", true),
    ("creationTimestamp", false),
    ("deletionTimestamp", false),
    ("deletionGracePeriodSeconds", true),
];

/// Carries over the fields that an update cannot change and counts the generation. Both objects are
/// in the same served version. Returns a warning for the client.
pub fn prepare(new: &mut Object, old: &Object) -> Option<String> {
    let warning = create::dedup_owner_references(new, create::Dedup::Patched);
    let changed = differs_beside_metadata(new, old) && !broken(Mutation::GenerationStays);
    let generation = meta::generation(old) + i64::from(changed);
    let stored = meta::metadata(old);
    meta::edit(new, |metadata| {
        if generation == 0 {
            metadata.remove("generation");
        } else {
            metadata.insert("generation".to_owned(), Value::from(generation));
        }
        for (field, only_if_missing) in KEPT {
            if let Some(value) = stored.and_then(|m| m.get(*field))
                && !(*only_if_missing && metadata.contains_key(*field))
            {
                metadata.insert((*field).to_owned(), value.clone());
            }
        }
    });
    warning
}

fn differs_beside_metadata(a: &Object, b: &Object) -> bool {
    fn rest(object: &Object) -> impl Iterator<Item = (&String, &Value)> {
        object.iter().filter(|(key, _)| *key != "metadata")
    }
    !rest(a).eq(rest(b))
}

/// Returns whether this update takes the last finalizer from an object that is being deleted: it is
/// then removed in place of being updated.
#[must_use]
pub fn completes_deletion(new: &Object, old: &Object) -> bool {
    let grace = meta::metadata(old)
        .and_then(|m| m.get("deletionGracePeriodSeconds"))
        .and_then(Value::as_i64)
        .unwrap_or_default();
    meta::finalizers(new).next().is_none() && meta::has_deletion_timestamp(old) && grace == 0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
        serde_json::from_value(value).unwrap()
    }

    fn stored() -> Object {
        object(
            json!({"kind": "K", "spec": {"a": 1}, "metadata": {"name": "n", "uid": "u",
            "resourceVersion": "7", "generation": 3, "creationTimestamp": "t"}}),
        )
    }

    #[test]
    fn versions() {
        let with = |metadata| object(json!({"metadata": metadata}));
        let check = |metadata| {
            let new = with(metadata);
            let given = meta::text(&new, "uid");
            check_uid(given, &stored(), "/k").and_then(|()| check_version(&new, &stored()))
        };
        check(json!({"resourceVersion": "7"})).unwrap();
        check(json!({"resourceVersion": "7", "uid": "u"})).unwrap();
        assert_eq!(
            check(json!({"resourceVersion": "6"})),
            Err(RegistryError::modified())
        );
        assert!(matches!(
            check(json!({"resourceVersion": "6", "uid": "v"})),
            Err(RegistryError::Conflict { detail, .. })
                if detail.ends_with("UID in precondition: v, UID in object meta: u")
        ));
        for none in [json!({}), json!({"resourceVersion": "0"})] {
            assert!(matches!(
                check(none),
                Err(RegistryError::UpdateWithoutVersion(_))
            ));
        }
        for (text, reason) in [
            ("x", "\"x\": invalid syntax"),
            ("+7", "\"+7\": invalid syntax"),
            ("18446744073709551616", "value out of range"),
        ] {
            assert!(matches!(
                check(json!({"resourceVersion": text})),
                Err(RegistryError::Internal(text)) if text.ends_with(reason)
            ));
        }
    }

    #[test]
    fn generation_counts_changes_beside_metadata() {
        let mut new = object(json!({"kind": "K", "spec": {"a": 1},
            "metadata": {"name": "n", "generation": 99, "labels": {"l": ""}}}));
        prepare(&mut new, &stored());
        assert_eq!(meta::generation(&new), 3);
        assert_eq!(meta::text(&new, "uid"), "u");
        new.insert("spec".to_owned(), json!({"a": 2}));
        prepare(&mut new, &stored());
        assert_eq!(meta::generation(&new), 4);
        new.remove("spec");
        prepare(&mut new, &stored());
        assert_eq!(meta::generation(&new), 4);
    }

    #[test]
    fn what_a_client_cannot_change() {
        let mut old = stored();
        old["metadata"]["deletionTimestamp"] = json!("d");
        old["metadata"]["deletionGracePeriodSeconds"] = json!(0);
        let mut new = object(json!({"metadata": {"creationTimestamp": "x",
            "deletionTimestamp": "y", "resourceVersion": "7"}}));
        prepare(&mut new, &old);
        assert_eq!(
            new["metadata"],
            json!({"creationTimestamp": "t", "deletionTimestamp": "d",
            "deletionGracePeriodSeconds": 0, "uid": "u", "generation": 4,
            "resourceVersion": "7"})
        );
    }

    #[test]
    fn last_finalizer_completes_the_deletion() {
        let deleting = object(json!({"metadata": {"deletionTimestamp": "d",
            "deletionGracePeriodSeconds": 0, "finalizers": ["a/b"]}}));
        let none = object(json!({"metadata": {}}));
        assert!(completes_deletion(&none, &deleting));
        assert!(!completes_deletion(&deleting, &deleting));
        assert!(!completes_deletion(&none, &none));
    }
}
