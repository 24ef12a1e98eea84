//! The namespace and the owner of a database's objects.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::names::Names;

/// The names, the namespace and the owner of the objects.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// Names of the objects.
    pub names: &'a Names,
    /// The target namespace.
    pub namespace: &'a str,
    /// The owner, with which the objects are deleted.
    pub owner: Option<&'a OwnerReference>,
    /// True when the volume stays nevertheless.
    pub retain_data: bool,
}

impl Scope<'_> {
    pub(in crate::database) fn metadata(&self, name: String) -> ObjectMeta {
        ObjectMeta {
            owner_references: self.owner.map(|owner| vec![owner.clone()]),
            ..self.unowned(name, self.names.postgres_labels())
        }
    }

    /// Returns the metadata of an object that stays when the `ReportsServer` goes, unless the user
    /// has confirmed otherwise.
    pub(super) fn retained(&self, name: String) -> ObjectMeta {
        if self.retain_data {
            return self.unowned(name, self.names.postgres_labels());
        }
        self.metadata(name)
    }

    /// Returns the metadata of an object that always stays.
    pub(super) fn unowned(&self, name: String, labels: BTreeMap<String, String>) -> ObjectMeta {
        ObjectMeta {
            name: Some(name),
            namespace: Some(self.namespace.to_owned()),
            labels: Some(labels),
            ..ObjectMeta::default()
        }
    }
}
