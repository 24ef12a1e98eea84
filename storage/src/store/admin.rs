//! Orders of the control API: resources, gate, floor, imports, definitions.

use std::path::Path;
use std::sync::Arc;

use crds::control::{GateSpec, ImportBatch, ImportMode, ImportResult};
use futures::FutureExt;

use super::committer::unavailable;
use super::engine::{EngineError, ImportChunk, ImportOutcome};
use super::import_batch::read_batch;
use super::{Store, StoreError};
use crate::cache::Resource;
use crate::model::{GateStatus, GroupResource, ResourceDef};

/// Items of an import in one transaction: few enough that other writes do not wait for long.
const CHUNK_ITEMS: usize = 100;
/// Bytes of JSON of an import in one transaction, beyond its first item.
const CHUNK_BYTES: usize = 1 << 20;

impl Store {
    /// Stores `def` from now on; its gate is closed at first. Changes nothing if it is stored
    /// already.
    ///
    /// # Errors
    /// If it is stored with another kind or scope, or the store does not take the command.
    pub async fn ensure_resource(&self, def: ResourceDef) -> Result<Arc<Resource>, StoreError> {
        if self.resource(&def.resource).is_none() {
            let def = def.clone();
            self.command(move |committer| {
                async move {
                    let engine = Arc::clone(&committer.engine);
                    let defined = committer.transaction(engine.define(&def)).await;
                    defined.map(drop).map_err(unavailable)
                }
                .boxed()
            })
            .await?;
        }
        let resource = self.known(&def.resource)?;
        if *resource.def() == def {
            return Ok(resource);
        }
        let (stored, wanted) = (describe(resource.def()), describe(&def));
        Err(StoreError::Mismatch {
            resource: def.resource,
            stored,
            wanted,
        })
    }

    /// Sets the gate of a resource, in the order of all writes: a write that is answered before
    /// was made under the old gate, one that comes later meets the new one. `holder` is the user
    /// who sets it.
    ///
    /// The first opening raises the counter above everything that was imported, and fixes the
    /// horizon where no import set one. Closing a gate that was opened before gives up the place of
    /// the mirror: etcd and the store have parted, and a mirror has to begin with a reset.
    ///
    /// # Errors
    /// If the resource is unknown or the store does not take the command; [`StoreError::Refused`]
    /// for an old fencing token, and for opening a released gate.
    pub async fn set_gate(
        &self,
        resource: &GroupResource,
        gate: GateSpec,
        holder: Option<&str>,
    ) -> Result<GateStatus, StoreError> {
        let resource = self.known(resource)?;
        let (id, holder) = (resource.record().id, holder.map(str::to_owned));
        self.command(move |committer| {
            async move {
                let engine = Arc::clone(&committer.engine);
                let set = engine.set_gate(id, &gate, holder.as_deref());
                let set = committer.transaction(set).await;
                set.map_err(unavailable)?.0.map_err(StoreError::Refused)
            }
            .boxed()
        })
        .await?;
        Ok(resource.record().gate)
    }

    /// Takes a new fencing token of a resource: a client that moves its gate or imports with an
    /// older one is refused from then on.
    ///
    /// # Errors
    /// If the resource is unknown or the store does not take the command.
    pub async fn take_fence(&self, resource: &GroupResource) -> Result<u64, StoreError> {
        let id = self.known(resource)?.record().id;
        self.command(move |committer| {
            async move {
                let engine = Arc::clone(&committer.engine);
                let taken = committer.transaction(engine.take_fence(id)).await;
                taken.map(|(token, _)| token).map_err(unavailable)
            }
            .boxed()
        })
        .await
    }

    /// Raises the counter, so that the next write of any resource gets a version above `floor`.
    /// Returns the counter in force.
    ///
    /// # Errors
    /// If the store does not take the command.
    pub async fn raise_floor(&self, floor: u64) -> Result<u64, StoreError> {
        self.command(move |committer| {
            async move {
                let engine = Arc::clone(&committer.engine);
                let raised = committer.transaction(engine.raise_floor(floor)).await;
                raised.map(drop).map_err(unavailable)?;
                Ok(committer.position.counter)
            }
            .boxed()
        })
        .await
    }

    /// Takes over objects and events of etcd; the answer comes when all of them are durable.
    ///
    /// A batch is committed in parts. If one fails, the parts before it stay; the batch may be sent
    /// again, since known items change nothing.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] where an item is not usable; nothing is imported then.
    /// [`StoreError::Refused`] where the mode does not fit the gate.
    pub async fn import(
        &self,
        resource: &GroupResource,
        batch: ImportBatch,
    ) -> Result<ImportResult, StoreError> {
        let resource = self.known(resource)?;
        let (mode, fence) = (batch.mode, batch.fence);
        let namespaced = resource.def().namespaced;
        let projects = self.engine().projects();
        let dictionary = resource.dictionary();
        // Encoding a thousand objects takes tens of milliseconds.
        let read = tokio::task::spawn_blocking(move || {
            read_batch(batch, namespaced, projects, &dictionary)
        });
        let batch = read.await.map_err(unavailable)??;
        if mode == ImportMode::Reset {
            self.reset(&resource, fence).await?;
        }
        let mut total = ImportOutcome::default();
        for chunk in batch.into_chunks(resource.record().id, CHUNK_ITEMS, CHUNK_BYTES) {
            let part = self.import_chunk(chunk).await?;
            total.imported += part.imported;
            total.unchanged += part.unchanged;
            total.conflicts.extend(part.conflicts);
        }
        let mirrored = resource.record().mirrored;
        Ok(ImportResult {
            api_version: crds::control::API_VERSION.to_owned(),
            kind: "ImportResult".to_owned(),
            imported: total.imported,
            unchanged: total.unchanged,
            conflicts: total.conflicts,
            mirrored_resource_version: match mirrored {
                0 => String::new(),
                rv => rv.to_string(),
            },
        })
    }

    async fn reset(&self, resource: &Resource, fence: Option<u64>) -> Result<(), StoreError> {
        let id = resource.record().id;
        self.command(move |committer| {
            async move {
                let engine = Arc::clone(&committer.engine);
                let reset = committer.transaction(engine.reset(id, fence)).await;
                reset.map_err(unavailable)?.0.map_err(StoreError::Refused)
            }
            .boxed()
        })
        .await
    }

    async fn import_chunk(&self, chunk: ImportChunk) -> Result<ImportOutcome, StoreError> {
        self.command(move |committer| {
            async move {
                let engine = Arc::clone(&committer.engine);
                let imported = committer.transaction(engine.import(chunk)).await;
                imported
                    .map_err(unavailable)?
                    .0
                    .map_err(StoreError::Refused)
            }
            .boxed()
        })
        .await
    }

    /// Keeps the definition (schema, names, columns) of an API group, so that a start does not
    /// depend on anything else. Only the caller understands the text.
    ///
    /// # Errors
    /// If the store does not take the command.
    pub async fn save_definition(&self, group: &str, body: String) -> Result<(), StoreError> {
        let group = group.to_owned();
        self.command(move |committer| {
            async move {
                committer
                    .engine
                    .save_definition(&group, &body)
                    .await
                    .map_err(unavailable)
            }
            .boxed()
        })
        .await
    }

    /// Writes a copy of an embedded database to the file `path`, which must not exist. Every write
    /// that was answered before is in it, and of later ones those that were committed in time: it is
    /// the database as it was at one moment. Writes go on meanwhile.
    ///
    /// # Errors
    /// [`StoreError::Refused`] where the reports are in PostgreSQL, or the copy is damaged;
    /// [`StoreError::Unavailable`] if the copy cannot be written.
    pub async fn write_copy(&self, path: &Path) -> Result<(), StoreError> {
        let copied = self.engine().write_copy(path).await;
        let copied = copied.map_err(|error| match error {
            // Another try finds the same.
            EngineError::Corrupt { .. } => StoreError::Refused(error.to_string()),
            error => unavailable(error),
        });
        if copied? {
            return Ok(());
        }
        let why = "the reports are in PostgreSQL, which has backups of its own";
        Err(StoreError::Refused(why.to_owned()))
    }

    /// Returns the definitions of all API groups, as (group, text).
    ///
    /// # Errors
    /// If the database cannot be read.
    pub async fn load_definitions(&self) -> Result<Vec<(String, String)>, StoreError> {
        self.engine().load_definitions().await.map_err(unavailable)
    }
}

fn describe(def: &ResourceDef) -> String {
    let scope = if def.namespaced {
        "namespaced"
    } else {
        "cluster-scoped"
    };
    format!("{scope} {}", def.kind)
}
