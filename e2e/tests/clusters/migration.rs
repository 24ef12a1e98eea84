//! The migration on a control plane with two kube-apiservers: the server and the operator's
//! migration run as processes, so that a death costs seconds. While a witness writes and watches,
//! the operator dies after each step; then the groups are given back, and the next point is tried
//! on the same cluster. A few points drawn anew in each run, all of them with `E2E_FULL`.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use e2e::processes::{LIMIT, Processes, stop};
use e2e::steps::BACK;
use e2e::takeover::{GROUPS, load};
use e2e::witness::{Account, Origin, Witness, WitnessOptions, strict_client};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, DynamicObject, ListParams, PostParams, WatchEvent, WatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use rand::seq::SliceRandom as _;
use serde_json::{Value, json};

use crate::common::full;

const REPORTS: usize = 300;
/// Namespace of the reports with owners.
const OWNED_IN: &str = "team-00";
/// Points drawn in a run that is not full.
const DRAWN: usize = 1;
const FORWARD: [&str; 10] = [
    "Preflight",
    "Mirror",
    "Verify",
    "SwitchHold",
    "SwitchPatch",
    "SwitchConfirm",
    "SwitchDrain",
    "SwitchOpen",
    "SwitchSettle",
    "before:SwitchSettle",
];

struct Bench {
    processes: Processes,
    runs: usize,
}

impl Deref for Bench {
    type Target = Processes;

    fn deref(&self) -> &Processes {
        &self.processes
    }
}

impl Bench {
    async fn start(groups: &'static [&'static str]) -> Self {
        Self {
            processes: Processes::start(groups, REPORTS, false).await.unwrap(),
            runs: 0,
        }
    }

    /// Runs the migration to its end, each time anew after it has died; how often it has died.
    async fn migrate(&mut self, fault: Option<&str>, more: &[&str]) -> usize {
        let notes = [
            "delete",
            "configmap",
            "reports-server-operator-notes",
            "--ignore-not-found",
        ];
        self.cluster.kubectl(notes).await.unwrap();
        for deaths in 0..3 {
            if self.migrate_once(fault, more).await {
                return deaths;
            }
        }
        panic!("{fault:?}: the migration died three times");
    }

    /// Runs the migration until it ends or dies at the fault point; whether it has ended.
    async fn migrate_once(&mut self, fault: Option<&str>, more: &[&str]) -> bool {
        self.runs += 1;
        let name = format!("migrate-{}", self.runs);
        let migration = self.processes.migrate(&name, fault, more).unwrap();
        let ended = migration.ended(LIMIT).await.unwrap();
        let (how, log) = (&ended.how, &ended.log);
        println!("{name} {fault:?} {more:?}: {how}");
        assert!(
            ended.done || log.contains("fault point: aborting"),
            "{name} ended {how}: {log}"
        );
        ended.done
    }

    /// A witness in namespaces of its own: the reports of an earlier one are still there.
    async fn witness(&self) -> Witness {
        let client = self.cluster.client().await.unwrap();
        let prefix = format!("witness-{}", self.runs);
        let namespaces = load::namespaces(&client, &prefix, 3).await.unwrap();
        let options = WitnessOptions {
            origin: Origin::Kubernetes,
            namespaces,
            rate: 40.0,
            reports_per_writer: 5,
        };
        // Somebody else than the migration: whoever holds a gate reads past it.
        let mut config = self.cluster.config(0).await.unwrap();
        config.auth_info.impersonate = Some("witness".to_owned());
        config.auth_info.impersonate_groups = Some(vec!["system:masters".to_owned()]);
        let strict = strict_client(config).unwrap();
        Witness::start(strict, Arc::clone(&self.corpus), options)
            .await
            .unwrap()
    }

    /// Everything that clients see, without what a written-back object gets anew.
    async fn contents(&self) -> Vec<Value> {
        let kinds = "policyreports,clusterpolicyreports,ephemeralreports,clusterephemeralreports";
        let text = self
            .cluster
            .kubectl(["get", kinds, "-A", "-o", "json"])
            .await
            .unwrap();
        let mut list: Value = serde_json::from_str(&text).unwrap();
        let mut items = list["items"].take().as_array().cloned().unwrap();
        for item in &mut items {
            let meta = item["metadata"].as_object_mut().unwrap();
            for field in [
                "uid",
                "resourceVersion",
                "creationTimestamp",
                "generation",
                "managedFields",
            ] {
                meta.remove(field);
            }
        }
        items.sort_by_key(|i| (i["kind"].to_string(), i["metadata"].to_string()));
        items
    }
}

/// Type, uid and version of all events since `version`, up to the one of the object `last`.
async fn events(reports: &Api<DynamicObject>, version: &str, last: &str) -> Vec<String> {
    let params = WatchParams::default();
    let mut stream = reports.watch(&params, version).await.unwrap().boxed();
    let mut seen = Vec::new();
    loop {
        let event = tokio::time::timeout(LIMIT, stream.try_next()).await;
        let (type_, object) = match event.expect("an event").unwrap().expect("it goes on") {
            WatchEvent::Added(object) => ("ADDED", object),
            WatchEvent::Modified(object) => ("MODIFIED", object),
            WatchEvent::Deleted(object) => ("DELETED", object),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(status) => panic!("{status}"),
        };
        let meta = object.metadata;
        seen.push(format!(
            "{type_} {:?} {:?}",
            meta.uid, meta.resource_version
        ));
        if meta.name.as_deref() == Some(last) {
            return seen;
        }
    }
}

fn drawn(all: &[&'static str], count: usize) -> Vec<&'static str> {
    let mut points = all.to_vec();
    if !full() {
        points.shuffle(&mut rand::rng());
        points.truncate(count);
    }
    println!("points: {points:?}");
    points
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_dies_after_any_step_loses_nothing() {
    let mut bench = Bench::start(&GROUPS).await;
    let server = bench.serve().unwrap();
    bench.register().await.unwrap();

    for point in drawn(&FORWARD, DRAWN) {
        let witness = bench.witness().await;
        let deaths = bench.migrate(Some(point), &["--keep"]).await;
        let account: Account = witness.finish().await.unwrap();
        println!("{point}: {account:?}");
        assert_eq!(deaths, 1, "{point} did not fire");
        assert!(account.is_clean(), "{point}: {account:#?}");
        let before = bench.contents().await;
        bench.migrate(None, &["--back"]).await;
        assert_eq!(bench.contents().await, before, "{point}: given back");
    }

    for point in drawn(&BACK, 1) {
        bench.migrate(None, &["--keep"]).await;
        let before = bench.contents().await;
        let deaths = bench.migrate(Some(point), &["--back"]).await;
        assert_eq!(deaths, 1, "{point} did not fire");
        assert_eq!(bench.contents().await, before, "{point}");
    }

    // Died in the prune; what was pruned comes back from the server.
    let deaths = bench.migrate(Some("before:Prune"), &[]).await;
    assert_eq!(deaths, 1);
    let before = bench.contents().await;
    bench.migrate(None, &["--back"]).await;
    assert_eq!(bench.contents().await, before);
    drop(server);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_changes_nothing_that_clients_see() {
    let mut bench = Bench::start(&GROUPS[..1]).await;
    let _server = bench.serve().unwrap();
    bench.register().await.unwrap();
    let api_service = format!("v1alpha2.{}", GROUPS[0]);
    let crd = format!("policyreports.{}", GROUPS[0]);
    let shown = async |bench: &Bench| {
        let generation = "jsonpath={.metadata.uid} {.metadata.generation} {.spec.service}";
        let service = ["get", "apiservice", &api_service, "-o", generation];
        let crd = ["get", "crd", &crd, "-o", generation];
        let service = bench.cluster.kubectl(service).await.unwrap();
        format!("{service} {}", bench.cluster.kubectl(crd).await.unwrap())
    };
    let (before, contents) = (shown(&bench).await, bench.contents().await);
    assert!(bench.migrate_once(None, &["--dry-run"]).await);
    assert_eq!(shown(&bench).await, before);
    assert_eq!(bench.contents().await, contents);
    assert!(bench.migrate_once(None, &["--keep"]).await);
    assert_ne!(shown(&bench).await, before);
    assert_eq!(bench.contents().await, contents);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_the_server_lost_comes_back_at_the_version_etcd_gave_it() {
    let mut bench = Bench::start(&GROUPS[..1]).await;
    let mut server = bench.serve().unwrap();
    bench.register().await.unwrap();
    assert!(!bench.migrate_once(Some("Verify"), &["--keep"]).await);
    let (database, older) = (bench.file("reports.db"), bench.file("older.db"));
    stop(server).await.unwrap();
    std::fs::copy(&database, &older).unwrap();
    server = bench.serve().unwrap();

    let kind = GroupVersionKind::gvk(GROUPS[0], "v1alpha2", "PolicyReport");
    let client = bench.cluster.client().await.unwrap();
    let reports: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let stored = reports.list(&ListParams::default()).await.unwrap();
    let from = stored.metadata.resource_version.unwrap();
    for report in &stored.items[..4] {
        let namespace = report.metadata.namespace.as_deref().unwrap();
        let there = Api::<DynamicObject>::namespaced_with(
            client.clone(),
            namespace,
            &ApiResource::from_gvk(&kind),
        );
        let name = report.metadata.name.as_deref().unwrap();
        there.delete(name, &DeleteParams::default()).await.unwrap();
    }
    let last = stored.items[3].metadata.name.as_deref().unwrap();
    let seen = events(&reports, &from, last).await;
    assert_eq!(seen.len(), 4, "{seen:?}");

    // The mirror brings the deletions, and the operator dies in the hold; then the server comes
    // back as it was before them.
    let points = Some("Verify,SwitchPatch");
    assert!(!bench.migrate_once(points, &["--keep"]).await);
    stop(server).await.unwrap();
    std::fs::copy(&older, &database).unwrap();
    let _server = bench.serve().unwrap();
    assert!(bench.migrate_once(points, &["--keep"]).await);
    assert_eq!(events(&reports, &from, last).await, seen);
}

/// Time until the garbage collector has deleted what an owner leaves: it looks for new kinds every half
/// minute.
const COLLECTED: Duration = Duration::from_secs(90);

/// Reports in `team-00` with an owner each, and the garbage collector.
struct Owned {
    owners: Api<ConfigMap>,
    reports: Api<DynamicObject>,
}

impl Owned {
    fn new(client: &Client) -> Self {
        let kind = GroupVersionKind::gvk(GROUPS[0], "v1alpha2", "PolicyReport");
        let kind = ApiResource::from_gvk(&kind);
        Self {
            owners: Api::namespaced(client.clone(), OWNED_IN),
            reports: Api::namespaced_with(client.clone(), OWNED_IN, &kind),
        }
    }

    /// Creates a report and its owner.
    async fn create(&self, name: &str) {
        let params = PostParams::default();
        let owner = json!({"metadata": {"name": name}});
        let owner: ConfigMap = serde_json::from_value(owner).unwrap();
        let owner = self.owners.create(&params, &owner).await.unwrap();
        let report = json!({
            "apiVersion": format!("{}/v1alpha2", GROUPS[0]),
            "kind": "PolicyReport",
            "metadata": {"name": name, "ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": owner.metadata.uid},
            ]},
            "summary": {"pass": 1},
        });
        let report: DynamicObject = serde_json::from_value(report).unwrap();
        self.reports.create(&params, &report).await.unwrap();
    }

    /// Deletes the owner, and waits until the report is gone.
    async fn goes_with_its_owner(&self, name: &str) {
        let owner = self.owners.delete(name, &DeleteParams::default()).await;
        owner.unwrap();
        let is_gone = |report: Option<&DynamicObject>| report.is_none();
        let gone = await_condition(self.reports.clone(), name, is_gone);
        let gone = tokio::time::timeout(COLLECTED, gone).await;
        let gone = gone.unwrap_or_else(|_| panic!("{name} has lost its owner, and stays"));
        gone.unwrap();
    }
}

/// A report that is created in etcd anew has another uid; by its uid the garbage collector knows it.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_given_back_goes_with_its_owner() {
    let mut bench = Bench::start(&GROUPS[..1]).await;
    let _server = bench.serve().unwrap();
    bench.register().await.unwrap();
    let owned = Owned::new(&bench.cluster.client().await.unwrap());
    owned.create("pruned").await;
    assert_eq!(bench.migrate(None, &[]).await, 0);
    owned.create("probe").await;
    owned.create("since").await;
    // It knows the others, too, then.
    owned.goes_with_its_owner("probe").await;
    assert_eq!(bench.migrate(None, &["--back"]).await, 0);
    for name in ["since", "pruned"] {
        owned.goes_with_its_owner(name).await;
    }
}
