//! Settings of `spec.migration` with the real parts: verification by a sample, a window for late
//! writes, and restarts where watches are lost. On a control plane with two kube-apiservers.

use std::time::{Duration, Instant};

use crds::control::{API_VERSION, ImportBatch, ImportItem, ImportMode, ImportType};
use e2e::processes::{LIMIT, Processes, SERVICE};
use e2e::takeover::GROUPS;
use http::Request;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::PostParams;
use kube::{Api, Client};
use regex::Regex;
use serde_json::{Value, json};
use testcluster::Process;
use testreports::{Owner, ReportKind};

/// Enough that a sample is a part.
const REPORTS: usize = 400;
const NAMESPACE: &str = "team-00";
const KIND: ReportKind = ReportKind::PolicyReport;
const PAUSE: Duration = Duration::from_millis(50);
const API_SERVICE: &str = "v1alpha2.wgpolicyk8s.io";

async fn start(reports: usize) -> (Processes, Process, Client) {
    let processes = Processes::start(&GROUPS[..1], reports, false)
        .await
        .unwrap();
    let server = processes.serve().unwrap();
    processes.register().await.unwrap();
    let client = processes.cluster.client().await.unwrap();
    (processes, server, client)
}

async fn migrate(processes: &Processes, name: &str, fault: Option<&str>, more: &[&str]) -> String {
    let migration = processes.migrate(name, fault, more).unwrap();
    let ended = migration.ended(LIMIT).await.unwrap();
    assert_eq!(ended.done, fault.is_none(), "{name}: {}", ended.log);
    ended.log
}

async fn get(client: &Client, path: &str) -> Option<Value> {
    let request = Request::get(path).body(Vec::new()).unwrap();
    match client.request(request).await {
        Ok(found) => Some(found),
        Err(kube::Error::Api(status)) if status.code == 404 => None,
        Err(error) => panic!("{path}: {error}"),
    }
}

async fn post(client: &Client, path: &str, body: &impl serde::Serialize) -> Value {
    let body = serde_json::to_vec(body).unwrap();
    let request = Request::post(path).header("content-type", "application/json");
    let request = request.body(body).unwrap();
    client.request(request).await.unwrap()
}

/// Gives the server another resourceVersion of the first report than etcd has, and the same content;
/// gives its name.
async fn part_one(client: &Client) -> String {
    let list = get(client, &KIND.path(Some(NAMESPACE))).await.unwrap();
    let mut object = list["items"][0].clone();
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    object["metadata"]["resourceVersion"] = list["metadata"]["resourceVersion"].clone();
    let batch = ImportBatch {
        api_version: API_VERSION.to_owned(),
        kind: "ImportBatch".to_owned(),
        mode: ImportMode::Mirror,
        items: vec![ImportItem {
            type_: ImportType::Modified,
            object,
        }],
        ..ImportBatch::default()
    };
    let stored = format!(
        "/apis/{API_VERSION}/storedresources/policyreports.{}",
        GROUPS[0]
    );
    let result = post(client, &format!("{stored}/import"), &batch).await;
    assert_eq!(result["imported"], 1, "{result}");
    name
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sample_is_a_part_and_a_difference_outside_of_it_is_found() {
    let (processes, _server, client) = start(REPORTS).await;
    let args = ["--verification", "sample", "--dry-run"];
    let log = migrate(&processes, "sample", None, &args).await;
    let counts = Regex::new(
        r#"resource: "(\w+)", total: Some\((\d+)\).*?verified: (\d+), checksummed: Some\((\d+)\)"#,
    )
    .unwrap();
    let line = log.lines().find(|line| line.starts_with('[')).unwrap();
    let mut parts = 0;
    for found in counts.captures_iter(line) {
        let number = |at: usize| found[at].parse::<usize>().unwrap();
        let (total, verified, by_checksum) = (number(2), number(3), number(4));
        println!(
            "{}: {total}, {verified} verified, {by_checksum} by checksum",
            &found[1]
        );
        assert_eq!(verified, total);
        assert_eq!(
            by_checksum,
            total.min(100),
            "at least 100, and here 5 % are less"
        );
        parts += usize::from(by_checksum < total);
    }
    assert!(parts > 0, "{line}");

    let name = part_one(&client).await;
    let again = processes.migrate("again", None, &args[..2]).unwrap();
    let line = again.says(&["VerificationFailed (stalled)"]).await.unwrap();
    assert!(line.contains(&format!("{NAMESPACE}/{name}")), "{line}");
    let services: Api<APIService> = Api::all(client);
    let service = services.get(API_SERVICE).await.unwrap();
    assert!(service.spec.unwrap().service.is_none(), "it was switched");
}

fn door(name: &str) -> String {
    let collection = format!(
        "/apis/{}/legacy/namespaces/{NAMESPACE}/{}",
        GROUPS[0],
        KIND.plural()
    );
    if name.is_empty() {
        collection
    } else {
        format!("{collection}/{name}")
    }
}

fn report_of(processes: &Processes, name: &str) -> Value {
    let owner = Owner {
        namespace: NAMESPACE.to_owned(),
        uid: String::new(),
    };
    let mut report = processes.corpus.report(KIND, 0, &owner);
    report["metadata"] = json!({"name": name, "namespace": NAMESPACE});
    report
}

/// Writes a report into etcd behind the server, as somebody late would; the test is the same user as
/// the operator.
async fn write_late(processes: &Processes, client: &Client, name: &str) {
    let mut report = report_of(processes, name);
    report["apiVersion"] = json!(format!("{}/legacy", GROUPS[0]));
    post(client, &door(""), &report).await;
}

async fn comes(client: &Client, name: &str) {
    let path = format!("{}/{name}", KIND.path(Some(NAMESPACE)));
    let there = async {
        while get(client, &path).await.is_none() {
            tokio::time::sleep(PAUSE).await;
        }
    };
    let there = tokio::time::timeout(LIMIT, there).await;
    assert!(there.is_ok(), "{name} did not come to the server");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_write_within_the_window_is_taken_over_whoever_looks() {
    const WINDOW: Duration = Duration::from_secs(40);
    let (processes, _server, client) = start(50).await;
    let args = ["--keep", "--drain-window", "40"];
    let first = processes.migrate("first", None, &args).unwrap();
    first.says(&["to etcd until"]).await.unwrap();
    let seen = Instant::now();
    write_late(&processes, &client, "late-1").await;
    comes(&client, "late-1").await;
    let told = async {
        while report(&client).await["counts"]["stragglers"] != 1 {
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(LIMIT, told).await.unwrap();
    first.process.kill().await.unwrap();
    write_late(&processes, &client, "late-2").await;
    let second = processes.migrate("second", None, &args).unwrap();
    comes(&client, "late-2").await;
    assert!(seen.elapsed() < WINDOW, "the window was over");
    assert!(get(&client, &door("late-1")).await.is_some());
    let ended = second.ended(LIMIT).await.unwrap();
    assert!(ended.done, "{}", ended.log);
    let took = seen.elapsed();
    println!("settled {took:?} after the first look");
    // Counted from the switch, not from when the second began: the first look was soon after it.
    assert!(took + Duration::from_secs(15) > WINDOW, "{took:?}");
    assert!(took < WINDOW + Duration::from_secs(25), "{took:?}");
    assert_eq!(
        get(&client, &door("late-1")).await,
        None,
        "the door is open"
    );
    let guard = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let guard = format!("{guard}/reports-server-side-door.{}", GROUPS[0]);
    assert_eq!(get(&client, &guard).await, None, "the door is guarded");
    let report = report(&client).await;
    assert_eq!(report["counts"]["stragglers"], 2, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_late_write_that_gives_way_is_named_in_the_report() {
    // More than a message names.
    const WRITES: usize = 25;
    let (processes, _server, client) = start(20).await;
    let args = ["--keep", "--drain-window", "20"];
    let migration = processes.migrate("named", None, &args).unwrap();
    migration.says(&["to etcd until"]).await.unwrap();
    let names: Vec<String> = (0..WRITES).map(|n| format!("both-{n:02}")).collect();
    for name in &names {
        let report = report_of(&processes, name);
        post(&client, &KIND.path(Some(NAMESPACE)), &report).await;
        write_late(&processes, &client, name).await;
    }
    let ended = migration.ended(LIMIT).await.unwrap();
    assert!(ended.done, "{}", ended.log);
    let report = report(&client).await;
    let of = |name: &String| json!(format!("{}/{NAMESPACE}/{name}", KIND.plural()));
    assert_eq!(report["dropped"], names.iter().map(of).collect::<Value>());
    assert_eq!(report["counts"]["dropped"], WRITES, "{report}");
}

/// The migration report.
async fn report(client: &Client) -> Value {
    let reports: Api<ConfigMap> = Api::namespaced(client.clone(), SERVICE);
    let name = format!("migrate-migration-{}", GROUPS[0]);
    let report = reports.get(&name).await.unwrap().data.unwrap();
    serde_json::from_str(&report["report.json"]).unwrap()
}

async fn deployment(client: &Client) -> Api<Deployment> {
    let name = "reports-controller";
    let labels = json!({"app": name});
    let deployment = json!({"metadata": {"name": name}, "spec": {"replicas": 0,
        "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "a", "image": "registry.invalid/a"}]}}}});
    let api = Api::namespaced(client.clone(), NAMESPACE);
    let deployment = serde_json::from_value(deployment).unwrap();
    api.create(&PostParams::default(), &deployment)
        .await
        .unwrap();
    api
}

/// Returns the time of the pods' last restart, and the generation, which each change of the
/// specification raises.
async fn restarted(deployments: &Api<Deployment>) -> (Option<String>, i64) {
    let deployment = deployments.get("reports-controller").await.unwrap();
    let template = deployment.spec.unwrap().template.metadata.unwrap();
    let at = template.annotations.unwrap_or_default();
    let at = at.get("kubectl.kubernetes.io/restartedAt").cloned();
    (at, deployment.metadata.generation.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workload_is_restarted_once_for_a_switch_that_was_interrupted() {
    let (processes, _server, client) = start(50).await;
    let deployments = deployment(&client).await;
    let there = format!("Deployment/{NAMESPACE}/reports-controller");
    let gone = format!("Deployment/{NAMESPACE}/gone");
    let args = ["--keep", "--restart", &there, "--restart", &gone];
    migrate(&processes, "dies", Some("SwitchPatch"), &args).await;
    assert_eq!(restarted(&deployments).await, (None, 1));
    migrate(&processes, "again", None, &args).await;
    let (at, generation) = restarted(&deployments).await;
    assert!(at.is_some());
    assert_eq!(generation, 2);
    let report = report(&client).await;
    let results: Vec<_> = report["restarts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|restart| (restart["name"].as_str(), restart["result"].as_str()))
        .collect();
    let expected = [
        (Some("gone"), Some("NotFound")),
        (Some("reports-controller"), Some("Restarted")),
    ];
    assert_eq!(results, expected, "{report}");

    // Neither another process nor a way back that keeps its watches restarts it again.
    migrate(&processes, "once more", None, &args).await;
    let back = ["--back", "--restart", &there];
    migrate(&processes, "back", None, &back).await;
    assert_eq!(restarted(&deployments).await, (at, 2));
}
