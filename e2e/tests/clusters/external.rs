//! A PostgreSQL that somebody else runs: a pair under Patroni that fails over.

use std::time::{Duration, Instant};

use crate::common::{faults, full, options, say};
use crds::names::{ANNOTATION_REQUEST, LABEL_TARGET};
use e2e::patroni::{DATABASE, OTHER_DATABASE, Patroni};
use e2e::takeover::{Database, NAME, TARGET_NAMESPACE, Takeover};
use serde_json::json;
use testreports::Input;

const LIMIT: Duration = Duration::from_mins(5);
const SECRET: &str = "pair";
/// Time within which the status tells of another database.
const TOLD: Duration = Duration::from_secs(15);
/// Time within which the kubelet brings a changed Secret to the servers.
const BROUGHT: Duration = Duration::from_mins(3);
/// Time for which a server that must make nothing is left alone.
const ALONE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(200);
/// The path of the reason why a `ReportsServer` cannot go on.
const STALLED: &str = "{.status.conditions[?(@.type==\"Stalled\")].reason}";
/// The path of its generation, and of the one that the status is about.
const OBSERVED: &str = "{.metadata.generation}={.status.observedGeneration}";
/// The conditions that another database keeps from being true.
const NOT_TRUE: [&str; 2] = ["Ready", "DatabaseReady"];

fn database() -> Database {
    Database::Given {
        name: "external",
        spec: json!({"mode": "External", "external": {
            "connectionSecretRef": {"name": SECRET}, "sslMode": "verify-full",
            "caSecretRef": {"name": SECRET},
        }}),
    }
}

/// The Secret that leads to a database of the pair.
async fn secret(line: &Takeover, pair: &Patroni<'_>, database: &str) {
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": TARGET_NAMESPACE, "labels": {LABEL_TARGET: "true"}}},
        {"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": SECRET, "namespace": TARGET_NAMESPACE},
            "stringData": {"uri": pair.uri_of(database), "ca.crt": pair.authority()}},
    ]});
    line.cluster
        .kubectl_with_input(["apply", "-f", "-"], &objects.to_string())
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_survive_the_failover_of_a_pair() {
    let mut options = options(
        Input::Generated { seed: 4 },
        if full() { 1000 } else { 200 },
    );
    options.database = database();
    let line = Takeover::prepare(options, say).await.unwrap();
    let mut pair = Patroni::start(&line.cluster).await.unwrap();
    secret(&line, &pair, DATABASE).await;
    let witness = line.witness().await.unwrap();
    line.install_operator().await.unwrap();
    line.apply().await.unwrap();
    line.follow_to_ready(LIMIT).await.unwrap();
    let account = witness.finish().await.unwrap();
    assert!(account.is_clean(), "the switch: {account:#?}");

    let crash = async {
        pair.crash_primary().await.unwrap();
        pair.restored().await.unwrap();
    };
    let account = faults::under_load(&line, "the primary crashes", crash).await;
    assert!(account.nothing_lost(), "{account:#?}");

    let switch = async {
        pair.switch_over().await.unwrap();
        pair.restored().await.unwrap();
    };
    let account = faults::under_load(&line, "a switchover", switch).await;
    assert!(account.nothing_lost(), "{account:#?}");

    if full() {
        let loss = async {
            let lost = pair.lose_primary().await.unwrap();
            pair.start_again(lost).await.unwrap();
        };
        let account = faults::under_load(&line, "the primary's machine is lost", loss).await;
        assert!(account.nothing_lost(), "{account:#?}");
    }
}

/// Waits until a field of an object is as wanted.
async fn until(line: &Takeover, object: [&str; 2], path: &str, wanted: impl Fn(&str) -> bool) {
    let output = format!("jsonpath={path}");
    let args = ["get", object[0], object[1], "-o", &output];
    while !wanted(&faults::kubectl(line, &args).await) {
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns the path of the status of a condition.
fn status_of(type_: &str) -> String {
    format!("{{.status.conditions[?(@.type==\"{type_}\")].status}}")
}

/// Returns whether the other database of the pair has no schema of a server.
async fn is_empty(line: &Takeover, pair: &Patroni<'_>) -> bool {
    let mut command = line.cluster.command("psql");
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname = 'reports_server'";
    command.args(["-XAt", &pair.uri_of(OTHER_DATABASE), "-c", schemas]);
    let output = command.output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim() == "0"
}

/// Suspends the server, and starts the operator anew: neither makes another database the right one.
async fn stays_astray(line: &Takeover) {
    let server = ["reportsserver", NAME];
    let suspend = |suspend: bool| json!({"suspend": suspend.then_some(true)});
    line.patch_spec(suspend(true)).await.unwrap();
    until(line, server, OBSERVED, |generations| {
        let of = generations.split_once('=');
        of.is_some_and(|(present, observed)| present == observed)
    })
    .await;
    let is = async |path: &str| {
        let output = format!("jsonpath={path}");
        faults::kubectl(line, &["get", server[0], server[1], "-o", &output]).await
    };
    assert_eq!(is(STALLED).await, "OtherDatabase");
    for type_ in NOT_TRUE {
        assert_eq!(is(&status_of(type_)).await, "False", "{type_}, suspended");
    }

    line.scale_operator(0).await.unwrap();
    line.scale_operator(2).await.unwrap();
    let request = format!("{ANNOTATION_REQUEST}=anew");
    faults::kubectl(line, &["annotate", server[0], server[1], &request]).await;
    until(line, server, "{.status.lastHandledRequest}", |handled| {
        handled == "anew"
    })
    .await;
    // The new operator does not know it in its first moments, and finds it out by itself.
    until(line, server, STALLED, |reason| reason == "OtherDatabase").await;
    for type_ in NOT_TRUE {
        assert_eq!(is(&status_of(type_)).await, "False", "{type_}, after that");
    }
    line.patch_spec(suspend(false)).await.unwrap();
}

/// Leads the Secret to an empty database and back. Servers that run serve what they have in memory,
/// one that starts meanwhile waits, and neither makes anything there.
async fn lead_astray(line: &Takeover, pair: &Patroni<'_>) {
    let server = ["reportsserver", NAME];
    secret(line, pair, OTHER_DATABASE).await;
    let began = Instant::now();
    until(line, server, STALLED, |reason| reason == "OtherDatabase").await;
    assert!(began.elapsed() < TOLD, "{:?}", began.elapsed());
    for type_ in NOT_TRUE {
        until(line, server, &status_of(type_), |status| status == "False").await;
    }
    Box::pin(stays_astray(line)).await;

    let elsewhere = until(
        line,
        ["databases.control.reports-server.io", "database"],
        "{.status.elsewhere}",
        |words| words.contains("no reports at all"),
    );
    tokio::time::timeout(BROUGHT, elsewhere).await.unwrap();
    let pods = faults::pods(line, "server").await;
    faults::kubectl(line, &["delete", "pod", &pods[0], "--wait=false"]).await;
    tokio::time::sleep(ALONE).await;
    let cached = "/apis/wgpolicyk8s.io/v1alpha2/policyreports?resourceVersion=0&limit=1";
    let list = faults::kubectl(line, &["get", "--raw", cached]).await;
    assert!(list.contains("\"items\""), "{list}");
    assert!(is_empty(line, pair).await, "nothing is begun there");

    secret(line, pair, DATABASE).await;
    line.follow_to_ready(LIMIT).await.unwrap();
    let servers = faults::servers(line).await;
    faults::rolled_out(line, &servers).await;
    assert!(is_empty(line, pair).await, "nothing is begun there");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_begun_in_another_database_and_the_right_one_goes_on() {
    let mut options = options(Input::Generated { seed: 6 }, 100);
    options.database = database();
    let line = Takeover::prepare(options, say).await.unwrap();
    let pair = Patroni::start(&line.cluster).await.unwrap();
    secret(&line, &pair, DATABASE).await;
    line.install_operator().await.unwrap();
    line.apply().await.unwrap();
    line.follow_to_ready(LIMIT).await.unwrap();
    let history = "{.status.database.history}";
    until(&line, ["reportsserver", NAME], history, |history| {
        !history.is_empty()
    })
    .await;

    let astray = lead_astray(&line, &pair);
    let limit = BROUGHT * 4;
    let what = "the Secret leads to an empty database";
    let account = faults::under_load_within(limit, &line, what, astray).await;
    assert!(account.nothing_lost(), "{account:#?}");
}
