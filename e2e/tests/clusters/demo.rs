//! The demo on a cluster that somebody has, which is another one of the tests here: it refuses what
//! it must not touch, no client notices anything, and nothing of it is left, also after an error.

use std::collections::BTreeSet;
use std::fs;
use std::future::pending;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::common::{NEVER, options, say};
use e2e::demo::{self, DemoOptions, Loader};
use e2e::takeover::{Database, GROUPS, TARGET_NAMESPACE, load};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use serde_json::json;
use testcluster::Cluster;
use testreports::Input;
use tokio::time::sleep;

const REPORTS: usize = 200;
/// Seed of the clients on the way back.
const SEED: u64 = 1;
/// The CRD that is there before the demo.
const KEPT: &str = "clusterpolicyreports.wgpolicyk8s.io";
/// Kinds of objects that come and go by themselves.
const PASSING: [&str; 2] = ["events", "events.events.k8s.io"];
/// Longest time until the objects of a cluster stay as they are.
const SETTLE_LIMIT: Duration = Duration::from_mins(2);
const PAUSE: Duration = Duration::from_secs(2);
/// Time until somebody interrupts the demo, which loads its reports then.
const SOON: Duration = Duration::from_secs(3);

/// Returns the kinds, namespaces and names of all objects; none while discovery changes.
async fn objects(cluster: &Cluster) -> Option<BTreeSet<String>> {
    let kinds = ["api-resources", "--verbs=list", "--output=name"];
    let kinds = cluster.kubectl(kinds).await.ok()?;
    let kinds: Vec<_> = kinds
        .lines()
        .filter(|kind| !PASSING.contains(kind))
        .collect();
    let kinds = kinds.join(",");
    let columns = "custom-columns=A:.kind,B:.metadata.namespace,C:.metadata.name";
    let get = ["get", &kinds, "-A", "--no-headers", "--output", columns];
    let found = cluster.kubectl(get).await.ok()?;
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(found.lines().map(words).collect())
}

/// Waits until the objects are the wanted ones, or without any, until they do not change.
async fn settled(cluster: &Cluster, wanted: Option<&BTreeSet<String>>) -> BTreeSet<String> {
    let deadline = Instant::now() + SETTLE_LIMIT;
    let mut last: Option<BTreeSet<String>> = None;
    loop {
        let found = objects(cluster).await;
        match (found, wanted) {
            (Some(found), Some(wanted)) if found == *wanted => return found,
            (Some(found), None) if last.as_ref() == Some(&found) => return found,
            (found, _) => last = found,
        }
        let (last, wanted) = (last.clone().unwrap_or_default(), wanted.cloned());
        let wanted = wanted.unwrap_or_default();
        let differ: Vec<_> = last.symmetric_difference(&wanted).collect();
        assert!(Instant::now() < deadline, "not settled: {differ:#?}");
        sleep(PAUSE).await;
    }
}

/// Returns kubectl, as the cluster's own commands find it.
async fn kubectl(cluster: &Cluster) -> PathBuf {
    let mut find = cluster.command("sh");
    let found = find.args(["-c", "command -v kubectl"]).output().await;
    let path = String::from_utf8(found.unwrap().stdout).unwrap();
    PathBuf::from(path.trim())
}

async fn kept(cluster: &Cluster) -> CustomResourceDefinition {
    let crds: Api<CustomResourceDefinition> = Api::all(cluster.client().await.unwrap());
    crds.get(KEPT).await.unwrap()
}

/// Makes sure that the demo refuses the cluster with words like these.
async fn refused(options: &DemoOptions, words: &str) {
    let error = demo::check(options).await.unwrap_err();
    let said = error.to_string();
    assert!(said.contains(words), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

/// Makes sure that what is somebody's own keeps the demo away.
async fn what_is_there_is_not_touched(cluster: &Cluster, options: &DemoOptions) {
    let report = json!({"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "ClusterPolicyReport",
        "metadata": {"name": "theirs"}});
    let (apply, report) = (["apply", "-f", "-"], report.to_string());
    let applied = cluster.kubectl_with_input(apply, &report).await;
    applied.unwrap();
    refused(options, KEPT).await;
    let delete = ["delete", "clusterpolicyreport", "theirs"];
    cluster.kubectl(delete).await.unwrap();

    let namespace = ["create", "namespace", TARGET_NAMESPACE];
    cluster.kubectl(namespace).await.unwrap();
    refused(options, "has one already").await;
    let namespace = ["delete", "namespace", TARGET_NAMESPACE];
    cluster.kubectl(namespace).await.unwrap();

    let elsewhere = DemoOptions {
        loader: Loader::Kind,
        ..options.clone()
    };
    let error = demo::check(&elsewhere).await.unwrap_err();
    assert!(error.to_string().contains("kind"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn demo_on_an_existing_cluster() {
    let line = options(Input::Generated { seed: 4 }, REPORTS);
    let cluster = Cluster::start(line.cluster.clone()).await.unwrap();
    for archive in line.archives() {
        cluster.load_image(&archive).await.unwrap();
    }
    let mut crds = line.input.crds(&GROUPS).unwrap();
    crds.retain(|crd| crd.metadata.name.as_deref() == Some(KEPT));
    assert_eq!(crds.len(), 1);
    let client = cluster.client().await.unwrap();
    load::install_crds(&client, crds).await.unwrap();
    let options = DemoOptions {
        kubeconfig: cluster.host_kubeconfig(0).unwrap(),
        kubectl: kubectl(&cluster).await,
        loader: Loader::Nothing,
        round_trip: Some(SEED),
        line,
    };
    what_is_there_is_not_touched(&cluster, &options).await;
    let before = settled(&cluster, None).await;
    let versions = kept(&cluster).await.spec.versions;
    demo::check(&options).await.unwrap();

    // The image of its database was never built.
    let mut broken = options.clone();
    broken.line.database = Database::Managed;
    broken.line.images = PathBuf::from("/nowhere");
    let run = Box::pin(demo::run(&broken, say, pending()));
    let error = run.await.unwrap_err().to_string();
    assert!(error.contains("is missing"), "{error}");
    assert_eq!(settled(&cluster, None).await, before);
    let run = Box::pin(demo::run(&options, say, sleep(SOON)));
    assert_eq!(run.await.unwrap_err().to_string(), "interrupted");
    settled(&cluster, Some(&before)).await;
    // Its manifests have a name that Kubernetes refuses, which shows when the reports are loaded.
    let manifests = tempfile::tempdir().unwrap();
    let install = manifests.path().join("install.yaml");
    let text = fs::read_to_string(options.line.manifests.join("install.yaml")).unwrap();
    let refused =
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: Refused, namespace: default}}";
    fs::write(&install, format!("{text}---\n{refused}\n")).unwrap();
    let mut broken = options.clone();
    broken.line.manifests = manifests.path().to_owned();
    let run = Box::pin(demo::run(&broken, say, pending()));
    let error = run.await.unwrap_err().to_string();
    assert!(error.contains("Refused"), "{error}");
    settled(&cluster, Some(&before)).await;

    let outcome = Box::pin(demo::run(&options, say, pending())).await.unwrap();
    println!("{outcome}");
    assert!(outcome.account.is_clean(), "{outcome}");
    assert_eq!(outcome.left, None);
    assert_eq!(outcome.before.reports, REPORTS as u64);
    assert!(outcome.account.writes > 0, "{outcome}");
    let back = outcome.back.unwrap();
    assert!(back.compared >= REPORTS, "{back}");
    assert_eq!((back.lost, back.changed), (0, 0), "{back}");
    for flaw in NEVER {
        assert_eq!(back.chaos.flaw(flaw), 0, "{flaw:?}: {back}");
    }
    settled(&cluster, Some(&before)).await;
    assert_eq!(kept(&cluster).await.spec.versions, versions);
}

/// Runs the script with a stand-in for kubectl, and no other programs than those of the system.
fn script(folder: &Path, kubectl: &str, arguments: &[&str]) -> Output {
    let program = folder.join("kubectl");
    fs::write(&program, format!("#!/bin/sh\n{kubectl}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../hack/demo"))
        .args(arguments)
        .env("PATH", format!("{}:/usr/bin:/bin", folder.display()))
        .output()
        .unwrap()
}

#[test]
fn bad_arguments_are_refused_in_one_sentence_before_anything_is_built() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    fs::write(&file, "{}").unwrap();
    let file = file.to_str().unwrap();
    let works = "exit 0";
    let silent = "exit 1";
    let no_rights = "case \"$*\" in *can-i*) exit 1 ;; esac";
    let cases: [(&str, &[&str], &str); 8] = [
        (works, &["--kubeconfig"], "needs a file"),
        (works, &["--kubeconfig", "/no/file"], "no file /no/file"),
        (
            works,
            &["--kubeconfig", file, "--image-loader", "docker"],
            "unknown image loader 'docker'",
        ),
        (
            works,
            &["--image-loader=k3d", "--kubeconfig", file],
            "needs the program k3d",
        ),
        (works, &["--kubeconfig", file, "--keep"], "--keep"),
        (works, &["--image-loader", "kind"], "--kubeconfig"),
        (silent, &["--kubeconfig", file], "does not answer"),
        (no_rights, &["--kubeconfig", file], "may not do everything"),
    ];
    for (kubectl, arguments, words) in cases {
        let refused = script(folder.path(), kubectl, arguments);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success(), "{arguments:?}");
        assert!(said.contains(words), "{arguments:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
    }
}
