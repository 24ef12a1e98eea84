//! The volume of the database.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    EmptyDirVolumeSource, PersistentVolumeClaim, PersistentVolumeClaimSpec,
    PersistentVolumeClaimVolumeSource, Volume, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Validated, data_metadata};
use crate::controller::validate::Backend;
use crate::database::embedded::Embedded;
use crate::database::managed::RECOVERY_ANNOTATION;
use crate::database::place::{self, Database, Storage};

/// Returns the claim.
pub(super) fn claim(spec: &Validated) -> Option<PersistentVolumeClaim> {
    let (size, class) = match (&spec.database, spec.home()) {
        (Database::Embedded(Storage::Claim { size, class }), _) => (size, class),
        (Database::Postgres(_), Some(home)) => match home.storage.as_ref()? {
            Storage::Claim { size, class } => (size, class),
            Storage::EmptyDir { .. } => return None,
        },
        _ => return None,
    };
    let note = spec.embedded.as_ref().and_then(Embedded::recovery_note);
    Some(PersistentVolumeClaim {
        metadata: ObjectMeta {
            annotations: note.map(|note| [(RECOVERY_ANNOTATION.to_owned(), note)].into()),
            ..data_metadata(spec, spec.names.data())
        },
        spec: Some(PersistentVolumeClaimSpec {
            // One pod at a time may write the database file.
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            storage_class_name: class.clone(),
            resources: Some(VolumeResourceRequirements {
                requests: Some(BTreeMap::from([("storage".to_owned(), size.clone())])),
                ..VolumeResourceRequirements::default()
            }),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    })
}

/// Returns the volume with the database, or with what leads to it.
pub(super) fn volume(spec: &Validated, name: &str) -> Volume {
    match spec.backend() {
        Backend::Pod(storage) => embedded(spec, storage, name),
        Backend::Postgres(postgres) => {
            let mut volume = postgres.connection.volume(name, &spec.names.database());
            let projected = volume.projected.as_mut();
            if let Some(sources) = projected.and_then(|projected| projected.sources.as_mut()) {
                sources.push(place::history(&spec.names.config()));
            }
            volume
        }
    }
}

/// Returns the volume with the claim of an embedded database.
pub(super) fn claimed(spec: &Validated, name: &str) -> Volume {
    Volume {
        name: name.to_owned(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: spec.names.data(),
            ..PersistentVolumeClaimVolumeSource::default()
        }),
        ..Volume::default()
    }
}

fn embedded(spec: &Validated, storage: &Storage, name: &str) -> Volume {
    let volume = Volume {
        name: name.to_owned(),
        ..Volume::default()
    };
    match storage {
        Storage::Claim { .. } => claimed(spec, name),
        Storage::EmptyDir { size } => Volume {
            empty_dir: Some(EmptyDirVolumeSource {
                size_limit: Some(size.clone()),
                ..EmptyDirVolumeSource::default()
            }),
            ..volume
        },
    }
}
