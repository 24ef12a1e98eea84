//! PostgreSQL that the operator runs is brought to another major version while clients write and
//! watch.

use std::fs;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use crate::common::faults::{self, kubectl, pods, under_load, under_load_within};
use crate::common::{full, options, say};
use crds::v1alpha1::ReportsServer;
use e2e::takeover::{self, Database, NAME, Takeover, is_ready};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use testreports::Input;
use tokio::time::Instant;

const LIMIT: Duration = Duration::from_mins(5);
/// The time for one write, and the pause between two, of the one that looks for writes that are not
/// taken.
const PATIENCE: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(50);
/// The operator's own namespace.
const OPERATOR: [&str; 2] = ["-n", takeover::OPERATOR_NAMESPACE];
/// The label that an upgrade's Jobs and pods have in common.
const UPGRADE: &str = "app.kubernetes.io/component=upgrade";

/// The tag of the newer version, whose image the node has afterwards.
async fn newer(line: &Takeover, images: PathBuf) -> String {
    let image = images.join("image-postgres-next");
    line.cluster
        .load_image(&image.with_extension("tar"))
        .await
        .unwrap();
    let name = fs::read_to_string(image.with_extension("name")).unwrap();
    let (_, tag) = name.trim().rsplit_once(':').unwrap();
    tag.to_owned()
}

async fn read(line: &Takeover) -> Value {
    let servers: Api<ReportsServer> = Api::all(line.client.clone());
    serde_json::to_value(servers.get(NAME).await.unwrap()).unwrap()
}

async fn ask_for(line: &Takeover, tag: &str) {
    let servers: Api<ReportsServer> = Api::all(line.client.clone());
    let patch = json!({"spec": {"images": {"postgres": {"tag": tag}}}});
    servers
        .patch(NAME, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
}

fn condition<'a>(server: &'a ReportsServer, type_: &str) -> Option<&'a Condition> {
    let status = server.status.as_ref()?;
    status
        .conditions
        .iter()
        .find(|condition| condition.type_ == type_)
}

/// Follows until `DatabaseUpgraded` has this reason, for the specification as it is now, and these
/// words.
async fn told(line: &Takeover, reason: &str, words: &str) {
    let what = format!("{reason} ({words})");
    line.follow(&what, LIMIT, |server| {
        let condition = condition(server, "DatabaseUpgraded");
        condition.is_some_and(|condition| {
            condition.observed_generation == server.metadata.generation
                && condition.reason == reason
                && condition.message.contains(words)
        })
    })
    .await
    .unwrap();
}

/// An image that the node cannot have: the check waits for it, and the database serves.
async fn a_wrong_image_stops_nothing(line: &Takeover) {
    let asked = Box::pin(async {
        ask_for(line, "17.0-nowhere").await;
        told(line, "UpgradeChecking", "17.0-nowhere").await;
    });
    let account = under_load(line, "an image that there is not", asked).await;
    assert!(account.is_clean(), "{account:#?}");
}

async fn sql(line: &Takeover, statement: &str) {
    let pod = pods(line, "postgres").await.remove(0);
    let psql = [
        "exec", &pod, "-c", "postgres", "--", "psql", "-U", "postgres", "-d", "reports",
    ];
    let statement = ["-c", statement];
    kubectl(line, &[&psql[..], &statement[..]].concat()).await;
}

/// A copy that cannot be restored ends the upgrade, and the database serves as before.
async fn a_copy_that_fails_is_given_up(line: &Takeover, tag: &str) {
    // Version 17 does not have it any more.
    sql(line, "CREATE EXTENSION old_snapshot").await;
    let asked = Box::pin(async {
        ask_for(line, tag).await;
        told(line, "UpgradeFailed", "old_snapshot").await;
        line.follow("the old database", LIMIT, is_ready)
            .await
            .unwrap();
    });
    let account = under_load_within(LIMIT, line, "an upgrade that fails", asked).await;
    assert!(account.nothing_lost(), "{account:#?}");
    sql(line, "DROP EXTENSION old_snapshot").await;
}

/// Somebody takes the new version back in the middle of the copy: the old database serves again,
/// and nothing of the copy is left that could be taken for one of a later state.
async fn a_change_of_mind_stops_it(line: &Takeover, old: &str, tag: &str) {
    let minds = Box::pin(async {
        try_again(line, tag).await;
        told(line, "DatabaseUpgrading", "copies").await;
        ask_for(line, old).await;
        line.follow("the old database", LIMIT, |server| {
            is_ready(server) && condition(server, "DatabaseUpgraded").is_none()
        })
        .await
        .unwrap();
    });
    let account = under_load_within(LIMIT, line, "a change of mind", minds).await;
    assert!(account.nothing_lost(), "{account:#?}");
    let jobs = kubectl(line, &["get", "jobs", "-l", UPGRADE, "-o", "name"]).await;
    assert_eq!(jobs, "");
    let server = read(line).await;
    let claim = &server["status"]["database"]["volumeClaim"];
    assert_eq!(*claim, format!("{NAME}-postgres-data"));
}

/// Asks for the new version, and for another try where one has failed.
async fn try_again(line: &Takeover, tag: &str) {
    ask_for(line, tag).await;
    kubectl(line, &["delete", "jobs", "-l", UPGRADE]).await;
}

/// Starts the upgrade and follows it to its end.
async fn upgrade(line: &Takeover, tag: &str) {
    ask_for(line, tag).await;
    if full() {
        everybody_is_lost(line).await;
    }
    told(line, "Upgraded", "from 15 to 17").await;
    line.follow("a settled end", LIMIT, is_ready).await.unwrap();
}

async fn note(line: &Takeover, claim: &str, key: &str) -> String {
    let path = format!("jsonpath={{.metadata.annotations.reports-server\\.io/{key}}}");
    kubectl(line, &["get", "pvc", claim, "-o", &path]).await
}

/// A user finds the upgrade in the status, on the volumes and in the events afterwards.
async fn reads_well(line: &Takeover) {
    let server = read(line).await;
    let status = &server["status"];
    let version = status["versions"]["postgres"].as_str().unwrap();
    assert!(version.starts_with("17."), "{version}");
    let (old, new) = (
        format!("{NAME}-postgres-data"),
        format!("{NAME}-postgres-data-17"),
    );
    assert_eq!(status["database"]["volumeClaim"], new.as_str(), "{status}");
    assert_eq!(note(line, &old, "postgres-version").await, "15");
    let retired = note(line, &old, "retired").await;
    assert!(
        retired.starts_with(&format!("upgraded to {new} at ")),
        "{retired}"
    );
    assert_eq!(note(line, &new, "upgrade").await, "15");
    let events = kubectl(
        line,
        &["get", "events", "-A", "-o", "custom-columns=:.reason"],
    )
    .await;
    assert!(events.contains("Upgraded"), "{events}");
}

/// Servers that start on the new database know that it is not an older copy of the old one: no
/// client has to list again.
async fn all_servers_start_anew(line: &Takeover) {
    let servers = faults::servers(line).await;
    let account = under_load(line, "all servers are deleted", async {
        delete_servers(line).await;
        faults::rolled_out(line, &servers).await;
    })
    .await;
    assert!(account.nothing_lost(), "{account:#?}");
}

async fn delete_servers(line: &Takeover) {
    let pods = ["delete", "pods", "-l", "app.kubernetes.io/component=server"];
    kubectl(line, &pods).await;
}

/// In the middle of the copy: the operator, and all servers, so that none that knew the old
/// database meets the new one.
async fn everybody_is_lost(line: &Takeover) {
    told(line, "DatabaseUpgrading", "copies").await;
    let operator = ["delete", "pods", "--all", "--force", "--grace-period=0"];
    let args = OPERATOR.iter().chain(&operator);
    line.cluster.kubectl(args).await.unwrap();
    delete_servers(line).await;
}

async fn there_is_no_way_back_in_place(line: &Takeover, old: &str) {
    ask_for(line, old).await;
    line.follow("the refusal", LIMIT, |server| {
        condition(server, "Stalled").is_some_and(|stalled| stalled.reason == "NotSupported")
    })
    .await
    .unwrap();
    let account = under_load(line, "an older version is asked for", async {}).await;
    assert!(account.is_clean(), "{account:#?}");
}

/// Returns a cluster whose reports are in a database of the older version, and the tag of the newer.
async fn served(reports: usize) -> (Takeover, String) {
    let mut options = options(Input::Generated { seed: 11 }, reports);
    options.database = Database::Managed;
    let images = options.images.clone();
    let line = Takeover::prepare(options, say).await.unwrap();
    let tag = newer(&line, images).await;
    line.install_operator().await.unwrap();
    line.apply().await.unwrap();
    line.follow_to_ready(LIMIT).await.unwrap();
    (line, tag)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_managed_database_is_brought_to_another_major_version() {
    let (line, tag) = Box::pin(served(300)).await;
    let server = read(&line).await;
    let old = server["spec"]["images"]["postgres"]["tag"]
        .as_str()
        .unwrap();
    assert!(old.starts_with("15."), "{old}");

    if full() {
        a_wrong_image_stops_nothing(&line).await;
        a_copy_that_fails_is_given_up(&line, &tag).await;
        a_change_of_mind_stops_it(&line, old, &tag).await;
    }
    let upgraded = Box::pin(upgrade(&line, &tag));
    let account = under_load_within(LIMIT, &line, "a major upgrade", upgraded).await;
    assert!(account.nothing_lost(), "{account:#?}");
    reads_well(&line).await;
    all_servers_start_anew(&line).await;
    if full() {
        there_is_no_way_back_in_place(&line, old).await;
    }
}

/// Patches a report again and again until one is taken after `done`; returns the longest time between
/// two patches that were taken.
async fn longest_without_writes(line: &Takeover, done: impl Future<Output = ()>) -> Duration {
    let kind = GroupVersionKind::gvk("wgpolicyk8s.io", "v1alpha2", "PolicyReport");
    let kind = ApiResource::from_gvk(&kind);
    let reports: Api<DynamicObject> = Api::all_with(line.client.clone(), &kind);
    let first = reports.list(&ListParams::default().limit(1)).await.unwrap();
    let first = first.items.into_iter().next().unwrap();
    let (namespace, name) = (first.namespace().unwrap(), first.name_any());
    let one: Api<DynamicObject> = Api::namespaced_with(line.client.clone(), &namespace, &kind);
    let mut done = pin!(done);
    let (mut ended, mut taken, mut longest) = (false, Instant::now(), Duration::ZERO);
    loop {
        let patch = json!({"metadata": {"annotations": {"at": format!("{:?}", taken.elapsed())}}});
        let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
        // A client that tries again waits longer each time.
        let answer = tokio::time::timeout(PATIENCE, one.patch(&name, &params, &patch)).await;
        if matches!(answer, Ok(Ok(_))) {
            longest = longest.max(taken.elapsed());
            taken = Instant::now();
            if ended {
                return longest;
            }
        }
        tokio::select! {
            () = &mut done, if !ended => ended = true,
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

/// Returns the longest time without writes while a database with so many reports is upgraded.
async fn upgraded_with(reports: usize) -> Duration {
    let (line, tag) = Box::pin(served(reports)).await;
    longest_without_writes(&line, async {
        ask_for(&line, &tag).await;
        told(&line, "Upgraded", "from 15 to 17").await;
        line.follow("a settled end", LIMIT, is_ready).await.unwrap();
    })
    .await
}

/// The time without writes while a database is upgraded, as docs/database.md has it: for any
/// database, and for each 1,000 reports.
const STANDING: Duration = Duration::from_secs(10);
const THOUSAND: Duration = Duration::from_millis(400);
/// The factor by which a machine with other work may be slower.
const SLOWER: u32 = 3;

#[tokio::test(flavor = "multi_thread")]
async fn only_in_full_runs_the_time_without_a_database_is_what_the_page_says() {
    if !full() {
        println!("left out: large databases are upgraded only with E2E_FULL (hack/test --full)");
        return;
    }
    for thousands in [1, 10, 30] {
        let longest = Box::pin(upgraded_with(thousands * 1_000)).await;
        let expected = STANDING + THOUSAND * u32::try_from(thousands).unwrap();
        println!("{thousands} thousand reports: {longest:?} without writes, of {expected:?}");
        assert!(longest <= expected * SLOWER);
    }
}
