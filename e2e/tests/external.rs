//! A PostgreSQL that somebody else runs: a pair under Patroni that fails over.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "as in unit tests; helpers too"
)]

mod common;

use std::time::Duration;

use common::{faults, full, options, say};
use crds::names::LABEL_TARGET;
use e2e::patroni::Patroni;
use e2e::takeover::{Database, TARGET_NAMESPACE, Takeover};
use serde_json::json;
use testreports::Input;

const LIMIT: Duration = Duration::from_mins(5);
const SECRET: &str = "pair";

fn database() -> Database {
    Database::Given {
        name: "external",
        spec: json!({"mode": "External", "external": {
            "connectionSecretRef": {"name": SECRET}, "sslMode": "verify-full",
            "caSecretRef": {"name": SECRET},
        }}),
    }
}

/// The Secret that leads to the pair.
async fn secret(line: &Takeover, pair: &Patroni<'_>) {
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": TARGET_NAMESPACE, "labels": {LABEL_TARGET: "true"}}},
        {"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": SECRET, "namespace": TARGET_NAMESPACE},
            "stringData": {"uri": pair.uri(), "ca.crt": pair.authority()}},
    ]});
    line.cluster
        .kubectl_with_input(["apply", "-f", "-"], &objects.to_string())
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_survive_the_failover_of_a_pair() {
    let mut options = options(
        Input::Generated { seed: 4 },
        if full() { 1000 } else { 200 },
    );
    options.database = database();
    let line = Takeover::prepare(options, say).await.unwrap();
    let mut pair = Patroni::start(&line.cluster).await.unwrap();
    secret(&line, &pair).await;
    let witness = line.witness().await.unwrap();
    line.install_operator().await.unwrap();
    line.apply().await.unwrap();
    line.follow_to_ready(LIMIT).await.unwrap();
    let account = witness.finish().await.unwrap();
    assert!(account.is_clean(), "the switch: {account:#?}");

    let crash = async {
        pair.crash_primary().await.unwrap();
        pair.restored().await.unwrap();
    };
    let account = faults::under_load(&line, "the primary crashes", crash).await;
    assert!(account.nothing_lost(), "{account:#?}");

    let switch = async {
        pair.switch_over().await.unwrap();
        pair.restored().await.unwrap();
    };
    let account = faults::under_load(&line, "a switchover", switch).await;
    assert!(account.nothing_lost(), "{account:#?}");

    if full() {
        let loss = async {
            let lost = pair.lose_primary().await.unwrap();
            pair.start_again(lost).await.unwrap();
        };
        let account = faults::under_load(&line, "the primary's machine is lost", loss).await;
        assert!(account.nothing_lost(), "{account:#?}");
    }
}
