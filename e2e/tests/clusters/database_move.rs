//! Reports move while clients write and watch: those of an embedded database to a PostgreSQL that
//! the operator runs, which nobody notices, those of one PostgreSQL to another, and those of a
//! PostgreSQL to the volume of the server.

use std::time::Duration;

use crate::common::faults::{self, kubectl, pods, under_load_within};
use crate::common::{full, options, say};
use crds::names::LABEL_TARGET;
use crds::v1alpha1::ReportsServer;
use crds::v1alpha1::conditions::DATABASE_MOVED;
use e2e::patroni::{DATABASE, OTHER_DATABASE, Patroni};
use e2e::takeover::{self, Database, NAME, TARGET_NAMESPACE, Takeover, is_ready};
use e2e::witness::State;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
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
    spec["database"]["embedded"] = Value::Null;
    let servers: Api<ReportsServer> = Api::all(line.client.clone());
    let patch = Patch::Merge(json!({ "spec": spec }));
    let params = PatchParams::default();
    servers.patch(NAME, &params, &patch).await.unwrap();
}

/// From the change of the mode to servers that are all on PostgreSQL.
async fn moves(line: &Takeover, images: &std::path::Path) {
    ask(line, images).await;
    restart_operator(line).await;
    arrives(line).await;
}

/// Whoever looks after a move may go at any moment.
async fn restart_operator(line: &Takeover) {
    if full() {
        let restart = ["rollout", "restart", "deployment/reports-server-operator"];
        let args = OPERATOR.iter().chain(&restart);
        line.cluster.kubectl(args).await.unwrap();
    }
}

/// Waits until the reports have moved, and all servers are of the new template.
async fn arrives(line: &Takeover) {
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
    order_is_gone(line).await;
    let volume = format!("pvc/{NAME}-data");
    let volume = kubectl(line, &["get", &volume, "-o", "name"]).await;
    assert!(!volume.is_empty(), "the old volume is kept");
    let events = kubectl(line, &["get", "events", "-A", "-o", "name"]).await;
    assert!(!events.is_empty());
}

/// The Secret of the move is deleted when no pod needs it.
async fn order_is_gone(line: &Takeover) {
    let secret = format!("secret/{NAME}-database-move");
    let gone = ["wait", "--for=delete", &secret, "--timeout=60s"];
    kubectl(line, &gone).await;
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

/// The member of the specification that leads to a database of the pair: a Secret of its name.
fn external(database: &str) -> Value {
    json!({"mode": "External", "external": {
        "connectionSecretRef": {"name": database}, "sslMode": "verify-full",
        "caSecretRef": {"name": database},
    }})
}

/// Makes the Secrets that lead to both databases of the pair.
async fn secrets(line: &Takeover, pair: &Patroni<'_>) {
    let secret = |database: &str| {
        json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": database, "namespace": TARGET_NAMESPACE},
            "stringData": {"uri": pair.uri_of(database), "ca.crt": pair.authority()}})
    };
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": TARGET_NAMESPACE, "labels": {LABEL_TARGET: "true"}}});
    let items = [namespace, secret(DATABASE), secret(OTHER_DATABASE)];
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": items});
    line.cluster
        .kubectl_with_input(["apply", "-f", "-"], &objects.to_string())
        .await
        .unwrap();
}

/// Returns what the status says of the database.
async fn told(line: &Takeover, field: &str) -> String {
    let path = format!("jsonpath={{.status.database.{field}}}");
    kubectl(line, &["get", "reportsserver", NAME, "-o", &path]).await
}

/// From another Secret in the specification to servers that are all on the other database. One of
/// them is killed while the reports are copied.
async fn moves_on(line: &Takeover) {
    let database = external(OTHER_DATABASE);
    line.patch_spec(json!({ "database": database }))
        .await
        .unwrap();
    restart_operator(line).await;
    line.follow("the copy", LIMIT, |server| {
        let status = server.status.as_ref();
        let database = status.and_then(|status| status.database.as_ref());
        database.is_some_and(|database| database.move_.is_some())
    })
    .await
    .unwrap();
    // Nobody waits for this pod to be back: the end of the move may replace it before it is.
    let killed = &pods(line, "server").await[0];
    let kill = line
        .cluster
        .kill_container(TARGET_NAMESPACE, killed, "server");
    kill.await.unwrap();
    arrives(line).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_move_from_one_postgresql_to_another_while_they_are_served() {
    let mut options = options(
        Input::Generated { seed: 9 },
        if full() { 10_000 } else { 200 },
    );
    options.database = Database::Given {
        name: "external",
        spec: external(DATABASE),
    };
    let line = Takeover::prepare(options, say).await.unwrap();
    let pair = Patroni::start(&line.cluster).await.unwrap();
    secrets(&line, &pair).await;
    let witness = line.witness().await.unwrap();
    line.install_operator().await.unwrap();
    line.apply().await.unwrap();
    line.follow_to_ready(LIMIT).await.unwrap();
    let account = witness.finish().await.unwrap();
    assert!(account.is_clean(), "the switch: {account:#?}");

    let history = told(&line, "history").await;
    let before = State::read(&line.client).await.unwrap().0;
    let what = "the reports move from one PostgreSQL to another";
    let moves = Box::pin(moves_on(&line));
    let account = under_load_within(4 * LIMIT, &line, what, moves).await;
    assert!(account.nothing_lost(), "{account:#?}");

    order_is_gone(&line).await;
    assert_eq!(pods(&line, "server").await.len(), 2);
    assert_ne!(told(&line, "history").await, history);
    assert_eq!(told(&line, "move").await, "");
    let after = State::read(&line.client).await.unwrap().0;
    for (key, object) in &before {
        assert_eq!(after.get(key), Some(object), "{key:?}");
    }
    // The servers have no tie to the old database.
    let servers = faults::servers(&line).await;
    faults::roll(&line, &servers).await;
    line.follow_to_ready(LIMIT).await.unwrap();
}

/// From the change of the mode to the one server that is left, on its volume.
async fn moves_home(line: &Takeover) {
    let spec = json!({
        "database": {"mode": "Embedded", "managed": null, "embedded": {"storage": {"size": "2Gi"}}},
        "server": {"replicas": 1},
        "images": {"postgres": null},
    });
    line.patch_spec(spec).await.unwrap();
    restart_operator(line).await;
    arrives(line).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_move_to_the_volume_of_the_server_while_they_are_served() {
    let mut options = options(
        Input::Generated { seed: 11 },
        if full() { 10_000 } else { 200 },
    );
    options.database = Database::Managed;
    let (line, outcome) = takeover::run(options, say).await.unwrap();
    assert!(outcome.is_clean(), "{outcome}");
    let before = State::read(&line.client).await.unwrap().0;
    let what = "the reports move to the volume of the server";
    let moves = Box::pin(moves_home(&line));
    let account = under_load_within(4 * LIMIT, &line, what, moves).await;
    // At the end the pod is replaced as an embedded one is: after the old one, not before.
    assert!(account.nothing_lost(), "{account:#?}");

    order_is_gone(&line).await;
    assert_eq!(pods(&line, "server").await.len(), 1);
    for (field, expected) in [("mode", "Embedded"), ("history", ""), ("move", "")] {
        assert_eq!(told(&line, field).await, expected, "{field}");
    }
    let path = "jsonpath={.status.engine}";
    let name = "databases.control.reports-server.io/database";
    assert_eq!(kubectl(&line, &["get", name, "-o", path]).await, "SQLite");
    let after = State::read(&line.client).await.unwrap().0;
    for (key, object) in &before {
        assert_eq!(after.get(key), Some(object), "{key:?}");
    }
    // What is left of PostgreSQL is its volume.
    let stateful_set = format!("statefulset/{NAME}-postgres");
    let gone = ["wait", "--for=delete", &stateful_set, "--timeout=120s"];
    kubectl(&line, &gone).await;
    let volume = format!("pvc/{NAME}-postgres-data");
    let volume = kubectl(&line, &["get", &volume, "-o", "name"]).await;
    assert!(!volume.is_empty(), "the old volume is kept");
    // The server has no tie to the old database.
    let servers = faults::servers(&line).await;
    faults::roll(&line, &servers).await;
    line.follow_to_ready(LIMIT).await.unwrap();
}
