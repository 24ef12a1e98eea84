//! The volume of a database.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements,
};

use super::constants::{RECOVERY_ANNOTATION, VERSION_ANNOTATION};
use super::scope::Scope;
use super::upgrade::IMAGE_ANNOTATION;
use super::wanted::Managed;

/// Returns the claim of the volume. It is one claim with a name of ours, not one by template: a
/// template's size cannot be changed, and a volume has to be able to grow.
pub(super) fn claim(managed: &Managed, name: String, scope: Scope<'_>) -> PersistentVolumeClaim {
    let mut metadata = scope.retained(name);
    let version = (VERSION_ANNOTATION.to_owned(), managed.version().to_string());
    let image = (IMAGE_ANNOTATION.to_owned(), managed.image());
    let recovery = managed.recovery_note();
    let recovery = recovery.map(|note| (RECOVERY_ANNOTATION.to_owned(), note));
    metadata.annotations = Some([version, image].into_iter().chain(recovery).collect());
    PersistentVolumeClaim {
        metadata,
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            storage_class_name: managed.class.clone(),
            resources: Some(VolumeResourceRequirements {
                requests: Some(BTreeMap::from([(
                    "storage".to_owned(),
                    managed.size.clone(),
                )])),
                ..VolumeResourceRequirements::default()
            }),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    }
}
