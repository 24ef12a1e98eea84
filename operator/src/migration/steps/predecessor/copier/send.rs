//! The sending of changes to our server, each with a version that says which of them is newer.

use std::collections::HashSet;

use crds::control::{ImportBatch, ImportItem, ImportMode, ImportType};
use serde_json::{Value, json};

use super::super::table::{Change, identify};
use super::error::CopyError;
use super::{Copy, PATIENCE, empty_batch};
use crate::migration::cluster::control::retry;
use crate::migration::cluster::pages::{Identity, Key};
use crate::migration::steps::mirror;
use crate::migration::steps::mirror::batch::{Batcher, Entry};

impl Copy<'_> {
    /// Sends the waiting changes to the server.
    pub(super) async fn flush(&mut self) -> Result<(), CopyError> {
        let mut batcher = Batcher::new(self.source.common.page_size);
        let (mut sent, mut given) = (Vec::new(), HashSet::new());
        self.version += u64::from(!self.waiting.is_empty());
        for change in std::mem::take(&mut self.waiting) {
            let (entry, one) = self.entry(change, &mut given);
            let size = entry.size();
            if !batcher.fits(size) {
                self.send(&mut batcher, &mut sent).await?;
            }
            batcher.push(entry, size);
            sent.push(one);
        }
        self.send(&mut batcher, &mut sent).await
    }

    /// Returns a change with its version: states of different objects may share one, a deletion has
    /// its own.
    fn entry(&mut self, change: Change, given: &mut HashSet<Key>) -> (Entry, Identity) {
        let (key, uid) = match &change {
            Change::State(object) => identify(object).unwrap_or_default(),
            Change::Gone { key, uid } => (key.clone(), uid.clone()),
        };
        let deletion = matches!(change, Change::Gone { .. });
        if !given.insert(key.clone()) || deletion {
            self.version += 1;
            *given = HashSet::from([key.clone()]);
        }
        let version = self.version;
        let entry = match change {
            Change::State(mut object) => {
                object["metadata"]["resourceVersion"] = json!(version.to_string());
                if self.mode == ImportMode::Straggler {
                    Entry::event(ImportType::Modified, &object)
                } else {
                    Entry::object(&object)
                }
            }
            Change::Gone { .. } => {
                let object = self.last_state(&key, &uid, version);
                Entry::event(ImportType::Deleted, &object)
            }
        };
        (entry, Identity { key, uid, version })
    }

    /// Returns a deleted object, as far as the server needs it.
    fn last_state(&self, key: &Key, uid: &str, version: u64) -> Value {
        let mirror::Source {
            group,
            version: served,
            ..
        } = &self.source.common;
        let mut metadata =
            json!({"name": key.name, "uid": uid, "resourceVersion": version.to_string()});
        if !key.namespace.is_empty() {
            metadata["namespace"] = json!(key.namespace);
        }
        json!({"apiVersion": format!("{group}/{served}"), "kind": self.source.kind,
            "metadata": metadata})
    }

    async fn send(
        &mut self,
        batcher: &mut Batcher,
        sent: &mut Vec<Identity>,
    ) -> Result<(), CopyError> {
        let Some((mut batch, _)) = batcher.take() else {
            return Ok(());
        };
        batch.mode = self.mode;
        let mirror::Source {
            control,
            stored,
            group,
            plural,
            pacer,
            metrics,
            ..
        } = &self.source.common;
        if !self.progress.borrow().listed {
            pacer.turn().await;
        }
        let count = batch.items.len() as u64;
        retry(PATIENCE, || control.import(stored, &batch)).await?;
        // What was copied stands for no copy in etcd: nobody is to miss it there.
        let unmark = unmark(sent);
        retry(PATIENCE, || control.import(stored, &unmark)).await?;
        metrics.copied(group, plural, count);
        for one in sent.drain(..) {
            self.table.imported(&one.key, one.version);
        }
        let version = self.version;
        self.progress.send_modify(|p| {
            p.copied += count;
            p.position = version;
        });
        Ok(())
    }
}

/// Returns the batch that takes the marks of what was sent away.
fn unmark(sent: &[Identity]) -> ImportBatch {
    let bare = |one: &Identity| {
        let Key { namespace, name } = &one.key;
        let metadata = json!({"namespace": namespace, "name": name, "uid": one.uid});
        ImportItem {
            type_: ImportType::Object,
            object: json!({"metadata": metadata}),
        }
    };
    ImportBatch {
        mode: ImportMode::Pruned,
        items: sent.iter().map(bare).collect(),
        ..empty_batch()
    }
}
