//! The deletion of the `ReportsServer` without giving the APIs back, and the creation of one in its
//! place.

use std::time::Duration;

use crds::v1alpha1::ReportsServer;
use e2e::takeover::{NAME, Takeover, is_ready};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_mins(5);

/// Deletes the `ReportsServer`, which leaves everything it made at work; returns its specification.
pub async fn delete(line: &Takeover) -> Value {
    let servers: Api<ReportsServer> = Api::all(line.client.clone());
    let patch = json!({"spec": {"deletionPolicy": {"apis": "Orphan", "data": "Retain"}}});
    let old = servers
        .patch(NAME, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    servers
        .delete(NAME, &DeleteParams::default())
        .await
        .unwrap();
    let gone = conditions::is_deleted(old.metadata.uid.as_deref().unwrap());
    let gone = await_condition(servers, NAME, gone);
    tokio::time::timeout(LIMIT, gone).await.unwrap().unwrap();
    serde_json::to_value(&old.spec).unwrap()
}

/// Makes the `ReportsServer` again, with a database that starts with a backup, and waits until it is
/// `Ready`.
pub async fn create(line: &Takeover, spec: &Value) {
    let servers: Api<ReportsServer> = Api::all(line.client.clone());
    let new = json!({"apiVersion": "reports-server.io/v1alpha1", "kind": "ReportsServer",
        "metadata": {"name": NAME}, "spec": spec});
    let new = serde_json::from_value(new).unwrap();
    servers.create(&PostParams::default(), &new).await.unwrap();
    line.follow("the restored database", LIMIT, is_ready)
        .await
        .unwrap();
}
