//! Argo CD and Flux own the operator, the CRDs of the reports and the `ReportsServer`, with self-heal
//! and prune: the groups go to the server and back while the tool applies all of it again at each
//! step. Nothing is lost, and nobody writes in a loop.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crds::names::SIDE_DOOR;
use crds::v1alpha1::ReportsServer;
use crds::v1alpha1::status::MigrationPhase;
use e2e::chaos::{ChaosOptions, Direction, Harness};
use e2e::matrix::gitops::{Again, Tool, Tree, Writes};
use e2e::takeover::{GROUPS, NAME, Takeover, all_groups, is_ready};
use e2e::witness::State;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::runtime::wait::await_condition;
use kube::runtime::wait::conditions::is_deleted;
use serde_json::json;
use testcluster::Process;
use testreports::Input;
use tokio::time::Instant;

use crate::common::{NEVER, full, options, say};

const REPORTS: usize = 200;
/// Longest time without progress of a migration.
const LIMIT: Duration = Duration::from_mins(10);
/// Longest time of a tool to heal a CRD.
const SOON: Duration = Duration::from_mins(3);
/// Time over which nobody may write, and time between two orders to the tool in it.
const QUIET: Duration = Duration::from_secs(30);
const ORDERED_EVERY: Duration = Duration::from_secs(5);
/// Most changes of a CRD's specification in one direction. The steps need four on the way to the
/// server, and one for each attempt of the way back.
const MOST_CHANGES: i64 = 10;

/// Returns the folder that a variable names, which `hack/test --full` sets.
fn parts(variable: &str) -> Option<PathBuf> {
    let parts = std::env::var_os(variable).map(PathBuf::from);
    if parts.is_none() || !full() {
        println!("left out: only with E2E_FULL=1, and where {variable} is set");
        return None;
    }
    parts
}

#[tokio::test(flavor = "multi_thread")]
async fn argo_cd_owns_the_crds_and_the_reports_server() {
    if let Some(parts) = parts("REPORTS_SERVER_ARGOCD") {
        Box::pin(there_and_back(Tool::ArgoCd(parts))).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn flux_owns_the_crds_and_the_reports_server() {
    if let Some(parts) = parts("REPORTS_SERVER_FLUX") {
        Box::pin(there_and_back(Tool::Flux(parts))).await;
    }
}

async fn there_and_back(tool: Tool) {
    let ground = Box::pin(Ground::prepare(tool)).await;
    Box::pin(ground.there()).await;
    Box::pin(ground.back()).await;
    Box::pin(ground.heals()).await;
    Box::pin(ground.lets_go()).await;
}

/// A cluster on which a tool owns the operator and the CRDs of the reports.
struct Ground {
    /// The processes of the tool, which end before the cluster does.
    _beside: Vec<Process>,
    tool: Tool,
    tree: Tree,
    line: Takeover,
}

impl Ground {
    async fn prepare(tool: Tool) -> Self {
        let input = Input::detect();
        let crds = input.crds(&GROUPS).unwrap();
        let options = options(input, REPORTS);
        let manifests = options.manifests.clone();
        let line = Takeover::prepare(options, say).await.unwrap();
        let beside = tool.begin(&line.cluster).await.unwrap();
        let tree = Tree::make(&line.cluster, &manifests, &crds).await.unwrap();
        line.say("giving the tool the operator, and the CRDs of the reports");
        tool.own_operator(&line.cluster, &tree).await.unwrap();
        tool.own_crds(&line.cluster, &tree).await.unwrap();
        Self {
            _beside: beside,
            tool,
            tree,
            line,
        }
    }

    /// Goes to the server, unnoticed.
    async fn there(&self) {
        let (tool, line) = (&self.tool, &self.line);
        let before = self.writes().await;
        let witness = line.witness().await.unwrap();
        let again = Again::begin(tool, &line.client);
        line.say("giving the tool the ReportsServer");
        self.tree.serve_by("Server").unwrap();
        tool.own_server(&line.cluster, &self.tree).await.unwrap();
        tool.server_progresses(&line.cluster).await.unwrap();
        let completed = self.reaches(MigrationPhase::Completed);
        let ((), ()) = tokio::join!(completed, self.is_healthy_once_ready());
        let steps = again.end().await.unwrap();
        applied_at(&steps, &["Switching", "Soaking", SIDE_DOOR]);
        self.stays_quiet().await;
        let account = witness.finish().await.unwrap();
        assert!(account.is_clean(), "{account:#?}");
        self.changed_no_more_than_needed(&before, 1).await;
    }

    /// Goes back to the CRDs: no object is lost, and no write is missed.
    async fn back(&self) {
        let (tool, line) = (&self.tool, &self.line);
        let (before, reports) = (self.writes().await, self.reports().await);
        let options = ChaosOptions::default();
        let harness = Harness::start(&line.cluster, &options).await.unwrap();
        let tally = Arc::clone(&harness.tally);
        let again = Again::begin(tool, &line.client);
        line.say("having git say that the CRDs serve");
        harness.going(Direction::Back);
        self.tree.serve_by("CRD").unwrap();
        tool.own_server(&line.cluster, &self.tree).await.unwrap();
        let back = self.reaches(MigrationPhase::RolledBack);
        let ((), ()) = tokio::join!(back, self.is_healthy_once_ready());
        harness.going(Direction::Rest);
        let steps = again.end().await.unwrap();
        applied_at(&steps, &["RollingBack", SIDE_DOOR]);
        self.stays_quiet().await;
        harness.finish().await.unwrap();
        for flaw in NEVER {
            let examples = tally.examples();
            assert_eq!(tally.flaws(flaw), 0, "{flaw:?}: {examples:#?}");
        }
        let after = self.reports().await;
        for (key, report) in &reports.0 {
            let found = after.0.get(key).map(|found| &found.content);
            assert_eq!(found, Some(&report.content), "{key:?}");
        }
        self.changed_no_more_than_needed(&before, 2).await;
    }

    /// The tool owns the CRDs: what somebody else changes of them is healed, their versions alone are
    /// left to the operator. Without the lines for them, these are healed, too.
    async fn heals(&self) {
        let crds: Api<CustomResourceDefinition> = Api::all(self.line.client.clone());
        let listed = crds.list(&ListParams::default()).await.unwrap();
        let is_open = |crd: &CustomResourceDefinition| {
            GROUPS.contains(&crd.spec.group.as_str()) && !is_as_shipped(Some(crd))
        };
        let open = listed.into_iter().filter(is_open);
        let open: Vec<_> = open.map(|crd| crd.metadata.name.unwrap()).collect();
        let first = open.first().expect("the way back leaves the doors open");
        self.heals_a_label(&crds, first).await;
        self.tool.stop_ignoring(&self.line.cluster).await.unwrap();
        for name in &open {
            let healed = await_condition(crds.clone(), name, is_as_shipped);
            let healed = tokio::time::timeout(SOON, healed).await;
            healed.expect("the versions are healed").unwrap();
        }
    }

    /// The tool lets the `ReportsServer` go, which stays until somebody deletes it, and is not made
    /// again.
    async fn lets_go(&self) {
        let servers: Api<ReportsServer> = Api::all(self.line.client.clone());
        self.tool.let_server_go(&self.line.cluster).await.unwrap();
        let server = servers.get(NAME).await.unwrap();
        assert_eq!(server.metadata.deletion_timestamp, None);
        let deleted = servers.delete(NAME, &DeleteParams::default()).await;
        deleted.unwrap();
        let uid = server.metadata.uid.unwrap();
        let gone = await_condition(servers.clone(), NAME, is_deleted(&uid));
        let gone = tokio::time::timeout(SOON, gone).await;
        gone.expect("the ReportsServer is deleted").unwrap();
        self.tool.order(&self.line.client).await.unwrap();
        let is_there = |server: Option<&ReportsServer>| server.is_some();
        let again = await_condition(servers, NAME, is_there);
        let again = tokio::time::timeout(QUIET, again).await;
        assert!(again.is_err(), "the ReportsServer was made again");
    }

    async fn heals_a_label(&self, crds: &Api<CustomResourceDefinition>, name: &str) {
        let (label, value) = Tree::LABEL;
        let patch = Patch::Merge(json!({"metadata": {"labels": {label: "changed"}}}));
        let changed = crds.patch(name, &PatchParams::default(), &patch).await;
        let generation = changed.unwrap().metadata.generation;
        self.tool.order(&self.line.client).await.unwrap();
        let is_healed = |crd: &CustomResourceDefinition| {
            let labels = crd.metadata.labels.as_ref();
            labels.is_some_and(|labels| labels.get(label).is_some_and(|found| found == value))
        };
        let healed = await_condition(
            crds.clone(),
            name,
            |crd: Option<&CustomResourceDefinition>| crd.is_some_and(is_healed),
        );
        let healed = tokio::time::timeout(SOON, healed).await;
        let healed = healed.expect("the label is healed").unwrap().unwrap();
        assert_eq!(healed.metadata.generation, generation);
        assert!(!is_as_shipped(Some(&healed)));
    }

    async fn writes(&self) -> Writes {
        Writes::read(&self.line.client).await.unwrap()
    }

    async fn reports(&self) -> State {
        State::read(&self.line.client).await.unwrap()
    }

    /// Waits until every group is in a phase.
    async fn reaches(&self, wanted: MigrationPhase) {
        let reached = self.line.follow(wanted.as_str(), LIMIT, |server| {
            is_ready(server) && all_groups(server, |phase| phase == wanted)
        });
        reached.await.unwrap();
    }

    /// Waits until the tool says that the `ReportsServer` is ready, which it is then.
    async fn is_healthy_once_ready(&self) {
        let line = &self.line;
        self.tool.server_is_healthy(&line.cluster).await.unwrap();
        let servers: Api<ReportsServer> = Api::all(line.client.clone());
        let server = servers.get(NAME).await.unwrap();
        assert!(is_ready(&server), "{:#?}", server.status);
    }

    /// Makes sure that nobody writes a CRD, an APIService or the `ReportsServer`, although the tool
    /// is told to apply everything again and again.
    async fn stays_quiet(&self) {
        let client = &self.line.client;
        self.line
            .say("watching for writes while nothing is to be done");
        self.tool.apply_again(client).await.unwrap();
        let before = self.writes().await;
        let begun = Instant::now();
        while begun.elapsed() < QUIET {
            tokio::time::sleep(ORDERED_EVERY).await;
            self.tool.order(client).await.unwrap();
        }
        self.tool.apply_again(client).await.unwrap();
        assert_eq!(self.writes().await, before);
    }

    /// Makes sure that the tool has not written a CRD since, nor any APIService, that the operator has
    /// changed the CRDs no more often than its steps need, and that the specification of the
    /// `ReportsServer` is the one that came from git at that `generation`.
    async fn changed_no_more_than_needed(&self, before: &Writes, generation: i64) {
        let (now, tool) = (self.writes().await, self.tool.manager());
        let mut crds = 0;
        for ((name, was), (_, is)) in before.crds().zip(now.crds()) {
            let last = was.managers.get(tool);
            assert!(last.is_some(), "{tool} owns {name}: {was:?}");
            assert_eq!(is.managers.get(tool), last, "{name}");
            let changes = is.generation - was.generation;
            println!("{name}: {changes} changes");
            assert!(changes <= MOST_CHANGES, "{name}: {changes}");
            crds += 1;
        }
        assert_eq!(crds, now.crds().count());
        for (name, service) in now.api_services() {
            assert!(!service.managers.contains_key(tool), "{name}: {service:?}");
        }
        let server = now.server().map(|server| server.generation);
        assert_eq!(server, Some(generation));
    }
}

/// Makes sure that the tool was told to apply everything at these steps, and did.
fn applied_at(steps: &[String], wanted: &[&str]) {
    println!("everything was applied again at:");
    for step in steps {
        println!("  {step}");
    }
    for wanted in wanted {
        assert!(steps.iter().any(|step| step.contains(wanted)), "{wanted}");
    }
}

/// Returns whether a CRD has no door.
fn is_as_shipped(crd: Option<&CustomResourceDefinition>) -> bool {
    crd.is_some_and(|crd| {
        crd.spec
            .versions
            .iter()
            .all(|version| version.name != SIDE_DOOR)
    })
}
