//! The reports of an embedded database move to a PostgreSQL that the operator runs, while clients
//! write and watch: none of them notices.

use std::time::Duration;

use crate::common::faults::{self, kubectl, pods, under_load_within};
use crate::common::{full, options, say};
use crds::v1alpha1::ReportsServer;
use crds::v1alpha1::conditions::DATABASE_MOVED;
use e2e::takeover::{self, Database, NAME, Takeover, is_ready};
use e2e::witness::State;
use kube::Api;
use kube::api::{Patch, PatchParams};
use testreports::Input;

/// Of each step: a database starts, the kubelet brings a Secret in, pods are replaced.
const LIMIT: Duration = Duration::from_mins(5);
/// Operator's own namespace.
const OPERATOR: [&str; 2] = ["-n", takeover::OPERATOR_NAMESPACE];

fn is_moved(server: &ReportsServer) -> bool {
    let status = server.status.as_ref();
    let mut conditions = status.into_iter().flat_map(|status| &status.conditions);
    conditions.any(|c| c.type_ == DATABASE_MOVED && c.status == "True")
}

/// Asks for a managed database, and in the same step for other resources of the server's pods.
async fn ask(line: &Takeover, images: &std::path::Path) {
    let mut spec = Database::Managed.spec(images).unwrap();
    spec["database"]["embedded"] = serde_json::Value::Null;
    let servers: Api<ReportsServer> = Api::all(line.client.clone());
    let patch = Patch::Merge(serde_json::json!({ "spec": spec }));
    let params = PatchParams::default();
    servers.patch(NAME, &params, &patch).await.unwrap();
}

/// From the change of the mode to servers that are all on PostgreSQL.
async fn moves(line: &Takeover, images: &std::path::Path) {
    ask(line, images).await;
    if full() {
        // Whoever looks after it may go at any moment.
        let restart = ["rollout", "restart", "deployment/reports-server-operator"];
        let args = OPERATOR.iter().chain(&restart);
        line.cluster.kubectl(args).await.unwrap();
    }
    line.follow("the move of the reports", LIMIT, is_moved)
        .await
        .unwrap();
    let servers = faults::servers(line).await;
    faults::rolled_out(line, &servers).await;
    line.follow("servers on PostgreSQL", LIMIT, |server| {
        is_ready(server) && is_moved(server)
    })
    .await
    .unwrap();
}

/// The state after the move is as it was asked for.
async fn reads_well(line: &Takeover) {
    assert_eq!(pods(line, "server").await.len(), 2);
    // What would have replaced the embedded pod waited for the end of the move.
    let servers = faults::servers(line).await;
    let path = "jsonpath={.spec.template.spec.containers[0].resources.requests.cpu}";
    assert_eq!(kubectl(line, &["get", &servers, "-o", path]).await, "50m");
    let path = "jsonpath={.status.engine}";
    let name = "databases.control.reports-server.io/database";
    assert_eq!(
        kubectl(line, &["get", name, "-o", path]).await,
        "PostgreSQL"
    );
    let path = "jsonpath={.status.database.mode} {.status.database.move}";
    let status = kubectl(line, &["get", "reportsserver", NAME, "-o", path]).await;
    assert_eq!(status.trim(), "Managed");
    let secret = format!("secret/{NAME}-database-move");
    let gone = ["wait", "--for=delete", &secret, "--timeout=60s"];
    kubectl(line, &gone).await;
    let volume = format!("pvc/{NAME}-data");
    let volume = kubectl(line, &["get", &volume, "-o", "name"]).await;
    assert!(!volume.is_empty(), "the volume of before is kept");
    let events = kubectl(line, &["get", "events", "-A", "-o", "name"]).await;
    assert!(!events.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_move_to_postgresql_while_they_are_served() {
    let options = options(Input::detect(), if full() { 10_000 } else { 200 });
    let images = options.images.clone();
    let (line, outcome) = takeover::run(options, say).await.unwrap();
    assert!(outcome.is_clean(), "{outcome}");
    for archive in Database::Managed.archives(&images) {
        line.cluster.load_image(&archive).await.unwrap();
    }
    let before = State::read(&line.client).await.unwrap().0;
    let moves = Box::pin(moves(&line, &images));
    let what = "the reports move to PostgreSQL";
    let account = under_load_within(3 * LIMIT, &line, what, moves).await;
    assert!(account.is_clean(), "{account:#?}");
    reads_well(&line).await;
    // What nobody wrote to meanwhile is what it was, in every byte and version.
    let after = State::read(&line.client).await.unwrap().0;
    for (key, object) in &before {
        assert_eq!(after.get(key), Some(object), "{key:?}");
    }
}
