//! PostgreSQL that the operator runs, with two servers on it: from nothing to `Ready`, through what
//! happens to pods, and back from a backup.

use std::time::Duration;

use crate::common::faults::{self, kubectl, pods, under_load};
use crate::common::{full, nothing_was_warned_of, options, recreate, say};
use crds::v1alpha1::ReportsServer;
use e2e::takeover::{self, Database, NAME, Takeover, is_ready};
use e2e::witness::State;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use testreports::Input;

const LIMIT: Duration = Duration::from_mins(5);

/// The `StatefulSet` of the database.
async fn database(line: &Takeover) -> String {
    let selector = "app.kubernetes.io/component=postgres";
    let name = kubectl(line, &["get", "statefulsets", "-l", selector, "-o", "name"]).await;
    name.trim().to_owned()
}

/// A managed database with two servers is as a user expects to see it.
async fn reads_well(line: &Takeover) {
    assert_eq!(pods(line, "server").await.len(), 2);
    assert_eq!(pods(line, "postgres").await.len(), 1);
    let budgets = kubectl(line, &["get", "poddisruptionbudgets"]).await;
    assert!(budgets.contains("reports"), "{budgets}");
    let servers: Api<ReportsServer> = Api::all(line.client.clone());
    let server = servers.get(NAME).await.unwrap();
    let status = server.status.unwrap();
    let database = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == "DatabaseReady");
    assert!(
        database.is_some_and(|condition| condition.status == "True"),
        "{:?}",
        status.conditions
    );
}

/// Requests that were at a server when it was killed fail, and writes while there is no database;
/// nothing that was acknowledged is lost, no event is missed.
async fn killed(line: &Takeover) {
    let account = under_load(line, "a server is killed", faults::kill_server(line)).await;
    assert!(account.nothing_lost(), "{account:#?}");

    let pod = pods(line, "postgres").await.remove(0);
    let kill = faults::kill(line, &pod, "postgres");
    let account = under_load(line, "the database is killed", kill).await;
    assert!(account.nothing_lost(), "{account:#?}");

    let resize = resize(line, "640Mi");
    let account = under_load(line, "the database gets more memory", resize).await;
    assert!(account.nothing_lost(), "{account:#?}");
}

/// Gives the database another size, which restarts it as a new minor version does.
async fn resize(line: &Takeover, memory: &str) {
    let database = database(line).await;
    let servers: Api<ReportsServer> = Api::all(line.client.clone());
    let patch = json!({"spec": {"database": {"managed": {"resources": {
        "limits": {"memory": memory}}}}}});
    servers
        .patch(NAME, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    let limit = "{.spec.template.spec.containers[0].resources.limits.memory}";
    let applied = format!("--for=jsonpath={limit}={memory}");
    kubectl(line, &["wait", &applied, &database, "--timeout=60s"]).await;
    faults::rolled_out(line, &database).await;
}

/// A backup made now, called `name`.
async fn back_up(line: &Takeover, name: &str) {
    let from = format!("--from=cronjob/{NAME}-backup");
    kubectl(line, &["create", "job", &from, name]).await;
    let job = format!("job/{name}");
    kubectl(
        line,
        &["wait", "--for=condition=Complete", &job, "--timeout=170s"],
    )
    .await;
}

/// Deletes the `ReportsServer` without giving the APIs back, which leaves everything it made at work;
/// loses the database with its volume, and makes the `ReportsServer` again from a backup.
async fn restore(line: &Takeover, backup: &str) {
    let mut spec = Box::pin(recreate::delete(line)).await;
    assert_eq!(pods(line, "server").await.len(), 2);
    State::read(&line.client).await.unwrap();
    let database = database(line).await;
    kubectl(line, &["delete", &database, "--cascade=foreground"]).await;
    kubectl(line, &["delete", "pvc", &format!("{NAME}-postgres-data")]).await;

    spec["database"]["managed"]["bootstrap"] = json!({"recovery": {"backupName": backup}});
    Box::pin(recreate::create(line, &spec)).await;
}

/// The content of a backup is served after it was restored, whatever was written since.
async fn a_backup_is_restored(line: &Takeover) {
    let servers: Api<ReportsServer> = Api::all(line.client.clone());
    let patch = json!({"spec": {"database": {"backup": {
        "schedule": "0 3 * * *", "destination": {"pvc": {"storage": {"size": "1Gi"}}}}}}});
    servers
        .patch(NAME, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    let created = format!("cronjob/{NAME}-backup");
    kubectl(line, &["wait", "--for=create", &created, "--timeout=60s"]).await;
    let before = State::read(&line.client).await.unwrap();
    assert!(!before.0.is_empty());
    back_up(line, "before").await;

    let account = under_load(line, "writes after the backup", async {}).await;
    assert!(account.is_clean(), "{account:#?}");
    assert_ne!(State::read(&line.client).await.unwrap().0, before.0);
    Box::pin(restore(line, "before")).await;
    assert_eq!(State::read(&line.client).await.unwrap().0, before.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_managed_database_goes_through_what_happens_to_pods() {
    let mut options = options(Input::detect(), if full() { 2000 } else { 300 });
    options.database = Database::Managed;
    let (line, outcome) = takeover::run(options, say).await.unwrap();
    println!("{outcome}");
    assert!(outcome.is_clean(), "{outcome}");
    nothing_was_warned_of(&line).await;
    reads_well(&line).await;
    if !full() {
        return;
    }
    faults::servers_come_and_go(&line).await;
    killed(&line).await;
    line.follow("a settled end", LIMIT, is_ready).await.unwrap();
    reads_well(&line).await;
    Box::pin(a_backup_is_restored(&line)).await;
}
