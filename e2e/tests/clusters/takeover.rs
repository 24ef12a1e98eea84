//! The main job end to end, and what a user sees after it.

use std::time::Duration;

use crate::common::{full, nothing_was_warned_of, options, say};
use crds::v1alpha1::ReportsServer;
use e2e::round_trip;
use e2e::takeover::{self, GROUPS, NAME, Takeover};
use e2e::witness::State;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;
use kube::api::DeleteParams;
use kube::runtime::wait::{await_condition, conditions};
use testreports::Input;

const LIMIT: Duration = Duration::from_mins(5);
/// Seed of what clients do on the way back.
const SEED: u64 = 1;

fn size() -> usize {
    if full() { 10_000 } else { 400 }
}

/// Names and contents, without what etcd gives anew to an object that it had no more.
fn contents(state: &State) -> Vec<String> {
    let objects = state.0.iter();
    objects
        .map(|(key, object)| format!("{key:?} {}", object.content))
        .collect()
}

async fn kubectl(line: &Takeover, args: &[&str]) -> String {
    line.cluster
        .kubectl(args)
        .await
        .unwrap_or_else(|error| panic!("kubectl {args:?}: {error}"))
}

/// Every line of what a user reads after the switch.
async fn reads_well(line: &Takeover) {
    let servers = kubectl(line, &["get", "rsrv"]).await;
    assert!(
        servers.contains("READY") && servers.contains("True"),
        "{servers}"
    );
    assert!(servers.contains("2/2"), "{servers}");

    let described = kubectl(line, &["describe", "rsrv", NAME]).await;
    for expected in ["Conditions:", "Events:", "SwitchOpen"] {
        assert!(described.contains(expected), "no {expected} in {described}");
    }

    let stored = kubectl(line, &["get", "storedresources"]).await;
    for expected in ["OBJECTS", "BYTES", "RESOURCEVERSION", "GATE", "AGE"] {
        assert!(stored.contains(expected), "no {expected} in {stored}");
    }
    assert!(
        stored.contains("policyreports.wgpolicyk8s.io") && stored.contains("Open"),
        "{stored}"
    );

    let reports = kubectl(line, &["get", "polr", "-A"]).await;
    let head = reports.lines().next().unwrap_or_default();
    for column in [
        "NAMESPACE",
        "NAME",
        "KIND",
        "PASS",
        "FAIL",
        "WARN",
        "ERROR",
        "SKIP",
        "AGE",
    ] {
        assert!(head.contains(column), "no {column} in {head}");
    }
    assert!(
        reports.lines().count() > size() / 2,
        "{}",
        reports.lines().count()
    );

    let explained = kubectl(line, &["explain", "polr.results"]).await;
    assert!(
        explained.contains("policy") && explained.contains("-required-"),
        "{explained}"
    );

    let resources = kubectl(line, &["api-resources", "--api-group", "wgpolicyk8s.io"]).await;
    assert!(
        resources.contains("policyreports") && resources.contains("polr"),
        "{resources}"
    );
    kubectl(line, &["api-resources"]).await;
    kubectl(line, &["get", "--raw", "/openapi/v2"]).await;
    kubectl(line, &["get", "--raw", "/openapi/v3"]).await;
    for group in GROUPS {
        let version = if group == "wgpolicyk8s.io" {
            "v1alpha2"
        } else {
            "v1"
        };
        kubectl(
            line,
            &[
                "get",
                "--raw",
                &format!("/openapi/v3/apis/{group}/{version}"),
            ],
        )
        .await;
    }
}

async fn served_locally(line: &Takeover) {
    let services: Api<APIService> = Api::all(line.client.clone());
    for name in ["v1alpha2.wgpolicyk8s.io", "v1.reports.kyverno.io"] {
        let service = services.get(name).await.unwrap();
        assert!(
            service.spec.and_then(|spec| spec.service).is_none(),
            "{name} is not Local"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_leave_etcd_unnoticed_and_come_back() {
    let (line, outcome) = takeover::run(options(Input::detect(), size()), say)
        .await
        .unwrap();
    println!("{outcome}");
    assert!(outcome.is_clean(), "{outcome}");
    assert!(outcome.account.longest_wait_ms < 30_000);
    assert_eq!(outcome.before.reports, size() as u64);
    nothing_was_warned_of(&line).await;
    reads_well(&line).await;

    let (line, back) = round_trip::way_back(line, SEED, &say).await.unwrap();
    println!("{back}");
    assert!(back.is_clean(), "{back}");
    assert!(back.compared >= size(), "{back}");
    served_locally(&line).await;
    assert!(line.measure().await.unwrap().report_objects_in_etcd >= size() as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_the_reports_server_gives_the_apis_back() {
    let input = Input::Generated { seed: 2 };
    let (line, outcome) = takeover::run(options(input, size() / 2), say)
        .await
        .unwrap();
    println!("{outcome}");
    assert!(outcome.is_clean(), "{outcome}");

    let before = State::read(&line.client).await.unwrap();
    let servers: Api<ReportsServer> = Api::all(line.client.clone());
    let uid = servers.get(NAME).await.unwrap().metadata.uid.unwrap();
    servers
        .delete(NAME, &DeleteParams::default())
        .await
        .unwrap();
    let gone = await_condition(servers, NAME, conditions::is_deleted(&uid));
    tokio::time::timeout(LIMIT, gone)
        .await
        .expect("the finalizer is removed")
        .unwrap();
    served_locally(&line).await;
    let after = State::read(&line.client).await.unwrap();
    assert_eq!(contents(&before), contents(&after));
}
