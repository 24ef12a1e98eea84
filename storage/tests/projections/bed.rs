//! A store on a PostgreSQL of its own.

use std::sync::Arc;

use crds::control::{GateSpec, GateState, ImportBatch, ImportItem, ImportMode, ImportType};
use pgtest::{Postgres, PostgresOptions};
use serde_json::{Value, json};
use storage::model::{GroupResource, ObjectKey, ResourceDef};
use storage::store::{Database, Store, StoreOptions, Write};

/// Kinds of reports: group, version, plural, kind, namespaced.
pub const KINDS: [(&str, &str, &str, &str, bool); 5] = [
    (
        "wgpolicyk8s.io",
        "v1alpha2",
        "policyreports",
        "PolicyReport",
        true,
    ),
    (
        "wgpolicyk8s.io",
        "v1alpha2",
        "clusterpolicyreports",
        "ClusterPolicyReport",
        false,
    ),
    (
        "reports.kyverno.io",
        "v1",
        "ephemeralreports",
        "EphemeralReport",
        true,
    ),
    ("example.io", "v1", "reports", "Report", true),
    (
        "kyverno.io",
        "v1alpha2",
        "admissionreports",
        "AdmissionReport",
        true,
    ),
];

/// The kind of Kyverno's ephemeral reports, of which nothing is projected.
pub const EPHEMERAL: usize = 2;

pub struct Bed {
    pub server: Arc<Postgres>,
    pub store: Store,
}

impl Bed {
    /// A store on a server of its own, whose resources are open.
    pub async fn open() -> Self {
        let server = Postgres::start(PostgresOptions::quick()).await.unwrap();
        let bed = Self::on(Arc::new(server), "kind").await;
        bed.open_gates().await;
        bed
    }

    /// A store for a cluster, whose resources are closed.
    pub async fn on(server: Arc<Postgres>, identity: &str) -> Self {
        let store = store(&server, identity).await;
        Self { server, store }
    }

    pub async fn open_gates(&self) {
        for kind in 0..KINDS.len() {
            self.gate(kind, GateState::Open).await;
        }
    }

    pub async fn gate(&self, kind: usize, state: GateState) {
        let gate = GateSpec {
            state,
            settled: None,
            ..GateSpec::default()
        };
        self.store
            .set_gate(&resource(kind), gate, Some("test"))
            .await
            .unwrap();
    }

    /// Creates, or replaces whatever is there.
    pub async fn put(&self, kind: usize, object: Value) {
        let key = key(&object);
        let there = self.store.resource(&resource(kind)).unwrap().get(&key);
        let write = match there {
            None => Write::Create { key, object },
            Some(stored) => {
                let mut object = object;
                object["metadata"]["uid"] = json!(&*stored.uid);
                Write::Update {
                    key,
                    expected_rv: None,
                    object,
                }
            }
        };
        self.store.write(&resource(kind), &write).await.unwrap();
    }

    /// Deletes what is there, if something is.
    pub async fn delete(&self, kind: usize, object: &Value) {
        let key = key(object);
        let resource = resource(kind);
        let Some(stored) = self.store.resource(&resource).unwrap().get(&key) else {
            return;
        };
        let write = Write::Delete {
            key,
            expected_uid: None,
            expected_rv: None,
            last: stored.value().unwrap(),
        };
        self.store.write(&resource, &write).await.unwrap();
    }

    pub async fn import(&self, kind: usize, mode: ImportMode, items: Vec<(ImportType, Value)>) {
        let items = items
            .into_iter()
            .map(|(type_, object)| ImportItem { type_, object })
            .collect();
        let batch = ImportBatch {
            mode,
            items,
            ..ImportBatch::default()
        };
        self.store.import(&resource(kind), batch).await.unwrap();
    }
}

/// Opens a store on `server` for a cluster.
pub async fn store(server: &Postgres, identity: &str) -> Store {
    let mut options = storage::store::PostgresOptions::new(server.params_dir().unwrap(), identity);
    options.cluster_name = format!("{identity}-name");
    on_database(Database::Postgres(options)).await
}

/// Opens a store on a database.
pub async fn on_database(database: Database) -> Store {
    let store = Store::open(StoreOptions::on(database)).await.unwrap();
    for (group, _, plural, kind, namespaced) in KINDS {
        let def = ResourceDef {
            resource: GroupResource::new(group, plural),
            kind: kind.into(),
            namespaced,
        };
        store.ensure_resource(def).await.unwrap();
    }
    store
}

pub fn resource(kind: usize) -> GroupResource {
    GroupResource::new(KINDS[kind].0, KINDS[kind].2)
}

fn key(object: &Value) -> ObjectKey {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    ObjectKey::new(text("namespace"), text("name"))
}
