//! PostgreSQL that `CloudNativePG` runs, with two servers on it: from a cluster with its CRDs to
//! reports out of etcd, through failover and rotation. A stand-in does what `CloudNativePG` does, on
//! PostgreSQL servers that really run; see `cloudnativepg_operator` for the real one.

use std::time::Duration;

use crate::common::faults::{self, kubectl, under_load};
use crate::common::{full, options, say};
use e2e::cnpg::{self, CloudNativePg, Entrance};
use e2e::takeover::{Database, NAME, TARGET_NAMESPACE, Takeover, is_ready};
use serde_json::json;
use testreports::Input;

const LIMIT: Duration = Duration::from_mins(5);

fn database() -> Database {
    Database::Given {
        name: "cloudnativepg",
        spec: json!({"mode": "CloudNativePG", "cloudNativePG": {"create": {
            "instances": 2, "storage": {"size": "2Gi"}}}}),
    }
}

/// The primary dies, and the standby takes over.
async fn fail_over(line: &Takeover, provider: &mut CloudNativePg) {
    let before = provider.primary();
    let between = async {};
    let failover = async { Box::pin(provider.fail_over(between)).await.unwrap() };
    let account = under_load(line, "a failover", failover).await;
    assert!(account.nothing_lost(), "{account:#?}");
    assert_ne!(provider.primary(), before);
    let after = provider.primary();
    line.follow("the next primary in the status", LIMIT, |server| {
        let database = server
            .status
            .as_ref()
            .and_then(|status| status.database.as_ref());
        is_ready(server) && database.and_then(|database| database.primary.as_ref()) == Some(&after)
    })
    .await
    .unwrap();
}

/// Whoever has a connection keeps it. A new one may be refused until the pods have the new Secret,
/// and requests wait for that no longer than for a failover.
async fn rotate(line: &Takeover, provider: &mut CloudNativePg) {
    let password = async { provider.rotate_password("another").await.unwrap() };
    let account = under_load(line, "another password", password).await;
    assert!(account.is_clean(), "{account:#?}");

    let certificates = async { provider.rotate_certificates().await.unwrap() };
    let account = under_load(line, "certificates of another CA", certificates).await;
    assert!(account.is_clean(), "{account:#?}");
}

/// Of a killed server nothing is lost that was acknowledged.
async fn a_server_is_killed(line: &Takeover) {
    let kill = faults::kill_server(line);
    let account = under_load(line, "a server is killed", kill).await;
    assert!(account.nothing_lost(), "{account:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_survive_the_failover_of_a_cloudnativepg_cluster() {
    let mut options = options(
        Input::Generated { seed: 5 },
        if full() { 1000 } else { 200 },
    );
    options.database = database();
    let line = Takeover::prepare(options, say).await.unwrap();
    cnpg::install(&line.client).await.unwrap();
    let entrance = Entrance::of_node(&line.cluster).unwrap();
    let witness = line.witness().await.unwrap();
    line.install_operator().await.unwrap();
    line.apply().await.unwrap();
    let made = format!("{NAME}-postgres");
    let mut provider = CloudNativePg::look_after(&line.client, TARGET_NAMESPACE, &made, entrance)
        .await
        .unwrap();
    line.follow_to_ready(LIMIT).await.unwrap();
    let account = witness.finish().await.unwrap();
    assert!(account.is_clean(), "the switch: {account:#?}");

    fail_over(&line, &mut provider).await;
    if full() {
        faults::servers_come_and_go(&line).await;
        a_server_is_killed(&line).await;
    }
    // Last: until the kubelet has brought the new Secrets, a pod cannot open more connections.
    rotate(&line, &mut provider).await;
    let servers = kubectl(&line, &["get", "reportsservers", "-o", "wide"]).await;
    assert!(servers.contains("CloudNativePG"), "{servers}");
    assert!(servers.contains(&provider.primary()), "{servers}");
}
