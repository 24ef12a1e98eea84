//! Reflectors of kube-rs, and a writer whose reports they follow.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, PostParams};
use kube::core::{GroupVersionKind, PartialObjectMeta};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::reflector::store::{Store, Writer};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::client_go::GROUP;

/// The namespace of the reports; nobody else writes there.
pub const NAMESPACE: &str = "reflected";
/// Number of reports that are written to.
const REPORTS: usize = 15;
/// The last report that is made and deleted.
const LAST: &str = "last";
/// Pause between two writes, or two tries.
const PAUSE: Duration = Duration::from_millis(20);
/// Longest wait for what must come.
const PATIENCE: Duration = Duration::from_mins(1);

/// Two reflectors, one of whole objects that begins with a list, one of metadata that begins with a
/// stream, and the writer.
pub struct Reflectors {
    api: Api<DynamicObject>,
    writer: JoinHandle<Written>,
    acknowledged: watch::Receiver<usize>,
    stop: CancellationToken,
    followers: Vec<(&'static str, JoinHandle<Followed>)>,
}

impl Reflectors {
    /// Starts the reflectors where there is nothing yet, then the writer.
    pub async fn begin(client: &Client) -> Self {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1alpha2", "PolicyReport"));
        let api = Api::<DynamicObject>::namespaced_with(client.clone(), NAMESPACE, &kind);
        let listed = watcher(api.clone(), watcher::Config::default());
        let metadata: Api<PartialObjectMeta<DynamicObject>> =
            Api::namespaced_with(client.clone(), NAMESPACE, &kind);
        let streamed = watcher(metadata, watcher::Config::default().streaming_lists());
        let followers = vec![
            ("reflector", start(listed, &kind).await),
            ("reflector of metadata", start(streamed, &kind).await),
        ];
        let (progress, acknowledged) = watch::channel(0);
        let stop = CancellationToken::new();
        let writer = tokio::spawn(write(api.clone(), progress, stop.clone()));
        Self {
            api,
            writer,
            acknowledged,
            stop,
            followers,
        }
    }

    /// Waits until so many more writes were answered.
    pub async fn written(&self, more: usize) {
        let mut acknowledged = self.acknowledged.clone();
        let goal = *acknowledged.borrow() + more;
        let reached = acknowledged.wait_for(|count| *count >= goal);
        let Ok(reached) = timeout(PATIENCE, reached).await else {
            panic!("no write is answered")
        };
        reached.unwrap();
    }

    /// Writes no more, and compares what was seen with what was written and with a list.
    pub async fn end(self) {
        self.stop.cancel();
        let written = self.writer.await.unwrap();
        let list = self.api.list(&ListParams::default()).await.unwrap();
        let held: BTreeMap<_, _> = list.items.iter().map(version).collect();
        for (what, follower) in self.followers {
            let seen = timeout(PATIENCE, follower).await;
            let seen = seen.unwrap_or_else(|_| panic!("the {what} does not see the last write"));
            seen.unwrap().check(what, &written, &held);
        }
        println!(
            "{} writes by kube-rs, {} more without an answer",
            written.acknowledged.len(),
            written.failed
        );
    }
}

/// The outcome of the writes.
#[derive(Default)]
struct Written {
    /// Versions of answered creates and updates, in their order.
    acknowledged: Vec<u64>,
    failed: usize,
    /// The reports as they were last answered.
    known: BTreeMap<String, DynamicObject>,
}

/// Writes until it is told to stop; then makes and deletes the last report.
async fn write(
    api: Api<DynamicObject>,
    progress: watch::Sender<usize>,
    stop: CancellationToken,
) -> Written {
    let mut written = Written::default();
    let mut round = 0;
    while !stop.is_cancelled() {
        let name = format!("report-{}", round % REPORTS);
        // Each one is created, updated five times and deleted.
        let delete = round / REPORTS % 7 == 6;
        written.step(&api, &name, round, delete).await;
        progress.send_replace(written.acknowledged.len());
        round += 1;
        sleep(PAUSE).await;
    }
    while !written.known.contains_key(LAST) {
        written.step(&api, LAST, round, false).await;
    }
    while written.known.contains_key(LAST) {
        written.step(&api, LAST, round, true).await;
    }
    written
}

impl Written {
    async fn step(&mut self, api: &Api<DynamicObject>, name: &str, round: usize, delete: bool) {
        let done = match self.known.get(name).cloned() {
            None if delete => return,
            None => api
                .create(&PostParams::default(), &report(name))
                .await
                .map(Some),
            Some(_) if delete => {
                let deleted = api.delete(name, &DeleteParams::default()).await;
                deleted.map(|_| None)
            }
            Some(mut object) => {
                object.data["summary"]["pass"] = json!(round);
                let params = PostParams::default();
                api.replace(name, &params, &object).await.map(Some)
            }
        };
        let Ok(now) = done else {
            self.failed += 1;
            return self.learn(api, name).await;
        };
        self.acknowledged
            .extend(now.iter().map(|object| version(object).1));
        self.remember(name, now);
    }

    fn remember(&mut self, name: &str, object: Option<DynamicObject>) {
        match object {
            Some(object) => self.known.insert(name.to_owned(), object),
            None => self.known.remove(name),
        };
    }

    /// Looks what became of a write without an answer, for as long as that takes.
    async fn learn(&mut self, api: &Api<DynamicObject>, name: &str) {
        loop {
            if let Ok(object) = api.get_opt(name).await {
                return self.remember(name, object);
            }
            sleep(PAUSE).await;
        }
    }
}

fn report(name: &str) -> DynamicObject {
    let report = json!({
        "apiVersion": format!("{GROUP}/v1alpha2"), "kind": "PolicyReport",
        "metadata": {"name": name},
        "results": [{"policy": "p", "result": "pass"}],
        "summary": {"pass": 1},
    });
    serde_json::from_value(report).unwrap()
}

/// Name and version of an object.
fn version<K: Resource>(object: &K) -> (String, u64) {
    let version = object.resource_version().unwrap_or_default();
    (object.name_any(), version.parse().unwrap())
}

/// Starts a reflector; gives it when it has begun to watch.
async fn start<K>(
    stream: impl Stream<Item = watcher::Result<Event<K>>> + Send + 'static,
    kind: &ApiResource,
) -> JoinHandle<Followed>
where
    K: Resource<DynamicType = ApiResource> + Clone + Debug + Send + Sync + 'static,
{
    let writer = Writer::<K>::new(kind.clone());
    let store = writer.as_reader();
    let events = stream.default_backoff().reflect(writer);
    let follower = tokio::spawn(follow(events, store.clone()));
    let Ok(ready) = timeout(PATIENCE, store.wait_until_ready()).await else {
        panic!("a reflector does not begin")
    };
    ready.unwrap();
    follower
}

/// Follows until the last report is deleted.
async fn follow<K>(
    events: impl Stream<Item = watcher::Result<Event<K>>> + Send,
    store: Store<K>,
) -> Followed
where
    K: Resource<DynamicType = ApiResource> + Clone + 'static,
{
    let mut events = Box::pin(events);
    let mut seen = Followed::default();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => seen.starts += 1,
            Ok(Event::InitApply(object) | Event::Apply(object)) => {
                seen.versions.push(version(&object).1);
            }
            Ok(Event::Delete(object)) if object.name_any() == LAST => break,
            Ok(Event::InitDone | Event::Delete(_)) => {}
            Err(_) => seen.errors += 1,
        }
    }
    let held = store.state();
    seen.store = held.iter().map(|object| version(&**object)).collect();
    seen
}

/// The events that a reflector was told.
#[derive(Default)]
struct Followed {
    /// Number of times that it began with everything.
    starts: usize,
    /// Number of times that a watch broke, or could not be begun.
    errors: usize,
    /// Versions of what came, in its order.
    versions: Vec<u64>,
    /// The store of the reflector at the end: names and versions.
    store: BTreeMap<String, u64>,
}

impl Followed {
    /// The store is what a list gives; every write came once, in order.
    fn check(&self, what: &str, written: &Written, held: &BTreeMap<String, u64>) {
        let (events, errors) = (self.versions.len(), self.errors);
        println!("the {what} saw {events} events and {errors} errors");
        assert_eq!(self.starts, 1, "the {what} had to begin anew");
        assert_eq!(&self.store, held, "store of the {what}");
        assert!(self.versions.is_sorted_by(|a, b| a < b), "{what}: order");
        let missing = |version: &&u64| self.versions.binary_search(version).is_err();
        let missed: Vec<_> = written.acknowledged.iter().filter(missing).collect();
        assert!(missed.is_empty(), "the {what} missed {missed:?}");
    }
}
