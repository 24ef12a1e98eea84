//! The facts that decide an import, beside the rows: the server's keys, and the namespaces.

use std::collections::HashSet;
use std::time::Duration;

use crds::control::{DigestItem, DigestSet};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::ListParams;
use tokio::time::Instant;

use super::{ImportError, is_ours};
use crate::migration::cluster::pages::Key;
use crate::migration::cluster::wire::WireError;
use crate::migration::context::Cx;

/// The greatest age of the list of namespaces.
const FRESH: Duration = Duration::from_secs(10);

/// The keys that the server knows of a resource when an import of it begins. Keys that clients
/// create later are known to the server itself, and kept out by it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Keys that are stored, or were copied from etcd once and deleted since.
    pub stored: HashSet<Key>,
    /// Keys that an earlier attempt has imported, whatever became of them since.
    pub imported: HashSet<Key>,
}

impl Known {
    /// Reads the keys from the server.
    ///
    /// # Errors
    /// See [`WireError`].
    pub async fn read(cx: &Cx, name: &str) -> Result<Self, WireError> {
        let marks = cx.control.digest(name, DigestSet::Imported).await?;
        let objects = cx.control.digest(name, DigestSet::Objects).await?;
        Ok(Self::of(marks, objects))
    }

    /// Returns the keys of the marks and the objects.
    #[must_use]
    pub fn of(marks: Vec<DigestItem>, objects: Vec<DigestItem>) -> Self {
        let (ours, etcds): (Vec<_>, Vec<_>) = marks.into_iter().partition(is_ours);
        Self {
            stored: objects.into_iter().chain(etcds).map(key).collect(),
            imported: ours.into_iter().map(key).collect(),
        }
    }
}

fn key(item: DigestItem) -> Key {
    let DigestItem {
        namespace, name, ..
    } = item;
    Key { namespace, name }
}

/// The namespaces that objects can be created in, as they were some seconds ago.
#[derive(Clone, Debug, Default)]
pub struct Namespaces {
    active: HashSet<String>,
    read: Option<Instant>,
}

impl Namespaces {
    /// Lists the namespaces again where the last list is too old.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub async fn refresh(&mut self, client: &kube::Client) -> Result<(), ImportError> {
        if self.read.is_some_and(|read| read.elapsed() < FRESH) {
            return Ok(());
        }
        let api = Api::<Namespace>::all(client.clone());
        let listed = api.list_metadata(&ListParams::default()).await;
        let listed = listed.map_err(|source| ImportError::Namespaces(Box::new(source)))?;
        let active = listed.items.into_iter();
        let active = active.filter(|found| found.metadata.deletion_timestamp.is_none());
        self.active = active.filter_map(|found| found.metadata.name).collect();
        self.read = Some(Instant::now());
        Ok(())
    }

    /// Returns whether a namespace exists and stays.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.active.contains(name)
    }

    #[cfg(test)]
    pub fn of(names: &[&str]) -> Self {
        Self {
            active: names.iter().map(|name| (*name).to_owned()).collect(),
            read: None,
        }
    }
}
