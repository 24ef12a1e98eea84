//! Backups of an embedded database, made while clients write; the pod and its volume are lost, and
//! another server begins with a backup, from a volume and from a bucket.

use std::time::Duration;

use crate::common::faults::{self, kubectl, pods, under_load};
use crate::common::{full, options, recreate, say};
use crds::v1alpha1::ReportsServer;
use e2e::s3::S3;
use e2e::takeover::{self, NAME, TARGET_NAMESPACE, Takeover, is_ready};
use e2e::witness::State;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use testreports::Input;

const LIMIT: Duration = Duration::from_mins(5);

async fn patch(line: &Takeover, spec: Value) -> ReportsServer {
    let servers: Api<ReportsServer> = Api::all(line.client.clone());
    let patch = Patch::Merge(json!({ "spec": spec }));
    servers
        .patch(NAME, &PatchParams::default(), &patch)
        .await
        .unwrap()
}

/// Has backups sent to `destination`, and waits for the server that makes copies.
async fn send_backups_to(line: &Takeover, destination: &Value) {
    let spec = json!({"database": {"backup": {"destination": destination}}});
    let generation = patch(line, spec).await.metadata.generation;
    let carried_out = |server: &ReportsServer| {
        let observed = server
            .status
            .as_ref()
            .and_then(|own| own.observed_generation);
        observed >= generation && is_ready(server)
    };
    line.follow("a server that makes copies", LIMIT, carried_out)
        .await
        .unwrap();
}

/// A backup made now, called `name`, as the status tells it.
async fn back_up(line: &Takeover, name: &str) {
    let from = format!("--from=cronjob/{NAME}-backup");
    kubectl(line, &["create", "job", &from, name]).await;
    let job = format!("job/{name}");
    let complete = ["wait", "--for=condition=Complete", &job, "--timeout=170s"];
    kubectl(line, &complete).await;
}

/// Waits until the status tells of the backup.
async fn is_told(line: &Takeover, name: &str) {
    let told = |server: &ReportsServer| {
        let status = serde_json::to_value(&server.status).unwrap();
        let last = &status["database"]["lastBackup"];
        (&last["name"], &last["result"]) == (&json!(name), &json!("Succeeded"))
    };
    line.follow("the end of the backup", LIMIT, told)
        .await
        .unwrap();
}

/// Deletes the `ReportsServer` without giving the APIs back; loses the server with its volume, and
/// makes the `ReportsServer` again from a backup.
async fn restore(line: &Takeover, backup: &str) {
    let mut spec = Box::pin(recreate::delete(line)).await;
    let server = faults::servers(line).await;
    kubectl(line, &["delete", &server, "--cascade=foreground"]).await;
    kubectl(line, &["delete", "pvc", &format!("{NAME}-data")]).await;
    assert_eq!(pods(line, "server").await, [""; 0]);

    spec["database"]["embedded"]["bootstrap"] = json!({"recovery": {"backupName": backup}});
    Box::pin(recreate::create(line, &spec)).await;
}

/// The content of a backup is served after it was restored, as it was, whatever was written since.
async fn is_restored(line: &Takeover, backup: &str, before: &State) {
    let account = under_load(line, "writes after the backup", async {}).await;
    assert!(account.is_clean(), "{account:#?}");
    Box::pin(restore(line, backup)).await;
    let after = State::read(&line.client).await.unwrap().0;
    for (key, object) in &before.0 {
        assert_eq!(after.get(key), Some(object), "{key:?}");
    }
    let account = under_load(line, "writes after the restore", async {}).await;
    assert!(account.is_clean(), "{account:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_embedded_database_that_is_lost_begins_with_a_backup() {
    let options = options(Input::detect(), if full() { 5000 } else { 200 });
    let (line, outcome) = takeover::run(options, say).await.unwrap();
    assert!(outcome.is_clean(), "{outcome}");

    let volume = json!({"pvc": {"storage": {"size": "1Gi"}}});
    send_backups_to(&line, &volume).await;
    // No client notices that a copy is made; what it writes meanwhile may be in it or not.
    let before = State::read(&line.client).await.unwrap();
    assert!(!before.0.is_empty());
    let backup = back_up(&line, "under-load");
    let account = under_load(&line, "a backup is made", backup).await;
    assert!(account.is_clean(), "{account:#?}");
    is_told(&line, "under-load").await;
    Box::pin(is_restored(&line, "under-load", &before)).await;

    if full() {
        Box::pin(from_a_bucket(&line)).await;
    } else {
        say("left out: a backup in a bucket, with E2E_FULL only");
    }
}

/// A backup in a bucket is restored, in place of the one that the specification named before.
async fn from_a_bucket(line: &Takeover) {
    let s3 = S3::start(&line.cluster).await.unwrap();
    let secret = s3.secret(TARGET_NAMESPACE).to_string();
    line.cluster
        .kubectl_with_input(["apply", "-f", "-"], &secret)
        .await
        .unwrap();
    // The last one was restored already; the specification cannot keep it for another.
    let bucket = json!({"s3": s3.destination(), "pvc": null});
    send_backups_to(line, &bucket).await;
    let before = State::read(&line.client).await.unwrap();
    back_up(line, "quiet").await;
    is_told(line, "quiet").await;
    let stored = s3.client(&line.cluster).unwrap().list().await.unwrap();
    let names: Vec<_> = stored.iter().map(|backup| backup.name.as_str()).collect();
    assert_eq!(names, ["quiet"]);
    Box::pin(is_restored(line, "quiet", &before)).await;
}
