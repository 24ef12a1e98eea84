//! The effect of a deletion on an object: it is removed at once, or marked while finalizers hold
//! it.

use apimachinery::mutation::{Mutation, broken};
use serde_json::Value;

use super::validate::{FOREGROUND, ORPHAN};
use super::{Object, meta, rfc3339};
use crate::registry::RegistryError;

/// The treatment of the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// The garbage collector deletes them afterwards.
    Background,
    /// The garbage collector deletes them first; a finalizer holds the object until then.
    Foreground,
    /// They lose their owner reference; a finalizer holds the object until then.
    Orphan,
}

/// The conditions on the stored object for a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preconditions {
    /// The uid it must have.
    pub uid: Option<String>,
    /// The resourceVersion it must have.
    pub resource_version: Option<String>,
}

/// The effect of a deletion.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// The object is taken out of the store.
    Remove,
    /// This object, which is being deleted, is stored in its place. It may equal the stored one.
    Mark(Object),
}

impl Preconditions {
    /// Compares the conditions with the stored object.
    ///
    /// # Errors
    /// 409 naming both values.
    pub fn check(&self, stored: &Object) -> Result<(), RegistryError> {
        let conflict = |detail| {
            Err(RegistryError::Conflict {
                names_kind: true,
                detail,
            })
        };
        let uid = meta::text(stored, "uid");
        if let Some(wanted) = self.uid.as_deref().filter(|wanted| *wanted != uid) {
            return conflict(format!(
                "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). \
                 The object might have been deleted and then recreated"
            ));
        }
        let version = meta::text(stored, "resourceVersion");
        if let Some(wanted) = self
            .resource_version
            .as_deref()
            .filter(|wanted| *wanted != version)
        {
            return conflict(format!(
                "the ResourceVersion in the precondition ({wanted}) does not match the \
                 ResourceVersion in record ({version}). The object might have been modified"
            ));
        }
        Ok(())
    }
}

/// Returns the effect of the deletion of `stored`. `propagation` is `None` when the client left it
/// open: a finalizer of an earlier deletion then stays, else it means background.
#[must_use]
pub fn plan(stored: &Object, propagation: Option<Propagation>, now: jiff::Timestamp) -> Plan {
    let finalizers = finalizers_after(stored, propagation);
    if finalizers.is_empty() || broken(Mutation::FinalizerIgnored) {
        return Plan::Remove;
    }
    let mut object = stored.clone();
    let deleting = meta::has_deletion_timestamp(stored);
    let generation = meta::generation(stored);
    meta::edit(&mut object, |metadata| {
        metadata.insert("finalizers".to_owned(), Value::from(finalizers));
        metadata.insert("deletionGracePeriodSeconds".to_owned(), Value::from(0));
        if !deleting {
            metadata.insert("deletionTimestamp".to_owned(), Value::String(rfc3339(now)));
            if generation > 0 {
                metadata.insert("generation".to_owned(), Value::from(generation + 1));
            }
        }
    });
    Plan::Mark(object)
}

/// Returns the finalizers with those of the garbage collector as the deletion wants them. Their
/// order stays when nothing changes, so that deleting twice writes nothing.
fn finalizers_after(stored: &Object, propagation: Option<Propagation>) -> Vec<String> {
    let present: Vec<&str> = meta::finalizers(stored).collect();
    let held_by = |name: &str| present.contains(&name);
    let wanted = match propagation {
        Some(Propagation::Foreground) => Some(FOREGROUND),
        Some(Propagation::Orphan) => Some(ORPHAN),
        None if held_by(ORPHAN) => Some(ORPHAN),
        None if held_by(FOREGROUND) => Some(FOREGROUND),
        Some(Propagation::Background) | None => None,
    };
    let mut after: Vec<&str> = present
        .iter()
        .copied()
        .filter(|f| *f != FOREGROUND && *f != ORPHAN)
        .collect();
    after.extend(wanted);
    let same = after.len() == present.len() && after.iter().all(|f| present.contains(f));
    let list = if same { &present } else { &after };
    list.iter().map(|f| (*f).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(metadata: Value) -> Object {
        Object::from_iter([("metadata".to_owned(), metadata)])
    }

    fn now() -> jiff::Timestamp {
        "2026-11-21T08:00:00Z".parse().unwrap()
    }

    fn marked(plan: Plan) -> Value {
        match plan {
            Plan::Mark(object) => object["metadata"].clone(),
            Plan::Remove => Value::Null,
        }
    }

    #[test]
    fn without_finalizers_it_is_removed() {
        for propagation in [None, Some(Propagation::Background)] {
            assert_eq!(
                plan(&object(json!({"generation": 1})), propagation, now()),
                Plan::Remove
            );
        }
        // Background takes the garbage collector's own finalizers away again.
        let held = object(json!({"finalizers": [FOREGROUND]}));
        assert_eq!(
            plan(&held, Some(Propagation::Background), now()),
            Plan::Remove
        );
    }

    #[test]
    fn finalizers_hold_it() {
        let stored = object(json!({"generation": 1, "finalizers": ["a/b"]}));
        let first = plan(&stored, None, now());
        assert_eq!(
            marked(first.clone()),
            json!({"generation": 2, "finalizers": ["a/b"],
            "deletionTimestamp": "2026-11-21T08:00:00Z", "deletionGracePeriodSeconds": 0})
        );
        let Plan::Mark(deleting) = first else {
            panic!("not marked")
        };
        let later = "2026-11-21T09:00:00Z".parse().unwrap();
        assert_eq!(plan(&deleting, None, later), Plan::Mark(deleting.clone()));
    }

    #[test]
    fn propagation_sets_its_finalizer() {
        let stored = object(json!({"generation": 1, "finalizers": ["a/b", ORPHAN]}));
        let finalizers =
            |propagation| marked(plan(&stored, propagation, now()))["finalizers"].clone();
        assert_eq!(
            finalizers(Some(Propagation::Foreground)),
            json!(["a/b", FOREGROUND])
        );
        assert_eq!(
            finalizers(Some(Propagation::Orphan)),
            json!(["a/b", ORPHAN])
        );
        assert_eq!(finalizers(Some(Propagation::Background)), json!(["a/b"]));
        assert_eq!(finalizers(None), json!(["a/b", ORPHAN]));
    }

    #[test]
    fn preconditions_name_both_values() {
        let stored = object(json!({"uid": "u", "resourceVersion": "7"}));
        let check = |uid: Option<&str>, version: Option<&str>| {
            Preconditions {
                uid: uid.map(str::to_owned),
                resource_version: version.map(str::to_owned),
            }
            .check(&stored)
            .map_err(|e| e.to_string())
        };
        check(None, None).unwrap();
        check(Some("u"), Some("7")).unwrap();
        assert!(
            check(Some("v"), None).unwrap_err().starts_with(
                "the UID in the precondition (v) does not match the UID in record (u)"
            )
        );
        assert!(
            check(None, Some("6"))
                .unwrap_err()
                .starts_with("the ResourceVersion in the precondition (6) does not match")
        );
    }
}
