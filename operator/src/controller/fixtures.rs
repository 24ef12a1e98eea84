//! Objects for the tests, made by the real validation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use crds::names::LABEL_TARGET;
use crds::v1alpha1::ReportsServer;
use kube::Client;
use kube::runtime::events::Reporter;
use kube::runtime::reflector;
use serde_json::{Value, json};
use tokio::sync::{OnceCell, mpsc, watch};

use super::Context;
use super::build::ServiceAccountRef;
use super::cached::Cached;
use super::found::{Dereferenced, Level, NamespacePolicy, NamespaceState};
use super::validate::{Between, Refusal, Stage, Validated, specification};
use super::watches::Watches;
use crate::certs::{Material, Pair};
use crate::crd_check::{Check, Told};
use crate::database::between::Source;
use crate::database::check::Checks;
use crate::events::Publisher;
use crate::leader::Term;
use crate::metrics::Metrics;
use crate::migration::{Deps, HoldLock, Supervisor};
use crate::testing::Server;

/// Image of the tests.
pub const IMAGE: &str = "registry.example/reports-server:1.2.3";

/// Image of PostgreSQL of the tests.
pub const POSTGRES_IMAGE: &str = "registry.example/library/postgres:17.11-bookworm";

/// Returns a `ReportsServer` called `simple`. Name, namespace and groups differ from each other and
/// from the project's own names, so that a mix-up shows.
pub fn object(mut spec: Value) -> ReportsServer {
    spec["targetNamespace"] = json!("target");
    serde_json::from_value(json!({
        "apiVersion": "reports-server.io/v1alpha1", "kind": "ReportsServer",
        "metadata": {"name": "simple", "uid": "uid-1", "generation": 3, "resourceVersion": "7",
            "creationTimestamp": "2026-01-02T00:00:00Z"},
        "spec": spec,
    }))
    .unwrap()
}

/// Facts of a cluster in which everything is as it should be.
pub fn read() -> Dereferenced {
    Dereferenced {
        namespace: NamespaceState::Active,
        policy: NamespacePolicy {
            is_target: true,
            level: Level::Restricted,
        },
        operator_namespace: "operator-ns".to_owned(),
        default_image: IMAGE.to_owned(),
        default_postgres_image: POSTGRES_IMAGE.to_owned(),
        cluster_uid: "uid-of-kube-system".to_owned(),
        ..Dereferenced::default()
    }
}

/// Validates, in a cluster in which everything is as it should be.
pub fn try_validate(spec: Value) -> Result<Validated, Refusal> {
    specification(&object(spec), &read())
}

/// Validates an object that is valid.
pub fn validated_object(object: &ReportsServer) -> Validated {
    specification(object, &read()).unwrap()
}

/// Validates what is valid.
pub fn validated(spec: Value) -> Validated {
    try_validate(spec).unwrap()
}

/// Certificates that are none, for builders that only pass them on.
pub fn material() -> Material {
    Material {
        ca: Some(Pair {
            cert: "new-ca\n".into(),
            key: "ca-key\n".into(),
        }),
        previous: vec!["old-ca\n".into()],
        trusted: None,
        others: Vec::new(),
        leaf: Some(Pair {
            cert: "leaf\n".into(),
            key: "leaf-key\n".into(),
        }),
        database_server: Some(Pair {
            cert: "database-leaf\n".into(),
            key: "database-key\n".into(),
        }),
        database_client: Some(Pair {
            cert: "client-leaf\n".into(),
            key: "client-key\n".into(),
        }),
    }
}

/// Returns a move from one PostgreSQL to another.
pub fn between(stage: Stage) -> Between {
    Between {
        stage,
        secret: None,
        told: None,
        waits_for: None,
        target: None,
        watched: BTreeSet::new(),
        egress: None,
        source: Source {
            name: "External (secret old)".to_owned(),
            remains: "it stays as it was".to_owned(),
            ..Source::default()
        },
        home: None,
    }
}

/// Returns the operator's `ServiceAccount`.
pub fn operator() -> ServiceAccountRef {
    ServiceAccountRef {
        namespace: "operator-ns".into(),
        name: "operator-sa".into(),
    }
}

/// Returns what reconciliations share, in an operator whose requests go to `client`. Nobody listens to
/// what asks for a reconciliation.
pub fn context(client: &Client) -> Context {
    let metrics = Metrics::new();
    let reporter = Reporter::from("test");
    let deps = Deps {
        term: Term::endless(),
        client: client.clone(),
        config: kube::Config::new("https://localhost".parse().unwrap()),
        reporter: reporter.clone(),
        metrics: Arc::clone(&metrics.migration),
        hold_lock: HoldLock::default(),
        namespace: operator().namespace,
        resolve: BTreeMap::new(),
    };
    let (examined, _) = mpsc::channel(1);
    Context {
        client: client.clone(),
        operator: operator(),
        server_image: IMAGE.to_owned(),
        postgres_image: POSTGRES_IMAGE.to_owned(),
        publisher: Publisher::new(client.clone(), reporter),
        supervisor: Supervisor::new(deps),
        objects: reflector::store().0,
        api_services: reflector::store().0,
        cached: watch::channel(Cached::default()).1,
        installed: Check::new(metrics.clone()).1,
        crd_told: Told::default(),
        watches: Watches::new(client.clone(), mpsc::channel(1).0),
        checks: Checks::new(examined, BTreeMap::new(), Arc::clone(&metrics.database)),
        metrics,
        cluster_uid: OnceCell::new(),
        swept: Mutex::default(),
        noted: Mutex::default(),
        gone: Mutex::default(),
        refusals: Mutex::default(),
    }
}

/// The writes, in order: path and object.
pub type Taken = Arc<Mutex<Vec<(String, Value)>>>;

/// Plays a kube-apiserver with the target namespace and with what is `present`, by the end of its path.
/// It refuses to read what has one of the `forbidden` parts in its path, and takes what is applied.
pub fn played(
    mut server: Server,
    mut present: Vec<(&'static str, Value)>,
    forbidden: &'static [&'static str],
) -> Taken {
    let metadata = |metadata: Value| {
        json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
            "metadata": metadata})
    };
    let target = metadata(json!({"name": "target", "labels": {LABEL_TARGET: "true"}}));
    let system = metadata(json!({"name": "kube-system", "uid": "uid-of-kube-system"}));
    let none = json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": []});
    present.extend([
        ("/namespaces/target", target),
        ("/namespaces/kube-system", system),
        ("/pods", none),
    ]);
    let taken = Taken::default();
    let writes = Arc::clone(&taken);
    tokio::spawn(async move {
        while let Some(request) = server.next_if_any().await {
            let (path, query) = request
                .path
                .split_once('?')
                .unwrap_or((request.path.as_str(), ""));
            let path = path.to_owned();
            if request.method == "PATCH" {
                let mut body = request.body.clone();
                if !query.contains("dryRun") {
                    writes.lock().unwrap().push((path.clone(), body.clone()));
                }
                if path.ends_with("/status") {
                    // The whole object is the answer.
                    body["spec"] = json!({"targetNamespace": "target"});
                }
                request.answer(200, &body);
            } else if forbidden.iter().any(|part| path.contains(part)) {
                request.refuse(403, "Forbidden");
            } else if let Some((_, object)) = present.iter().find(|(end, _)| path.ends_with(end)) {
                request.answer(200, object);
            } else {
                request.refuse(404, "NotFound");
            }
        }
    });
    taken
}
