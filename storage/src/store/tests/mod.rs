//! The tests for every engine, through the store: [`suite`] holds scenarios, [`history`] and
//! [`mirror`] compare random histories with a model. Each takes a [`Fixture`], so that another
//! engine joins by naming its own.

mod compaction;
mod compression;
mod copies;
mod faults;
mod history;
mod mirror;
mod moving;
mod postgres;
mod sqlite;
mod suite;

use std::sync::Arc;
use std::time::Duration;

use crds::control::{GateSpec, GateState, ImportBatch, ImportItem, ImportMode, ImportType};
use serde_json::{Value, json};

use super::engine::Engine;
use super::maintenance::History;
use super::{Etcd, OpenError, RevisionError, Store, StoreOptions, Write, WriteError};
use crate::cache::{Cursor, Event, EventType, Resource, RingLimits};
use crate::model::{GroupResource, ObjectKey, ResourceDef, StoredObject};

/// A database that can be opened again and again.
#[async_trait::async_trait]
pub(super) trait Fixture: Send + Sync {
    async fn open(&self) -> Arc<dyn Engine>;

    /// Returns the bytes that the log counts for a text.
    fn logged(&self, text: &str) -> usize {
        text.len()
    }
}

/// An etcd at a revision; `None` where no kube-apiserver answers.
pub(super) struct Revision(pub Option<u64>);

#[async_trait::async_trait]
impl Etcd for Revision {
    async fn revision(&self) -> Result<u64, RevisionError> {
        self.0.ok_or_else(|| "connection refused".into())
    }
}

/// Tells how histories begin in a database that was put back: above what clients may hold.
async fn begins_above_etcd(fixture: &dyn Fixture) {
    const REVISION: u64 = 50_000_000;
    let unknown = Bed::beside(fixture.open().await, Revision(None)).await;
    let error = unknown.err().unwrap();
    assert!(matches!(error, OpenError::Revision(_)), "{error}");
    assert!(error.may_pass(), "the server asks again");
    let known = Bed::beside(fixture.open().await, Revision(Some(REVISION)));
    let bed = known.await.unwrap();
    let counter = bed.store.counter();
    assert!(counter > REVISION + 1000);
    // A bookmark from before told of etcd's revision at that time.
    assert!(bed.reports.events_from(REVISION).is_err());
    assert!(bed.create("later", "u").await.unwrap().rv() > counter);
    bed.close().await;
    // Once: the next start has nothing to ask.
    let again = Bed::beside(fixture.open().await, Revision(None)).await;
    let again = again.unwrap();
    assert!(again.reports.events_from(counter).is_ok());
    again.close().await;
}

/// A store on a fixture, with its one resource of reports.
pub(super) struct Bed {
    pub store: Store,
    pub reports: Arc<Resource>,
}

pub(super) fn reports() -> GroupResource {
    GroupResource::new("example.io", "reports")
}

fn def() -> ResourceDef {
    ResourceDef {
        resource: reports(),
        kind: "Report".into(),
        namespaced: true,
    }
}

/// Limits so small that tests read from the change log as well.
const RING: RingLimits = RingLimits {
    events: 5,
    bytes: 1 << 20,
};

impl Bed {
    pub async fn open(fixture: &dyn Fixture) -> Self {
        Self::on(fixture.open().await).await
    }

    pub async fn on(engine: Arc<dyn Engine>) -> Self {
        Self::beside(engine, Revision(Some(0))).await.unwrap()
    }

    /// Opens a store in a cluster with an etcd.
    pub async fn beside(engine: Arc<dyn Engine>, etcd: Revision) -> Result<Self, OpenError> {
        let options = StoreOptions {
            ring: RING,
            indexed_labels: vec!["app".to_owned()],
            etcd: Arc::new(etcd),
            ..StoreOptions::new("unused")
        };
        let store = Store::start(engine, options).await?;
        let reports = store.ensure_resource(def()).await.unwrap();
        Ok(Self { store, reports })
    }

    /// Returns a store whose gate is open.
    pub async fn serving(fixture: &dyn Fixture) -> Self {
        let bed = Self::open(fixture).await;
        bed.gate(GateState::Open).await;
        bed
    }

    pub async fn close(self) {
        self.store.close().await;
    }

    /// Closes the store and opens it again.
    pub async fn reopen(self, fixture: &dyn Fixture) -> Self {
        self.close().await;
        Self::open(fixture).await
    }

    pub async fn gate(&self, state: GateState) {
        let gate = GateSpec {
            state,
            settled: None,
            ..GateSpec::default()
        };
        self.store
            .set_gate(&reports(), gate, Some("operator"))
            .await
            .unwrap();
    }

    pub async fn write(&self, write: Write) -> Result<Arc<Event>, WriteError> {
        self.store.write(&reports(), &write).await
    }

    pub async fn create(&self, name: &str, uid: &str) -> Result<Arc<Event>, WriteError> {
        self.write(Write::Create {
            key: key(name),
            object: report(name, uid, "a"),
        })
        .await
    }

    pub async fn update(
        &self,
        name: &str,
        uid: &str,
        app: &str,
        rv: Option<u64>,
    ) -> Result<Arc<Event>, WriteError> {
        let object = report(name, uid, app);
        self.write(Write::Update {
            key: key(name),
            expected_rv: rv,
            object,
        })
        .await
    }

    pub async fn delete(&self, name: &str, rv: Option<u64>) -> Result<Arc<Event>, WriteError> {
        let last = match self.reports.get(&key(name)) {
            Some(object) => object.value().unwrap(),
            None => report(name, "gone", "a"),
        };
        let key = key(name);
        self.write(Write::Delete {
            key,
            expected_uid: None,
            expected_rv: rv,
            last,
        })
        .await
    }

    pub async fn import(
        &self,
        mode: ImportMode,
        items: Vec<ImportItem>,
    ) -> Result<crds::control::ImportResult, super::StoreError> {
        let batch = ImportBatch {
            mode,
            items,
            ..ImportBatch::default()
        };
        self.store.import(&reports(), batch).await
    }

    /// Drops changes that are older than `age`.
    pub async fn compact(&self, age: Duration) {
        let bytes = u64::MAX;
        self.store.compact(History { age, bytes }).await.unwrap();
    }

    /// Returns all events above `rv` up to `last`.
    pub async fn events(&self, rv: u64, last: u64) -> Vec<Arc<Event>> {
        let mut cursor = self.reports.events_from(rv).unwrap();
        let mut events = Vec::new();
        while cursor.position() < last {
            let more = next(&mut cursor, 3).await;
            assert!(more.iter().all(|e| e.rv() > rv));
            events.extend(more);
        }
        events
    }
}

/// Returns the next events, which must be there.
pub(super) async fn next(cursor: &mut Cursor, max: usize) -> Vec<Arc<Event>> {
    tokio::time::timeout(Duration::from_secs(10), cursor.next(max))
        .await
        .unwrap()
        .unwrap()
}

pub(super) fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

/// Returns a report whose label `app` is `app`.
pub(super) fn report(name: &str, uid: &str, app: &str) -> Value {
    json!({"apiVersion": "example.io/v1", "kind": "Report", "results": [{"result": app}],
        "metadata": {"name": name, "namespace": "ns", "uid": uid, "labels": {"app": app}}})
}

/// Returns an item of an import.
pub(super) fn item(type_: ImportType, name: &str, uid: &str, app: &str, rv: u64) -> ImportItem {
    let mut object = report(name, uid, app);
    object["metadata"]["resourceVersion"] = json!(rv.to_string());
    ImportItem { type_, object }
}

/// The identity of an event: type, version, name, uid, label.
pub(super) type Seen = (EventType, u64, String, String, String);

pub(super) fn seen(event: &Event) -> Seen {
    let (name, uid, app) = brief(&event.object);
    (event.type_, event.rv(), name, uid, app)
}

/// Returns name, uid and label of an object, from its text, which must agree with the rest.
pub(super) fn brief(object: &StoredObject) -> (String, String, String) {
    let value = object.value().unwrap();
    let meta = &value["metadata"];
    let text = |v: &Value| v.as_str().unwrap().to_owned();
    assert_eq!(text(&meta["resourceVersion"]), object.rv.to_string());
    assert_eq!(text(&meta["uid"]), *object.uid);
    assert_eq!(text(&meta["name"]), object.key.name());
    assert_eq!(object.labels.get("app"), meta["labels"]["app"].as_str());
    assert_eq!(value["results"][0]["result"], meta["labels"]["app"]);
    (
        text(&meta["name"]),
        text(&meta["uid"]),
        text(&meta["labels"]["app"]),
    )
}
