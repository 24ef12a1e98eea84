//! PostgreSQL that the real `CloudNativePG` runs, built from its source: provisioning, failover,
//! another CA, a major upgrade and its own backup, with two servers on it. Only with `E2E_FULL`:
//! the build alone takes minutes, and `CloudNativePG` as long for each step.

mod backup;
mod install;
mod provider;
mod stand_in;

use std::path::Path;
use std::time::{Duration, Instant};

use self::install::Catalog;
use self::provider::{CLUSTER, LIMIT, another_value, cluster_is, is_healthy, primary, value_of};
use crate::common::faults::{self, kubectl, under_load, under_load_within};
use crate::common::{options, say};
use crds::v1alpha1::ReportsServer;
use crds::v1alpha1::status::DatabaseStatus;
use e2e::takeover::{Database, Takeover, is_ready};
use serde_json::{Value, json};
use testreports::Input;

/// Time within which the kubelet brings changed Secrets to the servers, and they connect again.
const BROUGHT: Duration = Duration::from_mins(4);

/// Returns a cluster with `CloudNativePG` and our operator, for a `ReportsServer` that has a
/// `Cluster` made by `create`.
async fn prepared(parts: &Path, create: Value) -> Takeover {
    let mut options = options(Input::Generated { seed: 5 }, 300);
    options.database = Database::Given {
        name: "cloudnativepg",
        spec: json!({"mode": "CloudNativePG", "cloudNativePG": {"create": create}}),
    };
    let line = Takeover::prepare(options, say).await.unwrap();
    install::install(&line, parts).await;
    line.install_operator().await.unwrap();
    line
}

fn database(server: &ReportsServer) -> Option<&DatabaseStatus> {
    server.status.as_ref()?.database.as_ref()
}

/// Waits until the `ReportsServer` is ready, with this primary.
async fn follows(line: &Takeover, primary: &str) {
    line.follow("the primary in the status", LIMIT, |server| {
        let told = database(server).and_then(|database| database.primary.as_deref());
        is_ready(server) && told == Some(primary)
    })
    .await
    .unwrap();
}

/// Waits until clients notice nothing any more: servers connect again by what the kubelet brings.
async fn settles(line: &Takeover) {
    let began = Instant::now();
    loop {
        let account = under_load(line, "afterwards", async {}).await;
        assert!(account.nothing_lost(), "{account:#?}");
        if account.is_clean() {
            return;
        }
        assert!(began.elapsed() < BROUGHT, "{account:#?}");
    }
}

/// The primary's pod is lost, and a standby takes over.
async fn fail_over(line: &Takeover) {
    let cluster = cluster_is(line, CLUSTER, "a healthy Cluster", is_healthy).await;
    let before = primary(&cluster);
    let lost = Box::pin(async {
        let pod = format!("pod/{before}");
        kubectl(line, &["delete", &pod, "--grace-period=1", "--wait=false"]).await;
        let another = |cluster: &Value| is_healthy(cluster) && primary(cluster) != before;
        cluster_is(line, CLUSTER, "another primary", another).await
    });
    let mut after = String::new();
    let account = under_load_within(LIMIT, line, "the primary's pod is lost", async {
        after = primary(&lost.await);
    })
    .await;
    assert!(account.nothing_lost(), "{account:#?}");
    follows(line, &after).await;
}

/// While the operator of `CloudNativePG` is away, nobody admits a write of the `Cluster`. That
/// holds up nothing of ours.
async fn its_operator_is_away(line: &Takeover) {
    install::end(line).await;
    let servers = |number: u32| json!({"server": {"replicas": number}});
    let away = Box::pin(async {
        line.patch_spec(servers(3)).await.unwrap();
        let deployment = faults::servers(line).await;
        let scaled = "--for=jsonpath={.spec.replicas}=3";
        kubectl(line, &["wait", scaled, &deployment, "--timeout=120s"]).await;
        line.follow("a third server", LIMIT, is_ready)
            .await
            .unwrap();
    });
    let account = under_load_within(LIMIT, line, "CloudNativePG is away", away).await;
    assert!(account.is_clean(), "{account:#?}");
    install::start_again(line).await;
    line.patch_spec(servers(2)).await.unwrap();
    line.follow("two servers", LIMIT, is_ready).await.unwrap();
}

/// `CloudNativePG` makes another CA when there is none any more, and certificates when there are
/// none; it keeps those that the former CA has signed.
async fn another_ca(line: &Takeover) {
    let secrets = ["ca", "server", "replication"].map(|name| format!("{CLUSTER}-{name}"));
    let [ca, server, replication] = &secrets;
    let authority = value_of(line, ca, "ca.crt").await;
    let certificate = value_of(line, server, "tls.crt").await;
    let client = value_of(line, replication, "tls.crt").await;
    let rotated = Box::pin(async {
        kubectl(line, &["delete", "secret", ca, server, replication]).await;
        another_value(line, ca, "ca.crt", &authority).await;
        another_value(line, server, "tls.crt", &certificate).await;
        another_value(line, replication, "tls.crt", &client).await;
        cluster_is(line, CLUSTER, "a healthy Cluster", is_healthy).await;
    });
    let account = under_load_within(LIMIT, line, "another CA", rotated).await;
    assert!(account.nothing_lost(), "{account:#?}");
    settles(line).await;
}

/// Another version in the `ReportsServer` becomes that of PostgreSQL; all instances stop meanwhile.
async fn upgrade(line: &Takeover, major: i64) {
    let upgraded = Box::pin(async {
        let reference = json!({"imageCatalogRef": {"major": major}});
        let patch = json!({"database": {"cloudNativePG": {"create": reference}}});
        line.patch_spec(patch).await.unwrap();
        let upgraded = |cluster: &Value| {
            cluster["status"]["pgDataImageInfo"]["majorVersion"] == major && is_healthy(cluster)
        };
        cluster_is(line, CLUSTER, "the next major version", upgraded).await;
    });
    let account = under_load_within(LIMIT, line, "a major upgrade", upgraded).await;
    assert!(account.nothing_lost(), "{account:#?}");
    let wanted = format!("{major}.");
    line.follow("the next version in the status", LIMIT, |server| {
        let versions = server
            .status
            .as_ref()
            .and_then(|status| status.versions.as_ref());
        let version = versions.and_then(|versions| versions.postgres.as_ref());
        is_ready(server) && version.is_some_and(|version| version.starts_with(&wanted))
    })
    .await
    .unwrap();
    settles(line).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_in_full_runs_reports_survive_what_the_real_cloudnativepg_does() {
    let Some(parts) = install::parts() else {
        return;
    };
    let catalog = Catalog::read(&parts);
    // Three instances, as where nothing is said.
    let create = json!({"storage": {"size": "2Gi"}, "imageCatalogRef": catalog.reference()});
    let line = Box::pin(prepared(&parts, create)).await;
    let witness = line.witness().await.unwrap();
    line.apply().await.unwrap();
    line.follow_to_ready(LIMIT).await.unwrap();
    let account = witness.finish().await.unwrap();
    assert!(account.is_clean(), "the switch: {account:#?}");
    let cluster = cluster_is(&line, CLUSTER, "a healthy Cluster", is_healthy).await;
    assert_eq!(cluster["status"]["instances"], 3);
    follows(&line, &primary(&cluster)).await;
    Box::pin(stand_in::is_alike(&line, &cluster)).await;

    Box::pin(fail_over(&line)).await;
    settles(&line).await;
    Box::pin(its_operator_is_away(&line)).await;
    Box::pin(another_ca(&line)).await;
    // All connections are new after that, by the new CA.
    Box::pin(fail_over(&line)).await;
    settles(&line).await;
    Box::pin(upgrade(&line, catalog.majors[1])).await;
}
