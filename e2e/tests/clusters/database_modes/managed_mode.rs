//! Mode `Managed` against a real kube-apiserver, as far as no pod has to run: volumes that grow,
//! and a number of servers that somebody else decides.

use std::collections::BTreeMap;

use e2e::operator::Operator;
use serde_json::{Value, json};
use testcluster::{Cluster, ClusterOptions};

use super::subject::{NAMESPACE, Subject};

/// The claim of the database.
const CLAIM: &str = "subject-postgres-data";

/// A class whose volumes can grow, and a volume of it for the claim.
fn storage() -> Value {
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "grows"},
            "provisioner": "kubernetes.io/no-provisioner", "allowVolumeExpansion": true},
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "of-the-database"},
            "spec": {"capacity": {"storage": "100Gi"}, "accessModes": ["ReadWriteOnce"],
                "storageClassName": "grows", "hostPath": {"path": "/nowhere"},
                "claimRef": {"namespace": NAMESPACE, "name": CLAIM}}},
    ]})
}

fn spec(size: &str, servers: i32) -> Value {
    json!({"apis": [], "server": {"autoscaling": {"minReplicas": 2, "maxReplicas": servers}},
        "database": {"mode": "Managed", "managed": {
            "storage": {"size": size, "storageClassName": "grows"}}}})
}

#[tokio::test]
async fn a_volume_grows_and_servers_are_as_many_as_the_autoscaler_says() {
    let cluster = Cluster::start(ClusterOptions::default()).await.unwrap();
    let subject = Subject::prepare(&cluster).await;
    let storage = storage().to_string();
    cluster
        .kubectl_with_input(["apply", "-f", "-"], &storage)
        .await
        .unwrap();
    let _operator = Operator::start(&cluster, BTreeMap::new()).await.unwrap();
    let kubectl = async |args: &[&str]| {
        let args = ["-n", NAMESPACE].iter().chain(args);
        cluster.kubectl(args).await.unwrap()
    };

    subject.apply_spec(spec("20Gi", 4)).await;
    let claim = format!("pvc/{CLAIM}");
    let is = |path: &str, value: &str| format!("--for=jsonpath={{{path}}}={value}");
    kubectl(&["wait", "--for=create", &claim, "--timeout=60s"]).await;
    kubectl(&[
        "wait",
        &is(".status.phase", "Bound"),
        &claim,
        "--timeout=60s",
    ])
    .await;
    subject.apply_spec(spec("30Gi", 4)).await;
    let grown = is(".spec.resources.requests.storage", "30Gi");
    kubectl(&["wait", &grown, &claim, "--timeout=60s"]).await;
    let capacity = "jsonpath={.status.database.volumeClaim}";
    let named = kubectl(&["get", "reportsserver", "subject", "-o", capacity]).await;
    assert_eq!(named, CLAIM);

    // What the autoscaler says goes: the operator leaves the number alone.
    let autoscaler = "hpa/subject-server";
    let bounds = "jsonpath={.spec.minReplicas} {.spec.maxReplicas} {.spec.scaleTargetRef.name}";
    let told = kubectl(&["get", autoscaler, "-o", bounds]).await;
    assert_eq!(told, "2 4 subject-server");
    let server = "deployment/subject-server";
    kubectl(&["scale", server, "--replicas=3"]).await;
    subject.apply_spec(spec("30Gi", 5)).await;
    let most = is(".spec.maxReplicas", "5");
    kubectl(&["wait", &most, autoscaler, "--timeout=60s"]).await;
    let count = "jsonpath={.spec.replicas}";
    assert_eq!(kubectl(&["get", server, "-o", count]).await, "3");
    // But an autoscaler would leave it without pods for ever.
    kubectl(&["scale", server, "--replicas=0"]).await;
    let least = is(".spec.replicas", "2");
    kubectl(&["wait", &least, server, "--timeout=60s"]).await;

    // Both bounds at once would be refused.
    let budget = "pdb/subject-server";
    let other = r#"{"spec": {"minAvailable": null, "maxUnavailable": 0}}"#;
    kubectl(&["patch", budget, "--type=merge", "--patch", other]).await;
    let bound = is(".spec.minAvailable", "1");
    kubectl(&["wait", &bound, budget, "--timeout=60s"]).await;
}
