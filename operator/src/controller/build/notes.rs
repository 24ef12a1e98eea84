//! Notes on the volumes of a managed database, which say which one is in use.

use serde_json::{Value, json};

use super::Validated;
use crate::database::managed::upgrade::{RETIRED_ANNOTATION, Stage, UPGRADE_ANNOTATION};

/// A note on a volume.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// Name of the claim.
    pub claim: String,
    /// The part of its metadata that is the note.
    pub metadata: Value,
}

/// Returns the note that takes a new volume into use where it is filled: from this note on, it is the
/// one that counts.
#[must_use]
pub fn commit(spec: &Validated) -> Option<Note> {
    let managed = spec.managed()?;
    let upgrade = managed.upgrade.as_ref();
    let upgrade = upgrade.filter(|upgrade| upgrade.stage == Stage::Copied)?;
    Some(Note {
        claim: spec.names.postgres_data_of(upgrade.target.version()),
        metadata: json!({"annotations": {UPGRADE_ANNOTATION: managed.version().to_string()}}),
    })
}

/// Returns notes on the volumes of earlier versions that they are not in use, so that none is ever
/// taken for the one that is. They go with the `ReportsServer` where the one in use does.
#[must_use]
pub fn retired(spec: &Validated) -> Vec<Note> {
    let Some(managed) = spec.managed() else {
        return Vec::new();
    };
    let owners = spec.owner.iter().filter(|_| !spec.retain_data);
    let owners: Vec<_> = owners.collect();
    let earlier = managed.present.volumes.earlier.iter();
    let open =
        earlier.filter(|volume| volume.retired.is_none() || volume.owned == owners.is_empty());
    let notes = open.map(|volume| {
        let why = volume.retired.clone().unwrap_or_else(|| {
            let now = spec.now.strftime("%Y-%m-%dT%H:%M:%SZ");
            format!("upgraded to {} at {now}", managed.claim())
        });
        Note {
            claim: volume.name.clone(),
            metadata: json!({
                "annotations": {RETIRED_ANNOTATION: why},
                "ownerReferences": owners,
            }),
        }
    });
    notes.collect()
}
