//! Somebody deletes the APIService of a served group.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use e2e::processes::{LIMIT, Processes};
use e2e::witness::State;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{DeleteParams, DynamicObject, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use rstest::rstest;
use serde_json::{Value, json};
use testcluster::Component;
use testreports::{Owner, ReportKind};

use crate::interference::{API_SERVICE, PAUSE, start};

/// Longest time for which an APIService may be away.
const RETAKEN_WITHIN: Duration = Duration::from_secs(2);

fn is_ours(service: Option<&APIService>) -> bool {
    let spec = service.and_then(|service| service.spec.as_ref());
    spec.is_some_and(|spec| spec.service.is_some())
}

/// Deletes the APIService; gives how long it took until it was ours again.
async fn delete(client: &Client) -> Duration {
    let services: Api<APIService> = Api::all(client.clone());
    let gone = Instant::now();
    let deleted = services.delete(API_SERVICE, &DeleteParams::default()).await;
    deleted.unwrap();
    let ours = await_condition(services, API_SERVICE, is_ours);
    tokio::time::timeout(LIMIT, ours).await.unwrap().unwrap();
    gone.elapsed()
}

/// The reports of a namespace, and one to write there.
fn reports(processes: &Processes, client: &Client) -> (Api<DynamicObject>, Value) {
    let kind = ReportKind::PolicyReport;
    let owner = Owner {
        namespace: "team-00".to_owned(),
        uid: String::new(),
    };
    let mut template = processes.corpus.report(kind, 0, &owner);
    template["metadata"] = json!({"namespace": owner.namespace});
    let reports = Api::namespaced_with(client.clone(), &owner.namespace, &kind.api_resource());
    (reports, template)
}

/// Every acknowledged report is stored.
async fn are_there(client: &Client, acknowledged: &BTreeSet<String>) {
    assert!(!acknowledged.is_empty());
    let state = State::read(client).await.unwrap();
    let there: BTreeSet<&String> = state.0.keys().map(|(_, (_, name))| name).collect();
    let lost: Vec<_> = acknowledged
        .iter()
        .filter(|name| !there.contains(name))
        .collect();
    assert!(lost.is_empty(), "{lost:?}");
}

/// Creates reports one after the other; gives the names of those that were acknowledged.
async fn create_until(
    reports: &Api<DynamicObject>,
    template: &Value,
    end: &tokio::sync::watch::Receiver<bool>,
) -> BTreeSet<String> {
    let mut acknowledged = BTreeSet::new();
    for number in 0.. {
        if *end.borrow() {
            break;
        }
        let name = format!("written-{number}");
        let mut report = template.clone();
        report["metadata"]["name"] = json!(name);
        let report = serde_json::from_value(report).unwrap();
        let created = reports.create(&PostParams::default(), &report).await;
        if created.is_ok() {
            acknowledged.insert(name);
        }
    }
    acknowledged
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_service_that_is_deleted_is_back_soon_and_no_acknowledged_write_is_lost() {
    let (processes, _server) = start().await;
    let serving = processes
        .migrate("serving", None, &["--keep", "--soak", "600"])
        .unwrap();
    serving.says(&["Soak"]).await.unwrap();
    let client = processes.cluster.client().await.unwrap();
    let (reports, template) = reports(&processes, &client);
    let (end, ended) = tokio::sync::watch::channel(false);
    let writing = create_until(&reports, &template, &ended);
    let meddling = async {
        let away = delete(&client).await;
        // What was written to etcd meanwhile has come to the server when the group is settled.
        let settled = await_settled(&client);
        tokio::time::timeout(LIMIT, settled).await.unwrap();
        end.send_replace(true);
        away
    };
    let (acknowledged, away) = tokio::join!(writing, meddling);
    println!("away for {away:?}, {} acknowledged", acknowledged.len());
    assert!(away <= RETAKEN_WITHIN, "{away:?}");
    are_there(&client, &acknowledged).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_service_that_is_deleted_again_while_late_writes_are_looked_for_is_back_soon() {
    let (processes, _server) = start().await;
    let serving = processes
        .migrate("serving", None, &["--keep", "--soak", "600"])
        .unwrap();
    serving.says(&["step started", "Soak"]).await.unwrap();
    let client = processes.cluster.client().await.unwrap();
    let looks = || {
        let log = serving.log();
        let starts = |line: &&str| line.contains("step started") && line.contains("SwitchSettle");
        log.lines().filter(starts).count()
    };
    let before = looks();
    delete(&client).await;
    let looking = async {
        while looks() == before {
            tokio::time::sleep(PAUSE).await;
        }
    };
    // A look takes as long as a kube-apiserver hangs.
    processes.cluster.stop(Component::ApiServer(1)).unwrap();
    tokio::time::timeout(LIMIT, looking).await.unwrap();
    let away = delete(&client).await;
    processes.cluster.cont(Component::ApiServer(1)).unwrap();
    println!("away for {away:?}");
    assert!(away <= RETAKEN_WITHIN, "{away:?}");
    let settled = tokio::time::timeout(LIMIT, await_settled(&client)).await;
    assert!(settled.is_ok(), "{}", serving.log());
}

/// An object that the server has deleted, and that the CRD got again while nobody led its APIService
/// back, is dropped: clients do not see it, so the way back does not bring it either.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_to_etcd_that_was_dropped_does_not_return_with_the_way_back() {
    const NAME: &str = "dropped";
    let (processes, _server) = start().await;
    let goes = async |name: &str, flag: &str| {
        let way = processes.migrate(name, None, &[flag]).unwrap();
        let way = way.ended(LIMIT).await.unwrap();
        assert!(way.done, "{}", way.log);
    };
    goes("there", "--keep").await;
    let client = processes.cluster.client().await.unwrap();
    let (reports, mut report) = reports(&processes, &client);
    report["metadata"]["name"] = json!(NAME);
    let report = serde_json::from_value(report).unwrap();
    let params = PostParams::default();
    reports.create(&params, &report).await.unwrap();
    reports
        .delete(NAME, &DeleteParams::default())
        .await
        .unwrap();

    let services: Api<APIService> = Api::all(client.clone());
    let gone = services.delete(API_SERVICE, &DeleteParams::default()).await;
    gone.unwrap();
    // Requests that still get to the server wait there, and are refused.
    let created = async {
        while reports.create(&params, &report).await.is_err() {
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(LIMIT, created).await.unwrap();
    goes("again", "--keep").await;
    assert!(is_ours(
        services.get_opt(API_SERVICE).await.unwrap().as_ref()
    ));
    assert!(reports.get_opt(NAME).await.unwrap().is_none(), "taken over");
    goes("back", "--back").await;
    assert!(reports.get_opt(NAME).await.unwrap().is_none(), "it is back");
}

#[rstest]
#[case::in_a_switch(&["--keep"], "SwitchDrain", "while requests were held")]
#[case::on_the_way_back(&["--back"], "BackOpenDoor", "during the way back")]
#[tokio::test(flavor = "multi_thread")]
async fn an_api_service_that_is_deleted_on_the_way_has_it_gone_anew(
    #[case] flags: &[&str],
    #[case] step: &str,
    #[case] says: &str,
) {
    let (processes, _server) = start().await;
    let is_back = flags.contains(&"--back");
    if is_back {
        let there = processes.migrate("there", None, &["--keep"]).unwrap();
        let there = there.ended(LIMIT).await.unwrap();
        assert!(there.done, "{}", there.log);
    }
    let client = processes.cluster.client().await.unwrap();
    let (reports, template) = reports(&processes, &client);
    let (end, ended) = tokio::sync::watch::channel(false);
    let writing = create_until(&reports, &template, &ended);
    let meddling = async {
        let way = processes.migrate("way", None, flags).unwrap();
        way.says(&["step started", step]).await.unwrap();
        let away = delete(&client).await;
        let way = way.ended(LIMIT).await.unwrap();
        assert!(way.done, "{}", way.log);
        assert!(way.log.contains(says), "{}", way.log);
        end.send_replace(true);
        away
    };
    let (acknowledged, away) = tokio::join!(writing, meddling);
    println!("away for {away:?}, {} acknowledged", acknowledged.len());
    // Before a gate is open the CRDs have everything, and the group begins anew with them.
    assert!(!is_back || away <= RETAKEN_WITHIN, "{away:?}");
    are_there(&client, &acknowledged).await;
}

async fn await_settled(client: &Client) {
    let stored = "/apis/control.reports-server.io/v1alpha1/storedresources";
    loop {
        let request = http::Request::get(stored).body(Vec::new()).unwrap();
        let list: Value = client.request(request).await.unwrap();
        let mut all = list["items"].as_array().unwrap().iter();
        let settled = all.all(|one| {
            let status = &one["status"];
            status["settled"] == true && status["gate"] == "Open"
        });
        if settled {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}
