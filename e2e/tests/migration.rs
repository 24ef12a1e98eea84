//! The migration on a control plane with two kube-apiservers: the server and the operator's
//! migration run as processes, so that a death costs seconds. While a witness writes and watches,
//! the operator dies after each step; then the groups are given back, and the next point is tried
//! on the same cluster. A few points drawn anew in each run, all of them with `E2E_FULL`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "as in unit tests; helpers too"
)]

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use e2e::{
    cluster::{Backend, Cluster, ClusterOptions, Process, ProcessSpec, Signal, network::NODE_IP},
    reports::{Corpus, Input},
    takeover::{GROUPS, load},
    witness::{Account, Witness, WitnessOptions, strict_client},
};
use futures::{StreamExt as _, TryStreamExt as _};
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, ListParams, WatchEvent, WatchParams},
    core::{ApiResource, GroupVersionKind},
};
use rand::seq::SliceRandom as _;
use serde_json::{Value, json};

const NAMESPACE: &str = "reports-server";
const PORT: u16 = 8443;
const REPORTS: usize = 300;
const LIMIT: Duration = Duration::from_mins(3);
/// Points drawn in a run that is not full.
const DRAWN: usize = 2;
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
const BACK: [&str; 6] = [
    "BackOpenDoor",
    "BackWrite",
    "BackBurn",
    "BackHold",
    "BackRelease",
    "BackClose",
];

struct Bench {
    cluster: Cluster,
    /// The groups that are moved.
    groups: &'static [&'static str],
    corpus: Arc<Corpus>,
    files: tempfile::TempDir,
    runs: usize,
}

impl Bench {
    async fn start(groups: &'static [&'static str]) -> Self {
        let options = ClusterOptions {
            apiservers: 2,
            ..ClusterOptions::default()
        };
        let cluster = Cluster::start(options).await.unwrap();
        let client = cluster.client().await.unwrap();
        let input = Input::detect();
        let corpus = Arc::new(input.corpus().unwrap());
        load::install_crds(&client, input.crds(&GROUPS).unwrap())
            .await
            .unwrap();
        let owners = load::namespaces(&client, "team", 3).await.unwrap();
        load::load(&client, &corpus, &owners, REPORTS, &|_| {})
            .await
            .unwrap();
        let files = tempfile::tempdir().unwrap();
        certificates(files.path());
        Self {
            cluster,
            groups,
            corpus,
            files,
            runs: 0,
        }
    }

    fn file(&self, name: &str) -> String {
        self.files.path().join(name).display().to_string()
    }

    fn serve(&self) -> Process {
        let groups = self.groups.join(",");
        let kubeconfig = self.cluster.kubeconfig().display().to_string();
        let spec = ProcessSpec::new("serve", env!("CARGO_BIN_EXE_serve")).args([
            "--bind-address".to_owned(),
            format!("{NODE_IP}:{PORT}"),
            "--groups".to_owned(),
            groups,
            "--kubeconfig".to_owned(),
            kubeconfig,
            "--tls-cert-file".to_owned(),
            self.file("tls.crt"),
            "--tls-private-key-file".to_owned(),
            self.file("tls.key"),
            "--database".to_owned(),
            self.file("reports.db"),
        ]);
        self.cluster.run(spec).unwrap()
    }

    /// The Service, and the control API registered; waits until that is Available.
    async fn register(&self) {
        let namespace = ["create", "namespace", NAMESPACE];
        self.cluster.kubectl(namespace).await.unwrap();
        let backend = Backend {
            namespace: NAMESPACE.to_owned(),
            name: NAMESPACE.to_owned(),
            port: 443,
            targets: vec![(NODE_IP, PORT).into()],
        };
        self.cluster.expose(&backend).await.unwrap();
        let bundle = std::fs::read(self.file("ca.crt")).unwrap();
        let control = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": "v1alpha1.control.reports-server.io"},
            "spec": {"group": "control.reports-server.io", "version": "v1alpha1",
                "groupPriorityMinimum": 1000, "versionPriority": 100,
                "service": {"namespace": NAMESPACE, "name": NAMESPACE, "port": 443},
                "caBundle": k8s_openapi::ByteString(bundle)}});
        let apply = ["apply", "-f", "-"];
        self.cluster
            .kubectl_with_input(apply, &control.to_string())
            .await
            .unwrap();
        let name = "apiservice/v1alpha1.control.reports-server.io";
        let wait = ["wait", "--for=condition=Available", "--timeout=60s", name];
        self.cluster.kubectl(wait).await.unwrap();
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
        let mut args = vec!["--ca".to_owned(), self.file("ca.crt")];
        args.extend(
            self.groups
                .iter()
                .flat_map(|g| ["--group".to_owned(), (*g).to_owned()]),
        );
        args.extend(more.iter().map(|a| (*a).to_owned()));
        let mut spec = ProcessSpec::new(&name, env!("CARGO_BIN_EXE_migrate")).args(args);
        if let Some(fault) = fault {
            spec.env
                .push(("REPORTS_SERVER_OPERATOR_FAULT".to_owned(), fault.to_owned()));
        }
        let process = self.cluster.run(spec).unwrap();
        let ended = tokio::time::timeout(LIMIT, process.wait()).await;
        let log = std::fs::read_to_string(process.log()).unwrap_or_default();
        let info = ended
            .unwrap_or_else(|_| panic!("{fault:?} did not end: {log}"))
            .unwrap();
        let how = info.ended.unwrap_or_default();
        println!("{name} {fault:?} {more:?}: {how}");
        let done = log.lines().any(|line| line.starts_with('['));
        assert!(
            done || log.contains("fault point: aborting"),
            "{name} ended {how}: {log}"
        );
        done
    }

    /// A witness in namespaces of its own: the reports of an earlier one are still there.
    async fn witness(&self) -> Witness {
        let client = self.cluster.client().await.unwrap();
        let prefix = format!("witness-{}", self.runs);
        let namespaces = load::namespaces(&client, &prefix, 3).await.unwrap();
        let options = WitnessOptions {
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

/// Ends the server in order, so that its database is one file.
async fn stop(server: Process) {
    server.signal(Signal::Term).unwrap();
    server.wait().await.unwrap();
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

/// A CA and a leaf for the Service.
fn certificates(folder: &Path) {
    let ca_key = rcgen::KeyPair::generate().unwrap();
    let mut ca = rcgen::CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    let names = vec![format!("{NAMESPACE}.{NAMESPACE}.svc")];
    let leaf = rcgen::CertificateParams::new(names).unwrap();
    let issuer = rcgen::Issuer::from_params(&ca, &ca_key);
    let write = |name: &str, text: String| {
        let path: PathBuf = folder.join(name);
        std::fs::write(path, text).unwrap();
    };
    write("tls.crt", leaf.signed_by(&key, &issuer).unwrap().pem());
    write("tls.key", key.serialize_pem());
    write("ca.crt", ca.self_signed(&ca_key).unwrap().pem());
}

fn drawn(all: &[&'static str], count: usize) -> Vec<&'static str> {
    let mut points = all.to_vec();
    if std::env::var_os("E2E_FULL").is_none() {
        points.shuffle(&mut rand::rng());
        points.truncate(count);
    }
    println!("points: {points:?}");
    points
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_dies_after_any_step_loses_nothing() {
    let mut bench = Bench::start(&GROUPS).await;
    let server = bench.serve();
    bench.register().await;

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
async fn a_deletion_that_the_server_lost_comes_back_at_the_version_etcd_gave_it() {
    let mut bench = Bench::start(&GROUPS[..1]).await;
    let mut server = bench.serve();
    bench.register().await;
    assert!(!bench.migrate_once(Some("Verify"), &["--keep"]).await);
    let (database, older) = (bench.file("reports.db"), bench.file("older.db"));
    stop(server).await;
    std::fs::copy(&database, &older).unwrap();
    server = bench.serve();

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
    stop(server).await;
    std::fs::copy(&older, &database).unwrap();
    let _server = bench.serve();
    assert!(bench.migrate_once(points, &["--keep"]).await);
    assert_eq!(events(&reports, &from, last).await, seen);
}
