//! An operator that may not list, or not watch, the APIServices, on a control plane without nodes: the
//! condition names the rule, and the operator goes on when it has the right.

use std::time::Duration;

use crate::common::rights::{USER, grant};
use ::crds::names::LABEL_TARGET;
use ::crds::v1alpha1::conditions::STALLED;
use ::crds::v1alpha1::{ReportsServer, reasons, reports_server_crd};
use e2e::operator::Operator;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, ResourceExt as _};
use rstest::rstest;
use serde_json::json;
use testcluster::{Cluster, ClusterOptions};

const NAME: &str = "subject";
const NAMESPACE: &str = "target";
const RESOURCE: &str = "apiservices";
/// A watch is opened again within a minute, a refusal counts for some time longer, and a
/// reconciliation that was refused is repeated after half a minute.
const LIMIT: Duration = Duration::from_mins(4);

#[rstest]
#[case::to_list("list")]
#[case::to_watch("watch")]
#[tokio::test]
async fn a_right_to_the_api_services_that_is_missing_is_named(#[case] verb: &str) {
    if verb == "watch" && std::env::var_os("E2E_FULL").is_none() {
        println!("left out: only with E2E_FULL, as it takes minutes");
        return;
    }
    let cluster = Cluster::start(ClusterOptions::default()).await.unwrap();
    let admin = cluster.client().await.unwrap();
    grant(&admin, Some(&[(verb, RESOURCE)])).await.unwrap();
    let servers = prepare(&admin).await;
    let _operator = Operator::start_as(&cluster, USER).await.unwrap();
    reaches(&servers, "the rule is named", |server| {
        is_stalled_for(server, verb)
    })
    .await;

    grant(&admin, None).await.unwrap();
    reaches(&servers, "it goes on", |server| {
        let status = server.status.as_ref();
        status.is_some_and(|status| status.effective.is_some()) && stalled(server).is_none()
    })
    .await;
}

/// Makes a namespace, the CRD and a `ReportsServer` without groups.
async fn prepare(admin: &Client) -> Api<ReportsServer> {
    let params = PostParams::default();
    let labels = json!({LABEL_TARGET: "true"});
    let namespace = json!({"metadata": {"name": NAMESPACE, "labels": labels}});
    let namespace: Namespace = serde_json::from_value(namespace).unwrap();
    let namespaces: Api<Namespace> = Api::all(admin.clone());
    namespaces.create(&params, &namespace).await.unwrap();
    let crd = reports_server_crd().unwrap();
    let crds: Api<CustomResourceDefinition> = Api::all(admin.clone());
    crds.create(&params, &crd).await.unwrap();
    let is_established = conditions::is_crd_established();
    await_condition(crds, &crd.name_any(), is_established)
        .await
        .unwrap();
    let servers: Api<ReportsServer> = Api::all(admin.clone());
    let server = json!({
        "apiVersion": "reports-server.io/v1alpha1",
        "kind": "ReportsServer",
        "metadata": {"name": NAME},
        "spec": {"targetNamespace": NAMESPACE, "apis": []},
    });
    let server = serde_json::from_value(server).unwrap();
    servers.create(&params, &server).await.unwrap();
    servers
}

/// Waits for a state of the `ReportsServer`.
async fn reaches(servers: &Api<ReportsServer>, what: &str, is_so: impl Fn(&ReportsServer) -> bool) {
    let is_so = |server: Option<&ReportsServer>| server.is_some_and(&is_so);
    let reached = await_condition(servers.clone(), NAME, is_so);
    if let Ok(reached) = tokio::time::timeout(LIMIT, reached).await {
        reached.unwrap();
        return;
    }
    let status = servers.get(NAME).await.unwrap().status;
    panic!("not in {LIMIT:?}: {what}: {status:?}");
}

/// Returns reason and message, where somebody has to act.
fn stalled(server: &ReportsServer) -> Option<(&str, &str)> {
    let mut conditions = server.status.iter().flat_map(|status| &status.conditions);
    let found = conditions.find(|one| one.type_ == STALLED && one.status == "True")?;
    Some((&found.reason, &found.message))
}

/// Returns whether somebody is asked for the right.
fn is_stalled_for(server: &ReportsServer, verb: &str) -> bool {
    let rule = format!(r#"resources: ["{RESOURCE}"], verbs: ["{verb}"]"#);
    stalled(server)
        .is_some_and(|(reason, message)| reason == reasons::FORBIDDEN && message.contains(&rule))
}
