//! Backups in an S3 bucket, and another cluster that begins with one of them.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::common::faults::{self, kubectl};
use crate::common::{full, options, say};
use crds::names::LABEL_TARGET;
use crds::v1alpha1::ReportsServer;
use e2e::s3::S3;
use e2e::takeover::{Database, NAME, TARGET_NAMESPACE, Takeover, is_ready};
use e2e::witness::State;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use reports_server::backup::Error;
use serde_json::{Value, json};
use testreports::Input;

const LIMIT: Duration = Duration::from_mins(5);
const BACKUP: &str = "before";

/// A large file goes in parts and comes back; what is wrong is told.
async fn the_bucket_does_as_asked(line: &Takeover, s3: &S3) {
    let directory = tempfile::tempdir().unwrap();
    let [sent, back] = ["sent", "back"].map(|name| directory.path().join(name));
    let content: Vec<u8> = (0..=u8::MAX).cycle().take(40_000_000).collect();
    fs::write(&sent, &content).unwrap();
    let bucket = s3.client(&line.cluster).unwrap();
    for name in ["small", "large"] {
        let file = if name == "small" {
            Path::new(file!())
        } else {
            &sent
        };
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
        let bytes = bucket.put(name, &file).await.unwrap();
        assert_eq!(bucket.get(name, &back).await.unwrap(), bytes);
        assert!(
            fs::read(&back).unwrap() == fs::read(&file).unwrap(),
            "{name}"
        );
    }
    let missing = bucket.get("nowhere", &back).await.unwrap_err();
    assert!(
        matches!(&missing, Error::Missing { present, .. } if present == &["large", "small"]),
        "{missing}"
    );
    for name in ["large", "small"] {
        bucket.remove(name).await.unwrap();
    }
    assert_eq!(bucket.list().await.unwrap(), []);
    let stranger = s3.client_with(&line.cluster, "wrong").unwrap();
    let refused = stranger.list().await.unwrap_err();
    assert!(
        matches!(refused, Error::Refused { status: 403, .. }),
        "{refused}"
    );
}

/// Creates the target namespace, and the Secret with which the operator and the servers find the
/// bucket.
async fn secret(line: &Takeover, s3: &S3) {
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": TARGET_NAMESPACE, "labels": {LABEL_TARGET: "true"}}},
        s3.secret(TARGET_NAMESPACE),
    ]});
    line.cluster
        .kubectl_with_input(["apply", "-f", "-"], &objects.to_string())
        .await
        .unwrap();
}

/// A backup made now; the `ReportsServer` as it is then.
async fn back_up(line: &Takeover, s3: &S3) -> ReportsServer {
    let servers: Api<ReportsServer> = Api::all(line.client.clone());
    let patch =
        json!({"spec": {"database": {"backup": {"destination": {"s3": s3.destination()}}}}});
    servers
        .patch(NAME, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    let cron_job = format!("cronjob/{NAME}-backup");
    kubectl(line, &["wait", "--for=create", &cron_job, "--timeout=60s"]).await;
    let from = format!("--from={cron_job}");
    kubectl(line, &["create", "job", &from, BACKUP]).await;
    let told = |server: &ReportsServer| {
        let database = server
            .status
            .as_ref()
            .and_then(|status| status.database.as_ref());
        let backup = database.and_then(|database| database.last_backup.as_ref());
        backup.is_some_and(|backup| backup.name.as_deref() == Some(BACKUP))
    };
    line.follow("the end of the backup", LIMIT, told)
        .await
        .unwrap();
    let server = servers.get(NAME).await.unwrap();
    let status = serde_json::to_value(&server.status).unwrap();
    assert_eq!(
        status["database"]["lastBackup"]["result"], "Succeeded",
        "{status}"
    );
    server
}

/// uid of the namespace that tells one cluster from another.
async fn identity(line: &Takeover) -> String {
    let namespaces: Api<Namespace> = Api::all(line.client.clone());
    let namespace = namespaces.get("kube-system").await.unwrap();
    namespace.metadata.uid.unwrap()
}

/// The reports of the first cluster, and what a user takes to the second.
struct Kept {
    state: State,
    spec: Value,
}

async fn first_cluster(dump: &Path, database: &Database) -> Kept {
    let mut options = options(Input::Generated { seed: 7 }, 200);
    options.database = database.clone();
    let line = Takeover::prepare(options, say).await.unwrap();
    let s3 = S3::start(&line.cluster).await.unwrap();
    the_bucket_does_as_asked(&line, &s3).await;
    secret(&line, &s3).await;
    line.install_operator().await.unwrap();
    line.apply().await.unwrap();
    line.follow_to_ready(LIMIT).await.unwrap();
    // Some reports are as they were in etcd, and others have been written since.
    let label = [
        "label",
        "policyreports.wgpolicyk8s.io",
        "--all",
        "--all-namespaces",
        "touched=yes",
    ];
    line.cluster.kubectl(label).await.unwrap();
    let state = State::read(&line.client).await.unwrap();
    let server = back_up(&line, &s3).await;
    s3.client(&line.cluster)
        .unwrap()
        .get(BACKUP, dump)
        .await
        .unwrap();
    let mut spec = serde_json::to_value(&server.spec).unwrap();
    // An embedded database holds one cluster, whatever its identity.
    if let Database::Managed = database {
        spec["clusterIdentity"] = json!({"id": identity(&line).await});
    }
    Kept { state, spec }
}

async fn second_cluster(dump: &Path, kept: Kept, database: &Database) {
    let mut options = options(Input::Generated { seed: 7 }, 0);
    options.database = database.clone();
    // Owners of the reports are objects of the first cluster: Kubernetes would remove such reports.
    let controllers = "--controllers=-garbage-collector-controller";
    options.cluster.controller_args.push(controllers.to_owned());
    let line = Takeover::prepare(options, say).await.unwrap();
    let s3 = S3::start(&line.cluster).await.unwrap();
    let bucket = s3.client(&line.cluster).unwrap();
    bucket.put(BACKUP, dump).await.unwrap();
    secret(&line, &s3).await;
    line.install_operator().await.unwrap();

    let mut spec = kept.spec;
    spec["database"][database.name()]["bootstrap"] = json!({"recovery": {"backupName": BACKUP}});
    let server = json!({"apiVersion": "reports-server.io/v1alpha1", "kind": "ReportsServer",
        "metadata": {"name": NAME}, "spec": spec});
    let servers: Api<ReportsServer> = Api::all(line.client.clone());
    let server = serde_json::from_value(server).unwrap();
    servers
        .create(&PostParams::default(), &server)
        .await
        .unwrap();
    line.follow_to_ready(LIMIT).await.unwrap();
    assert_eq!(State::read(&line.client).await.unwrap().0, kept.state.0);

    let account = faults::under_load(&line, "writes after the restore", async {}).await;
    assert!(account.is_clean(), "{account:#?}");
    line.follow("a settled end", LIMIT, is_ready).await.unwrap();
}

async fn another_cluster_begins(database: &Database) {
    let directory = tempfile::tempdir().unwrap();
    let dump = directory.path().join("kept.dump");
    let kept = Box::pin(first_cluster(&dump, database)).await;
    assert!(!kept.state.0.is_empty());
    // Nothing is left of the first cluster now but what was in the bucket.
    Box::pin(second_cluster(&dump, kept, database)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_cluster_begins_with_the_backup_of_the_first() {
    another_cluster_begins(&Database::Managed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_cluster_begins_with_the_backup_of_an_embedded_database() {
    if full() {
        another_cluster_begins(&Database::Embedded).await;
    }
}
