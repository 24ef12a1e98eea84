//! The parts that every verb works with.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use apimachinery::definition::ResourceDefinition;
use apimachinery::error::ApiError;
use storage::store::Store;
use tokio::sync::watch::Receiver;

use super::copies::Copies;
use super::pieces::Pieces;
use super::scope::Scope;
use crate::cluster::{Attachments, EffectiveDefinitions, NamespaceLookup, WatchProxy};
use crate::registry::store_error;

/// The time after which a server that a group was taken over from may ask for a watch again, in
/// seconds.
const PREDECESSOR_RETRY_AFTER: u32 = 60;

/// The handler of requests for resources.
#[derive(Clone)]
pub struct Api {
    pub(super) store: Store,
    pub(super) definitions: Arc<EffectiveDefinitions>,
    pub(super) namespaces: Arc<dyn NamespaceLookup>,
    pub(super) attachments: Arc<Attachments>,
    pub(super) pieces: Arc<Pieces>,
    pub(super) copies: Option<Arc<Copies>>,
    pub(super) watch_proxy: Option<Arc<dyn WatchProxy>>,
    refused_writers: Receiver<BTreeSet<String>>,
}

impl Api {
    /// Returns an API over a store, serving the resources of `definitions`.
    #[must_use]
    pub fn new(
        store: Store,
        definitions: Arc<EffectiveDefinitions>,
        namespaces: Arc<dyn NamespaceLookup>,
    ) -> Self {
        Self {
            store,
            definitions,
            namespaces,
            attachments: Arc::default(),
            pieces: Arc::default(),
            copies: None,
            watch_proxy: None,
            refused_writers: tokio::sync::watch::channel(BTreeSet::new()).1,
        }
    }

    /// Returns the same API, which refuses writes and watches of some users whatever their rights.
    #[must_use]
    pub fn refusing(mut self, writers: Receiver<BTreeSet<String>>) -> Self {
        self.refused_writers = writers;
        self
    }

    /// # Errors
    /// For a server that the group was taken over from: 403 for a write, and 429 for a watch.
    /// kyverno/reports-server copies what it sees in a watch, and spins when one ends with 410; 429 it
    /// bears.
    pub(super) fn check_predecessor(&self, scope: &Scope) -> Result<(), ApiError> {
        let user = scope.ctx.user.username.as_str();
        let info = &scope.ctx.info;
        let concerns = info.is_mutating() || info.verb == "watch";
        if !concerns || !self.refused_writers.borrow().contains(user) {
            return Ok(());
        }
        let ResourceDefinition { group, plural, .. } = &*scope.definition;
        let who = format!("{user} is the server that {group} was taken over from");
        if !info.is_mutating() {
            let why = format!("{who}, and gets no events of it");
            return Err(ApiError::too_many_requests(why, PREDECESSOR_RETRY_AFTER));
        }
        let why = format!("{who}, and may not write to it");
        Err(ApiError::forbidden(
            group,
            plural,
            &scope.ctx.info.name,
            &why,
        ))
    }

    /// Returns the same API, whose requests wait while the kube-aggregator does not send them here.
    #[must_use]
    pub fn attached(mut self, attachments: Arc<Attachments>) -> Self {
        self.attachments = attachments;
        self
    }

    /// Returns the same API, which keeps the pieces of compressed lists in `pieces`.
    #[must_use]
    pub fn keeping(mut self, pieces: Arc<Pieces>) -> Self {
        self.pieces = pieces;
        self
    }

    /// Returns the same API, which writes copies of the database to `directory` where it is asked for
    /// them.
    #[must_use]
    pub fn copying_to(mut self, directory: impl Into<PathBuf>) -> Self {
        self.copies = Some(Arc::new(Copies::new(directory)));
        self
    }

    /// Returns the same API, whose watches go on at the CRDs of a group that is given back.
    #[must_use]
    pub fn proxying_watches(mut self, proxy: Arc<dyn WatchProxy>) -> Self {
        self.watch_proxy = Some(proxy);
        self
    }

    /// Makes sure that later reads are not older than any write that was answered.
    pub(super) async fn caught_up(&self) -> Result<(), ApiError> {
        self.store
            .consistent()
            .await
            .map_err(|error| store_error(&error))
    }
}
