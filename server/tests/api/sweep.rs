//! Objects whose namespace is gone.

use crds::control::GateState;
use reports_server::cluster::NamespacePhase;
use reports_server::registry::sweep::{SweepMetrics, once};
use serde_json::json;

use crate::harness::*;

fn reports_in(namespace: &str) -> String {
    format!("/apis/wgpolicyk8s.io/v1alpha2/namespaces/{namespace}/policyreports")
}

async fn sweep(server: &Server) -> u64 {
    once(
        &server.store,
        server.namespaces.as_ref(),
        &SweepMetrics::default(),
    )
    .await
}

#[tokio::test]
async fn only_objects_of_missing_namespaces_go() {
    let server = Server::start().await;
    for namespace in ["here", "going", "gone", "unknown-later"] {
        for name in ["a", "b"] {
            server
                .post(&reports_in(namespace), &report(name))
                .await
                .expect(201);
        }
    }
    let mut cluster = report("c");
    cluster["kind"] = json!("ClusterPolicyReport");
    server.post(CLUSTER_REPORTS, &cluster).await.expect(201);
    let start = rv(&server.get(ALL_REPORTS).await.json());
    assert_eq!(sweep(&server).await, 0);
    server.namespaces.set("going", NamespacePhase::Terminating);
    server.namespaces.set("gone", NamespacePhase::Missing);
    assert_eq!(sweep(&server).await, 2);
    assert_eq!(sweep(&server).await, 0);
    let left = names(&server.get(ALL_REPORTS).await.json());
    assert_eq!(left, ["a", "b", "a", "b", "a", "b"]);
    assert_eq!(names(&server.get(CLUSTER_REPORTS).await.json()), ["c"]);
    let mut watch = server
        .watch(&format!("{ALL_REPORTS}?watch=1&resourceVersion={start}"))
        .await;
    for name in ["a", "b"] {
        let event = watch.next().await.unwrap();
        assert_eq!(
            (&event["type"], &event["object"]["metadata"]["name"]),
            (&json!("DELETED"), &json!(name))
        );
    }
}

#[tokio::test]
async fn a_namespace_that_cannot_be_looked_up_is_left_alone() {
    let server = Server::start_closed(|_| {}).await;
    // Imported, since a create asks for the namespace.
    let mut object = report("a");
    object["metadata"]["namespace"] = json!("unknown");
    object["metadata"]["uid"] = json!("u");
    object["metadata"]["resourceVersion"] = json!("5");
    let batch = json!({"items": [{"type": "Object", "object": object}]});
    let uri = format!("{CONTROL}/policyreports.wgpolicyk8s.io/import");
    server.post(&uri, &batch).await.expect(201);
    server
        .set_gate("policyreports.wgpolicyk8s.io", GateState::Open)
        .await;
    assert_eq!(sweep(&server).await, 0);
    assert_eq!(names(&server.get(ALL_REPORTS).await.json()), ["a"]);
}

#[tokio::test]
async fn only_open_gates_are_swept() {
    let server = Server::start().await;
    server
        .post(&reports_in("gone"), &report("a"))
        .await
        .expect(201);
    server.namespaces.set("gone", NamespacePhase::Missing);
    server
        .set_gate("policyreports.wgpolicyk8s.io", GateState::Held)
        .await;
    assert_eq!(sweep(&server).await, 0);
    server
        .set_gate("policyreports.wgpolicyk8s.io", GateState::Open)
        .await;
    assert_eq!(sweep(&server).await, 1);
}

#[tokio::test]
async fn finalizers_hold_orphans_too() {
    let server = Server::start().await;
    let mut held = report("a");
    held["metadata"]["finalizers"] = json!(["example.com/x"]);
    server.post(&reports_in("gone"), &held).await.expect(201);
    server.namespaces.set("gone", NamespacePhase::Missing);
    assert_eq!(sweep(&server).await, 1);
    assert_eq!(sweep(&server).await, 0);
    let left = server
        .get(&format!("{}/a", reports_in("gone")))
        .await
        .expect(200)
        .json();
    assert!(left["metadata"]["deletionTimestamp"].is_string());
}
