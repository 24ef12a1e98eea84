//! The sending of objects and events to the server, in requests that it takes.

use std::time::Duration;

use crds::control::{DigestItem, ImportBatch, ImportMode};

use super::mirror::batch::{Batcher, Entry};
use crate::migration::cluster::control::retry;
use crate::migration::cluster::wire::WireError;
use crate::migration::context::Cx;
use crate::migration::observe::state::Resource;

/// The time for which a request is tried.
const PATIENCE: Duration = Duration::from_mins(1);

/// A sender of what the server lacks of one resource. Order is kept.
pub struct Sender<'a> {
    cx: &'a Cx,
    resource: &'a Resource,
    mode: ImportMode,
    batcher: Batcher,
    conflicts: Vec<DigestItem>,
}

impl<'a> Sender<'a> {
    /// Returns a sender of imports in one mode, with at most `limit` entries a request.
    #[must_use]
    pub fn new(cx: &'a Cx, resource: &'a Resource, mode: ImportMode, limit: u32) -> Self {
        Self {
            cx,
            resource,
            mode,
            batcher: Batcher::new(limit),
            conflicts: Vec::new(),
        }
    }

    /// Sends an entry with one of the next requests.
    ///
    /// # Errors
    /// See [`WireError`].
    pub async fn push(&mut self, entry: Entry) -> Result<(), WireError> {
        let size = entry.size();
        if !self.batcher.fits(size) {
            self.flush().await?;
        }
        self.batcher.push(entry, size);
        Ok(())
    }

    /// Sends the rest. Returns the objects that gave way to the server's own writes.
    ///
    /// # Errors
    /// See [`WireError`].
    pub async fn finish(mut self) -> Result<Vec<DigestItem>, WireError> {
        self.flush().await?;
        Ok(self.conflicts)
    }

    async fn flush(&mut self) -> Result<(), WireError> {
        let Some((batch, _)) = self.batcher.take() else {
            return Ok(());
        };
        let one = ImportBatch {
            mode: self.mode,
            ..batch
        };
        let import = || self.cx.control.import(self.resource.name(), &one);
        let result = retry(PATIENCE, import).await?;
        self.conflicts.extend(result.conflicts);
        Ok(())
    }
}
