//! The clients that write, read and watch: the number of each, and their places.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::ChaosError;
use super::clientgo::GoStyle;
use super::collection::Collection;
use super::counter::{self, Counter};
use super::ledger::{Key, Ledger};
use super::object::Subject;
use super::observer::{Nature, Observer, Source};
use super::poller::Poller;
use super::request::Requester;
use super::tally::Tally;
use super::watcher::{Style, Watcher};
use super::work::Worker;
use super::writer::{Place, Writer};
use testreports::ReportKind;

/// Time between two increments of one client.
const COUNT: Duration = Duration::from_millis(700);
/// Time between two requests to a namespace that is emptied again and again.
const COLLECT: Duration = Duration::from_millis(500);
/// Time between two lists of a kind.
const POLL: Duration = Duration::from_millis(900);

/// Namespaces that are written to.
#[derive(Clone, Debug, Default)]
pub struct Namespaces {
    /// Namespaces for all verbs, each with a `ConfigMap` that owns some of the objects: its name
    /// and uid.
    pub common: Vec<(String, (String, String))>,
    /// Namespaces that are emptied again and again, one for each kind in namespaces.
    pub emptied: Vec<String>,
}

/// The observers of a run, and their sources.
#[derive(Default)]
pub struct Watchers {
    /// All observers.
    pub observers: Vec<Arc<Observer>>,
    /// Observers that client-go feeds.
    pub clientgo: Vec<(GoStyle, Arc<Observer>)>,
    /// Watchers on raw HTTP.
    pub raw: Vec<Watcher>,
}

/// The maker of the watchers of these kinds.
pub struct Watching<'a> {
    /// The ledger of writes.
    pub ledger: &'a Arc<Ledger>,
    /// The count of flaws.
    pub tally: &'a Arc<Tally>,
    /// Requesters, one for each kube-apiserver.
    pub requesters: &'a [Requester],
}

impl Watching<'_> {
    /// Returns `RetryWatchers` of every kind, and the other styles of the first kinds of each
    /// group.
    #[must_use]
    pub fn watchers(&self, kinds: &[ReportKind]) -> Watchers {
        let mut all = Watchers::default();
        for kind in kinds {
            self.clientgo(&mut all, *kind, GoStyle::Retry, false);
            self.raw(&mut all, *kind, Style::Plain, (true, false));
            if kind.namespaced() {
                self.clientgo(&mut all, *kind, GoStyle::Retry, true);
                self.clientgo(&mut all, *kind, GoStyle::Informer, false);
                self.clientgo(&mut all, *kind, GoStyle::Metadata, false);
                self.raw(&mut all, *kind, Style::Plain, (false, false));
                self.raw(&mut all, *kind, Style::WatchList, (true, false));
                self.raw(&mut all, *kind, Style::Metadata, (true, true));
            }
        }
        all
    }

    fn observer(&self, nature: Nature) -> Arc<Observer> {
        let (ledger, tally) = (Arc::clone(self.ledger), Arc::clone(self.tally));
        Arc::new(Observer::new(nature, ledger, tally))
    }

    fn clientgo(&self, all: &mut Watchers, kind: ReportKind, style: GoStyle, selected: bool) {
        let part = if selected { " (selected)" } else { "" };
        let source = if style == GoStyle::Retry {
            Source::RetryWatcher
        } else {
            Source::Informer
        };
        // Some at each kube-apiserver.
        let apiserver = all.clientgo.len() % self.requesters.len();
        let observer = self.observer(Nature {
            name: format!(
                "client-go {style:?} of {}{part} at {apiserver}",
                kind.plural()
            ),
            kind,
            selected,
            bookmarks: true,
            source,
            apiserver,
        });
        all.observers.push(Arc::clone(&observer));
        all.clientgo.push((style, observer));
    }

    fn raw(
        &self,
        all: &mut Watchers,
        kind: ReportKind,
        style: Style,
        (bookmarks, selected): (bool, bool),
    ) {
        // Some at each kube-apiserver.
        let apiserver = all.raw.len() % self.requesters.len();
        let with = if bookmarks { "with" } else { "without" };
        let observer = self.observer(Nature {
            name: format!(
                "{style:?} {with} bookmarks of {} at {apiserver}",
                kind.plural()
            ),
            kind,
            selected,
            bookmarks,
            source: Source::Watch,
            apiserver,
        });
        all.observers.push(Arc::clone(&observer));
        all.raw.push(Watcher {
            observer,
            style,
            requester: self.requesters[apiserver].clone(),
        });
    }
}

/// The maker of the clients that write and read.
pub struct Work<'a> {
    /// The set in which they run.
    pub tasks: &'a mut JoinSet<()>,
    /// Requesters, one for each kube-apiserver.
    pub requesters: &'a [Requester],
    /// The worker that they share.
    pub worker: &'a Worker,
    /// The namespaces that they write in.
    pub namespaces: &'a Namespaces,
    /// The seed of all random choices.
    pub seed: u64,
}

impl Work<'_> {
    fn requester(&self, number: usize) -> Requester {
        self.requesters[number % self.requesters.len()].clone()
    }

    /// Starts writers of all verbs, together with this many writes a second.
    pub fn writers(&mut self, kinds: &[ReportKind], rate: f64) {
        let mut places = Vec::new();
        for kind in kinds {
            let count = if kind.namespaced() { usize::MAX } else { 1 };
            for (namespace, owner) in self.namespaces.common.iter().take(count) {
                places.push(Place {
                    kind: *kind,
                    namespace: namespace.clone(),
                    owner: Some(owner.clone()),
                });
            }
        }
        let writers = u32::try_from(places.len()).unwrap_or(u32::MAX);
        let period = Duration::from_secs_f64(f64::from(writers) / rate);
        for (number, place) in places.into_iter().enumerate() {
            let (requester, worker) = (self.requester(number), self.worker.clone());
            let seed = self.seed.wrapping_add(number as u64);
            let writer = Writer::new(place, requester, worker, seed);
            self.tasks.spawn(writer.run(period));
        }
    }

    /// Starts clients that empty namespaces again and again.
    pub fn collections(&mut self, kinds: &[ReportKind]) {
        let kinds = kinds.iter().filter(|kind| kind.namespaced());
        for (number, (kind, namespace)) in kinds.zip(&self.namespaces.emptied).enumerate() {
            let collection = Collection {
                kind: *kind,
                namespace: namespace.clone(),
                requester: self.requester(number),
                worker: self.worker.clone(),
            };
            self.tasks.spawn(collection.run(COLLECT));
        }
    }

    /// Starts readers of each kind.
    pub fn pollers(&mut self, kinds: &[ReportKind]) {
        for (number, kind) in kinds.iter().enumerate() {
            let namespaced = kind.namespaced();
            let one = self.namespaces.common.first().filter(|_| namespaced);
            let one = one.map(|(namespace, _)| Some(namespace.clone()));
            for (place, namespace) in [None].into_iter().chain(one).enumerate() {
                let poller = Poller {
                    kind: *kind,
                    namespace,
                    requester: self.requester(number + place),
                    worker: self.worker.clone(),
                };
                self.tasks.spawn(poller.run(POLL));
            }
        }
    }

    /// Returns a counter of each kind, incremented at every kube-apiserver.
    ///
    /// # Errors
    /// If one cannot be created.
    pub async fn counters(&mut self, kinds: &[ReportKind]) -> Result<Vec<Subject>, ChaosError> {
        let mut counters = Vec::new();
        for kind in kinds {
            let namespace = self.namespaces.common.first().map(|(name, _)| name.clone());
            let subject = Subject {
                key: Key {
                    kind: *kind,
                    namespace: namespace.filter(|_| kind.namespaced()).unwrap_or_default(),
                    name: "counter".to_owned(),
                },
                selected: true,
                owner: None,
            };
            counter::create(&subject, &self.requester(0), &self.worker.ledger)
                .await
                .map_err(ChaosError::Request)?;
            for requester in self.requesters {
                let counter = Counter {
                    subject: subject.clone(),
                    requester: requester.clone(),
                    worker: self.worker.clone(),
                };
                self.tasks.spawn(counter.run(COUNT));
            }
            counters.push(subject);
        }
        Ok(counters)
    }
}
