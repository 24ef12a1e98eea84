//! The backup that `CloudNativePG` makes in a bucket, and the way back from it.

use super::install::{self, Catalog};
use super::provider::{CLUSTER, LIMIT, cluster_is, is_healthy};
use super::{follows, prepared};
use crate::common::faults::{self, kubectl, under_load};
use crds::names::LABEL_TARGET;
use e2e::s3::S3;
use e2e::takeover::{TARGET_NAMESPACE, Takeover};
use e2e::witness::State;
use serde_json::{Value, json};

/// Name of the `Cluster` that begins with the backup.
const RESTORED: &str = "restored";

/// Creates objects in the servers' namespace.
async fn create(line: &Takeover, objects: Vec<Value>) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": TARGET_NAMESPACE, "labels": {LABEL_TARGET: "true"}}});
    let items: Vec<Value> = [namespace].into_iter().chain(objects).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    line.cluster
        .kubectl_with_input(["apply", "-f", "-"], &list.to_string())
        .await
        .unwrap();
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "postgresql.cnpg.io/v1", "kind": kind,
        "metadata": {"name": name, "namespace": TARGET_NAMESPACE}, "spec": spec})
}

/// Returns the member `barmanObjectStore` for a bucket.
fn store(s3: &S3) -> Value {
    let bucket = s3.destination();
    let secret = &bucket["credentialsSecretRef"]["name"];
    let key = |key: &str| json!({"name": secret, "key": key});
    let path = bucket["bucket"].as_str().unwrap();
    json!({"destinationPath": format!("s3://{path}/cloudnativepg"),
        "endpointURL": bucket["endpoint"], "endpointCA": key("ca.crt"),
        "s3Credentials": {
            "accessKeyId": key("accessKeyId"), "secretAccessKey": key("secretAccessKey")}})
}

/// A backup made now, into the bucket that the `ReportsServer` names.
async fn back_up(line: &Takeover, store: &Value) {
    let backup = json!({"backup": {"barmanObjectStore": store}});
    line.patch_spec(json!({"database": {"cloudNativePG": {"create": backup}}}))
        .await
        .unwrap();
    let handed_on = |cluster: &Value| {
        let found = &cluster["spec"]["backup"]["barmanObjectStore"];
        found["endpointURL"] == store["endpointURL"] && is_healthy(cluster)
    };
    cluster_is(line, CLUSTER, "the bucket in the Cluster", handed_on).await;
    let spec = json!({"method": "barmanObjectStore", "cluster": {"name": CLUSTER}});
    create(line, vec![object("Backup", "before", &spec)]).await;
    let completed = "--for=jsonpath={.status.phase}=completed";
    let backup = "backups.postgresql.cnpg.io/before";
    kubectl(line, &["wait", completed, backup, "--timeout=600s"]).await;
}

/// Loses the `Cluster` with its volumes, and has the `ReportsServer` use one that begins with the
/// backup.
async fn restore(line: &Takeover, mut store: Value, catalog: &Catalog) {
    // Otherwise our operator makes a new one, which is empty.
    let reference = json!({"create": null, "clusterRef": {"name": RESTORED}});
    line.patch_spec(json!({"database": {"cloudNativePG": reference}}))
        .await
        .unwrap();
    line.follow("the missing Cluster", LIMIT, |server| {
        let conditions = server.status.iter().flat_map(|status| &status.conditions);
        let mut reasons = conditions.map(|condition| condition.reason.as_str());
        reasons.any(|reason| reason == "ClusterMissing")
    })
    .await
    .unwrap();
    let lost = format!("clusters.postgresql.cnpg.io/{CLUSTER}");
    kubectl(line, &["delete", &lost, "--cascade=foreground"]).await;

    store["serverName"] = json!(CLUSTER);
    let spec = json!({
        "instances": 1, "storage": {"size": "2Gi"},
        "imageCatalogRef": catalog.reference_of_a_cluster(),
        "bootstrap": {"recovery": {
            "source": "lost", "database": "reports", "owner": "reports"}},
        "externalClusters": [{"name": "lost", "barmanObjectStore": store}],
    });
    create(line, vec![object("Cluster", RESTORED, &spec)]).await;
    cluster_is(line, RESTORED, "a restored Cluster", is_healthy).await;
    follows(line, &format!("{RESTORED}-1")).await;
    let servers = faults::servers(line).await;
    faults::rolled_out(line, &servers).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_in_full_runs_reports_come_back_from_the_backup_of_cloudnativepg() {
    let Some(parts) = install::parts() else {
        return;
    };
    let catalog = Catalog::read(&parts);
    let spec = json!({"instances": 1, "storage": {"size": "2Gi"},
        "imageCatalogRef": catalog.reference()});
    let line = Box::pin(prepared(&parts, spec)).await;
    let s3 = S3::start(&line.cluster).await.unwrap();
    create(&line, vec![s3.secret(TARGET_NAMESPACE)]).await;
    line.apply().await.unwrap();
    line.follow_to_ready(LIMIT).await.unwrap();
    let account = under_load(&line, "writes before the backup", async {}).await;
    assert!(account.is_clean(), "{account:#?}");
    let before = State::read(&line.client).await.unwrap();
    assert!(!before.0.is_empty());

    Box::pin(back_up(&line, &store(&s3))).await;
    Box::pin(restore(&line, store(&s3), &catalog)).await;
    assert_eq!(State::read(&line.client).await.unwrap().0, before.0);
    let account = under_load(&line, "writes after the restore", async {}).await;
    assert!(account.is_clean(), "{account:#?}");
}
