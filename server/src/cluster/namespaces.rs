//! The namespaces that can take objects.
//!
//! The kube-apiserver's `NamespaceLifecycle` admission does not run for aggregated APIs, so the
//! server has to know the namespaces itself.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Namespace;
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use moka::future::Cache;

/// Time for which an answer that the watch has not brought is reused: long enough to spare the
/// kube-apiserver a burst, short enough that a namespace made again is seen.
const LOOKUP_TTL: Duration = Duration::from_secs(1);
/// Most such answers kept.
const MAX_LOOKUPS: u64 = 4096;
/// Longest time for one question.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// State of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NamespacePhase {
    /// It does not exist: a create or update is answered with 404.
    Missing,
    /// It takes objects.
    Active,
    /// It is being deleted: a create is answered with 403.
    Terminating,
}

/// The kube-apiserver could not be asked about a namespace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot look up namespace {name}: {why}")]
pub struct NamespaceError {
    /// The namespace.
    pub name: String,
    /// The cause.
    pub why: String,
}

/// Knows the namespaces.
#[async_trait]
pub trait NamespaceLookup: Send + Sync + 'static {
    /// Returns the state of a namespace.
    ///
    /// # Errors
    /// If the state is not known and cannot be asked for.
    async fn phase(&self, name: &str) -> Result<NamespacePhase, NamespaceError>;
}

type Meta = PartialObjectMeta<Namespace>;

/// The cluster's namespaces, watched.
pub struct Namespaces {
    seen: Store<Meta>,
    api: Api<Meta>,
    lookups: Cache<String, NamespacePhase>,
}

impl Namespaces {
    /// Returns the view, and the future that keeps it up to date for as long as it is polled.
    pub fn watch(client: Client) -> (Arc<Self>, impl Future<Output = ()> + Send + 'static) {
        let api: Api<Meta> = Api::all(client);
        let events = watcher(api.clone(), watcher::Config::default());
        Self::follow(api, events.default_backoff())
    }

    fn follow(
        api: Api<Meta>,
        events: impl Stream<Item = watcher::Result<watcher::Event<Meta>>> + Send + 'static,
    ) -> (Arc<Self>, impl Future<Output = ()> + Send + 'static) {
        let (seen, writer) = reflector::store();
        let lookups = Cache::builder()
            .max_capacity(MAX_LOOKUPS)
            .time_to_live(LOOKUP_TTL)
            .build();
        let slim = events.modify(|namespace| {
            namespace.metadata.managed_fields = None;
            namespace.metadata.annotations = None;
        });
        let run = reflector::reflector(writer, slim).for_each(|event| async move {
            if let Err(error) = event {
                tracing::warn!(%error, "watching namespaces: trying again");
            }
        });
        (Arc::new(Self { seen, api, lookups }), run)
    }

    /// Waits until all namespaces are known.
    pub async fn ready(&self) {
        // The writer is dropped only at the end of the program, when nobody waits any more.
        let _ = self.seen.wait_until_ready().await;
    }

    async fn ask(&self, name: &str) -> Result<NamespacePhase, NamespaceError> {
        let failed = |why: String| NamespaceError {
            name: name.to_owned(),
            why,
        };
        let answer = tokio::time::timeout(LOOKUP_TIMEOUT, self.api.get_opt(name))
            .await
            .map_err(|_| failed(format!("no answer within {} s", LOOKUP_TIMEOUT.as_secs())))?
            .map_err(|error| failed(error.to_string()))?;
        Ok(answer.as_ref().map_or(NamespacePhase::Missing, phase_of))
    }
}

/// Returns the phase of a namespace. It is Terminating from the moment of its deletion on.
fn phase_of(namespace: &Meta) -> NamespacePhase {
    if namespace.metadata.deletion_timestamp.is_some() {
        NamespacePhase::Terminating
    } else {
        NamespacePhase::Active
    }
}

#[async_trait]
impl NamespaceLookup for Namespaces {
    /// Returns the state of a namespace. Only `Active` is taken from the watch: a namespace that
    /// looks missing or terminating may have been made just now, and is asked for.
    async fn phase(&self, name: &str) -> Result<NamespacePhase, NamespaceError> {
        let seen = self
            .seen
            .get(&ObjectRef::new(name))
            .map(|namespace| phase_of(&namespace));
        if seen == Some(NamespacePhase::Active) {
            return Ok(NamespacePhase::Active);
        }
        self.lookups
            .try_get_with_by_ref(name, self.ask(name))
            .await
            .map_err(|error: Arc<NamespaceError>| error.as_ref().clone())
    }
}
