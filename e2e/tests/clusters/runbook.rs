//! Every command of docs/runbook.md, as it stands there, on a control plane with two kube-apiservers:
//! the operator's migration is a process that has ended or died, so a person goes on.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::common::bash;
use crds::names::FINALIZER;
use e2e::page::{Block, Page};
use e2e::processes::{LIMIT, Processes, SERVICE, stop};
use e2e::takeover::GROUPS;
use e2e::witness::State;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use serde_json::{Value, json};
use testreports::ReportKind;

const RUNBOOK: Page = Page {
    name: "docs/runbook.md",
    text: include_str!("../../../docs/runbook.md"),
};
const INSTALL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../manifests/install.yaml");
const REPORTS: usize = 60;
const NAMESPACE: &str = "team-00";
const API_SERVICE: &str = "v1alpha2.wgpolicyk8s.io";
const STORED: &str = "/apis/control.reports-server.io/v1alpha1/storedresources";
/// Longest time of one block of commands.
const BLOCK_LIMIT: Duration = Duration::from_mins(2);
/// The name of the `ReportsServer` in the runbook.
const NAME: &str = "NAME";

/// Every block of the runbook, in order; the first sets variables.
fn blocks() -> Vec<Block> {
    let mut blocks = RUNBOOK.blocks();
    blocks.retain(|block| block.language == "bash");
    blocks
}

/// The blocks under a heading.
fn under(heading: &str) -> Vec<String> {
    let found = RUNBOOK.under(heading, "bash");
    assert!(!found.is_empty(), "no commands under '{heading}'");
    found.iter().map(Block::text).collect()
}

/// The variables that a person sets first; they stand above the first heading.
fn variables() -> String {
    blocks()[0].text()
}

/// Somebody with a shell in a folder of their own.
struct Person<'a> {
    processes: &'a Processes,
    client: Client,
    folder: tempfile::TempDir,
}

impl<'a> Person<'a> {
    async fn new(processes: &'a Processes) -> Self {
        Self {
            processes,
            client: processes.cluster.client().await.unwrap(),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// Runs commands after the variables; gives what they printed.
    async fn runs(&self, commands: &str) -> String {
        let commands = commands.replace(NAME, "prod");
        let script = format!("set -euo pipefail\n{}\n{commands}\n", variables());
        let (cluster, folder) = (&self.processes.cluster, self.folder.path());
        bash(cluster, folder, (&commands, &script), BLOCK_LIMIT).await
    }

    /// Runs every block under a heading.
    async fn follows(&self, heading: &str) -> String {
        let mut said = String::new();
        for commands in under(heading) {
            said.push_str(&self.runs(&commands).await);
        }
        said
    }

    /// Moves the group, or dies at the fault point; whether it has come to its end.
    async fn migrates(&self, name: &str, fault: Option<&str>, more: &[&str]) -> bool {
        let notes = ["delete", "configmap", "reports-server-operator-notes"];
        let notes = notes.iter().chain(&["--ignore-not-found"]);
        self.processes.cluster.kubectl(notes).await.unwrap();
        let migration = self.processes.migrate(name, fault, more).unwrap();
        let ended = migration.ended(LIMIT).await.unwrap();
        assert_eq!(ended.done, fault.is_none(), "{name}: {}", ended.log);
        ended.done
    }

    /// Creates a report, changes one, deletes one.
    async fn writes(&self, name: &str) {
        let kubectl = async |args: &[&str]| {
            let said = self.processes.cluster.kubectl(args).await;
            said.unwrap_or_else(|error| panic!("{args:?}: {error}"))
        };
        let list = kubectl(&["get", "polr", "-n", NAMESPACE, "-o", "name"]).await;
        let mut there = list.lines();
        let (changed, deleted) = (there.next().unwrap(), there.next().unwrap());
        let label = format!("changed={name}");
        kubectl(&["label", "--overwrite", "-n", NAMESPACE, changed, &label]).await;
        kubectl(&["delete", "-n", NAMESPACE, deleted]).await;
        let report = json!({"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport",
            "metadata": {"namespace": NAMESPACE, "name": name},
            "summary": {"pass": 1}})
        .to_string();
        let cluster = &self.processes.cluster;
        let created = cluster
            .kubectl_with_input(["create", "-f", "-"], &report)
            .await;
        created.unwrap();
    }

    /// Everything that clients see, without what an object in etcd gets anew.
    async fn contents(&self) -> BTreeMap<(ReportKind, (String, String)), String> {
        let state = State::read(&self.client).await.unwrap();
        let objects = state.0.into_iter();
        objects.map(|(key, object)| (key, object.content)).collect()
    }

    /// The states of the group's gates.
    async fn gates(&self) -> Vec<String> {
        let request = http::Request::get(STORED).body(Vec::new()).unwrap();
        let list: Value = self.client.request(request).await.unwrap();
        let items = list["items"].as_array().unwrap().iter();
        items
            .map(|one| one["status"]["gate"].as_str().unwrap().to_owned())
            .collect()
    }

    async fn is_served_by(&self, ours: bool) {
        let services: Api<APIService> = Api::all(self.client.clone());
        let reached = await_condition(services, API_SERVICE, |found: Option<&APIService>| {
            let spec = found.and_then(|service| service.spec.as_ref());
            spec.is_some_and(|spec| spec.service.is_some() == ours)
        });
        tokio::time::timeout(LIMIT, reached).await.unwrap().unwrap();
    }

    /// The group is with its CRDs, and has what it had.
    async fn has_given_back(&self, before: &BTreeMap<(ReportKind, (String, String)), String>) {
        self.is_served_by(false).await;
        assert_eq!(self.gates().await, ["Closed", "Closed"]);
        assert_eq!(&self.contents().await, before);
    }
}

async fn start() -> Processes {
    let processes = Processes::start(&GROUPS[..1], REPORTS, false)
        .await
        .unwrap();
    // Objects alone: there is no node.
    let apply = ["apply", "--server-side", "-f", INSTALL];
    processes.cluster.kubectl(apply).await.unwrap();
    processes
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_given_back_by_hand() {
    let processes = start().await;
    let _server = processes.serve().unwrap();
    processes.register().await.unwrap();
    let person = Person::new(&processes).await;
    person.migrates("there", None, &[]).await;
    person.writes("since").await;
    let before = person.contents().await;

    let look = person.follows("Look first").await;
    assert!(
        look.contains(r#"["policyreports.wgpolicyk8s.io","Open",true,"#),
        "{look}"
    );
    person.follows("Stop the operator").await;
    person.follows("2. A way to etcd").await;
    person.follows("3. Writes wait").await;
    assert_eq!(person.gates().await, ["Held", "Held"]);
    let compared = person.follows("4. Everything goes to etcd").await;
    for line in compared.lines().filter(|line| line.contains("only in")) {
        assert!(line.contains("only in the server 0,"), "{line}");
    }
    person.follows("5. The CRDs take over").await;
    person.has_given_back(&before).await;
    person.follows("The additional version is left").await;
    let services = person.runs("kubectl get apiservices").await;
    assert!(!services.contains("legacy"), "{services}");
    assert_eq!(person.contents().await, before);

    // Given up in between, everything is as before; and what was not pruned is deleted by hand.
    person.migrates("again", None, &["--keep"]).await;
    person.follows("2. A way to etcd").await;
    person.follows("3. Writes wait").await;
    person.runs(r#"gate '{"state": "Open"}'"#).await;
    person.writes("once-more").await;
    let before = person.contents().await;
    person.follows("3. Writes wait").await;
    person.follows("4. Everything goes to etcd").await;
    person.follows("5. The CRDs take over").await;
    person.has_given_back(&before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_nobody_opens_is_opened_by_hand() {
    let processes = start().await;
    let _server = processes.serve().unwrap();
    processes.register().await.unwrap();
    let person = Person::new(&processes).await;

    // A switch that was broken off: nothing has been written to the server.
    let before = person.contents().await;
    person
        .migrates("there", Some("SwitchPatch"), &["--keep"])
        .await;
    let look = person.follows("Look first").await;
    assert!(look.contains(r#""Held",false"#), "{look}");
    person.follows("5. The CRDs take over").await;
    person.has_given_back(&before).await;

    // A way back that was broken off by a person.
    person.migrates("again", None, &["--keep"]).await;
    person.follows("3. Writes wait").await;
    let look = person.follows("Look first").await;
    assert!(look.contains(r#""Held",true"#), "{look}");
    person.runs(r#"gate '{"state": "Open"}'"#).await;
    person.writes("opened").await;
    let before = person.contents().await;

    // One that was broken off after etcd had everything.
    person
        .migrates("released", Some("BackHold"), &["--back"])
        .await;
    let look = person.follows("Look first").await;
    assert!(look.contains("\"Held\",true,true"), "{look}");
    person.follows("5. The CRDs take over").await;
    person.has_given_back(&before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_crds_serve_while_the_server_is_gone_and_both_sides_are_merged() {
    let processes = start().await;
    let server = processes.serve().unwrap();
    processes.register().await.unwrap();
    let person = Person::new(&processes).await;
    person.migrates("there", None, &["--keep"]).await;
    person.writes("at-the-server").await;
    deployment(&processes).await;

    stop(server).await.unwrap();
    person
        .follows("The server is gone, its database is not")
        .await;
    person.is_served_by(false).await;
    person.writes("at-the-crd").await;
    let _server = processes.serve().unwrap();
    person.migrates("merged", None, &["--keep"]).await;
    person.is_served_by(true).await;
    let names: Vec<_> = person
        .contents()
        .await
        .into_keys()
        .map(|(_, key)| key.1)
        .collect();
    for name in ["at-the-server", "at-the-crd"] {
        assert!(
            names.iter().any(|there| there == name),
            "no {name} in {names:?}"
        );
    }
}

/// A Deployment of the server, as the operator makes it; nothing runs it here.
async fn deployment(processes: &Processes) {
    let labels = json!({"app": "server"});
    let container = json!({"name": "server", "image": "server"});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "prod-server", "namespace": SERVICE},
        "spec": {"selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [container]}}}});
    let create = ["create", "-f", "-"];
    let text = deployment.to_string();
    processes
        .cluster
        .kubectl_with_input(create, &text)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reports_server_whose_database_is_gone_is_let_go() {
    let processes = start().await;
    let _server = processes.serve().unwrap();
    processes.register().await.unwrap();
    let person = Person::new(&processes).await;
    person.migrates("there", None, &[]).await;
    // The operator would take its finalizer off; tests of its own say when.
    let server = json!({"apiVersion": "reports-server.io/v1alpha1", "kind": "ReportsServer",
        "metadata": {"name": "prod", "finalizers": [FINALIZER]},
        "spec": {"targetNamespace": SERVICE, "apis": [{"group": GROUPS[0], "owner": "Server"}]}});
    let create = ["create", "-f", "-"];
    let text = server.to_string();
    processes
        .cluster
        .kubectl_with_input(create, &text)
        .await
        .unwrap();
    person.follows("The database is gone").await;
    person.is_served_by(false).await;
    let shown = person.runs("kubectl get reportsserver NAME -o json").await;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let annotations = &shown["metadata"]["annotations"];
    assert_eq!(annotations["reports-server.io/abandon-apis"], "prod");
    assert!(shown["metadata"]["deletionTimestamp"].is_string());
}

#[test]
fn every_block_of_the_runbook_is_run() {
    let here = include_str!("runbook.rs");
    assert!(Path::new(INSTALL).exists());
    let blocks = blocks();
    assert!(blocks.len() >= 10, "{blocks:?}");
    for Block { heading, .. } in &blocks[1..] {
        let followed = format!("follows(\"{heading}\")");
        assert!(here.contains(&followed), "nobody runs '{heading}'");
    }
}
