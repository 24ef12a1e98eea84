//! The definitions in force, kept up to date.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use apimachinery::definition::ResourceDefinition;
use arc_swap::ArcSwap;
use futures::{Stream, StreamExt};
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::Instant;

use super::crds::{CrdWatch, Meta};
use super::definitions::{DefinitionStore, Effective, Served, Sources, effective};

/// Time for which the catalog waits for the cluster's own CRDs.
const CATALOG_PATIENCE: Duration = Duration::from_secs(10);
/// Pause before something that failed is tried again.
const RETRY: Duration = Duration::from_secs(2);

type ByName = BTreeMap<String, Arc<ResourceDefinition>>;

/// The definitions that are served now. Reading them costs nothing and depends on nothing.
pub struct EffectiveDefinitions {
    served: ArcSwap<Served>,
    generation: watch::Sender<u64>,
    /// True once the cluster has been asked, so that the served definitions are not only remembered
    /// ones.
    synced: watch::Sender<bool>,
}

impl EffectiveDefinitions {
    /// Returns definitions that never change: for tests and static configurations.
    ///
    /// # Errors
    /// If a document cannot be encoded.
    pub fn fixed(definitions: Vec<Effective>) -> Result<Arc<Self>, serde_json::Error> {
        Ok(Arc::new(Self {
            served: ArcSwap::from_pointee(Served::new(definitions)?),
            generation: watch::Sender::new(0),
            synced: watch::Sender::new(true),
        }))
    }

    /// Returns the definitions that are served now.
    #[must_use]
    pub fn load(&self) -> Arc<Served> {
        self.served.load_full()
    }

    /// Returns a receiver that is notified after each change of the definitions.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// Returns whether the cluster's CRDs have been read.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Waits until the cluster's CRDs have been read.
    pub async fn synced(&self) {
        // The sender lives in `self`, so the wait cannot fail.
        let _ = self.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// Starts from the definitions that were last in force, and follows the cluster for as long as
    /// the returned future is polled. `groups` holds `None` until the groups are known: those of
    /// `last` are served until then.
    ///
    /// # Errors
    /// If a document cannot be encoded.
    pub fn follow(
        client: Client,
        groups: watch::Receiver<Option<BTreeSet<String>>>,
        last: Vec<ResourceDefinition>,
        catalog: Vec<ResourceDefinition>,
        store: Arc<dyn DefinitionStore>,
    ) -> Result<(Arc<Self>, impl Future<Output = ()> + Send + 'static), serde_json::Error> {
        let by_name = |definitions: Vec<ResourceDefinition>| -> ByName {
            definitions
                .into_iter()
                .map(|d| (d.name(), Arc::new(d)))
                .collect()
        };
        let (last, catalog) = (by_name(last), by_name(catalog));
        let served = Served::new(effective(&Sources {
            groups: &groups_or_those_of(groups.borrow().as_ref(), &last),
            crds: &ByName::new(),
            last: &last,
            catalog: &ByName::new(),
        }))?;
        let this = Arc::new(Self {
            served: ArcSwap::from_pointee(served),
            generation: watch::Sender::new(0),
            synced: watch::Sender::new(false),
        });
        let api: Api<Meta> = Api::all(client.clone());
        let events = watcher(api, watcher::Config::default()).default_backoff();
        let follower = Follower {
            target: this.clone(),
            crds: CrdWatch::new(client),
            groups,
            last,
            unsaved: BTreeSet::new(),
            prepared: BTreeSet::new(),
            catalog,
            store,
            started: Instant::now(),
        };
        Ok((this, follower.run(events)))
    }
}

fn groups_or_those_of(groups: Option<&BTreeSet<String>>, last: &ByName) -> BTreeSet<String> {
    groups.cloned().unwrap_or_else(|| {
        last.values()
            .map(|definition| definition.group.clone())
            .collect()
    })
}

/// Moves [`EffectiveDefinitions`] along with the cluster.
struct Follower {
    target: Arc<EffectiveDefinitions>,
    crds: CrdWatch,
    groups: watch::Receiver<Option<BTreeSet<String>>>,
    last: ByName,
    /// Groups whose definitions in `last` the store does not have yet.
    unsaved: BTreeSet<String>,
    /// Names of resources whose objects have a place in the store.
    prepared: BTreeSet<String>,
    catalog: ByName,
    store: Arc<dyn DefinitionStore>,
    started: Instant,
}

impl Follower {
    async fn run(
        mut self,
        events: impl Stream<Item = watcher::Result<watcher::Event<Meta>>> + Send + 'static,
    ) {
        let (seen, writer) = reflector::store();
        let slim = events.modify(|crd: &mut Meta| {
            crd.metadata.managed_fields = None;
            crd.metadata.annotations = None;
        });
        let mut changes = Box::pin(reflector::reflector(writer, slim));
        let mut listed = false;
        let mut groups_can_change = true;
        loop {
            let settled = self.step(&seen, listed).await;
            tokio::select! {
                event = changes.next() => match event {
                    None => return,
                    Some(Ok(event)) => listed |= matches!(event, watcher::Event::InitDone),
                    Some(Err(error)) => tracing::warn!(%error, "watching CRDs: trying again"),
                },
                notice = self.groups.changed(), if groups_can_change => {
                    // Without a sender the groups are given statically.
                    groups_can_change = notice.is_ok();
                }
                () = tokio::time::sleep(RETRY), if !settled => {}
            }
        }
    }

    /// Brings the served definitions up to date; returns false when something has to be tried
    /// again.
    async fn step(&mut self, seen: &Store<Meta>, listed: bool) -> bool {
        let known = self.groups.borrow_and_update().clone();
        let groups = groups_or_those_of(known.as_ref(), &self.last);
        let mut settled = true;
        if listed && let Err(error) = self.crds.sync(&seen.state(), &groups).await {
            tracing::warn!(%error, "fetching CRDs: trying again");
            settled = false;
        }
        self.remember();
        // What the cluster has comes before what is compiled in, so it gets time to answer.
        let patient = !listed && self.started.elapsed() < CATALOG_PATIENCE;
        settled &= !patient;
        let none = ByName::new();
        let wanted = effective(&Sources {
            groups: &groups,
            crds: self.crds.definitions(),
            last: &self.last,
            catalog: if patient { &none } else { &self.catalog },
        });
        let definitions = self.prepared(wanted, &mut settled).await;
        self.serve(definitions);
        settled &= self.save().await;
        if listed && settled && known.is_some() {
            self.target
                .synced
                .send_if_modified(|synced| !std::mem::replace(synced, true));
        }
        settled
    }

    /// Keeps the definitions of the CRDs as those that were last in force.
    fn remember(&mut self) {
        for (name, definition) in self.crds.definitions() {
            let known = self
                .last
                .get(name)
                .is_some_and(|last| same(last, definition));
            if !known {
                self.last.insert(name.clone(), definition.clone());
                self.unsaved.insert(definition.group.clone());
            }
        }
    }

    /// Returns those definitions whose objects have a place; the others are left out until they do.
    async fn prepared(&mut self, wanted: Vec<Effective>, settled: &mut bool) -> Vec<Effective> {
        let mut ready = Vec::with_capacity(wanted.len());
        for effective in wanted {
            let definition = &effective.definition;
            let name = definition.name();
            if !self.prepared.contains(&name) {
                if let Err(error) = self.store.prepare(definition).await {
                    tracing::warn!(resource = name, %error, "cannot serve: trying again");
                    *settled = false;
                    continue;
                }
                self.prepared.insert(name);
            }
            ready.push(effective);
        }
        ready
    }

    async fn save(&mut self) -> bool {
        for group in self.unsaved.clone() {
            let of_group = self
                .last
                .values()
                .filter(|definition| definition.group == group);
            let definitions: Vec<_> = of_group.cloned().collect();
            match self.store.save(&group, &definitions).await {
                Ok(()) => {
                    self.unsaved.remove(&group);
                }
                Err(error) => {
                    tracing::warn!(group, %error, "storing the schemas in force: trying again");
                }
            }
        }
        self.unsaved.is_empty()
    }

    fn serve(&self, definitions: Vec<Effective>) {
        let now = self.target.load();
        let unchanged = now.iter().count() == definitions.len()
            && definitions.iter().all(|new| {
                now.resource(&new.definition.group, &new.definition.plural)
                    .is_some_and(|old| {
                        old.source == new.source && same(&old.definition, &new.definition)
                    })
            });
        if unchanged {
            return;
        }
        match Served::new(definitions) {
            Ok(served) => {
                let resources: Vec<_> = served.iter().map(|e| e.definition.name()).collect();
                tracing::info!(?resources, "resources being served");
                self.target.served.store(Arc::new(served));
                self.target
                    .generation
                    .send_modify(|generation| *generation += 1);
            }
            Err(error) => tracing::error!(%error, "cannot write the discovery documents"),
        }
    }
}

/// Returns whether two definitions are the same in all that matters.
fn same(a: &Arc<ResourceDefinition>, b: &Arc<ResourceDefinition>) -> bool {
    Arc::ptr_eq(a, b)
        || matches!((serde_json::to_value(a), serde_json::to_value(b)), (Ok(a), Ok(b)) if a == b)
}
