//! The source of events that have left the memory.

use std::sync::Arc;

use super::Event;
use crate::model::ResourceId;

/// The change log could not be read.
#[derive(Debug, thiserror::Error)]
#[error("reading the change log: {0}")]
pub struct LogError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// A page of the change log.
#[derive(Debug)]
pub struct LogPage {
    /// The events, in order of version.
    pub events: Vec<Arc<Event>>,
    /// The horizon in the log at that moment; 0 where no other server could have raised it.
    pub horizon: u64,
}

/// The durable change log.
#[async_trait::async_trait]
pub trait Log: Send + Sync + 'static {
    /// Returns at most `max` events of `resource` with versions above `after`, in order of version.
    ///
    /// Events below the horizon may be missing. The caller compares with the horizon afterwards:
    /// that of the page, and its own, which is published before anything is dropped.
    ///
    /// # Errors
    /// If the database cannot be read.
    async fn events(
        &self,
        resource: ResourceId,
        after: u64,
        max: usize,
    ) -> Result<LogPage, LogError>;
}
