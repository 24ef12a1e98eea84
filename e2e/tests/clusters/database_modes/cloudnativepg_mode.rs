//! Mode `CloudNativePG` against a real kube-apiserver, the real CRD, and servers that really run:
//! from a cluster without `CloudNativePG` to a database in use, through failover and rotation.
use std::collections::BTreeMap;

use e2e::cnpg::{self, CloudNativePg, Entrance};
use e2e::operator::Operator;
use kube::ResourceExt as _;
use serde_json::json;
use testcluster::{Cluster, ClusterOptions};

use super::subject::{NAMESPACE, Subject, times_usable};

/// Name of the `Cluster` that the operator makes for the `ReportsServer` of the tests.
const CLUSTER: &str = "subject-postgres";

#[tokio::test]
async fn a_cluster_is_made_followed_and_referred_to() {
    let cluster = Cluster::start(ClusterOptions::default()).await.unwrap();
    let subject = Subject::prepare(&cluster).await;
    let entrance = Entrance::local().unwrap();
    let host = format!("{CLUSTER}-rw.{NAMESPACE}.svc");
    let resolve = BTreeMap::from([(host.clone(), entrance.address())]);
    let operator = Operator::start(&cluster, resolve).await.unwrap();

    subject
        .apply(
            json!({"mode": "CloudNativePG", "cloudNativePG": {"create": {
            "instances": 2, "storage": {"size": "2Gi"},
            "imageCatalogRef": {"name": "official", "major": 17},
            "backup": {"retentionPolicy": "30d"}}}}),
        )
        .await;
    let message = subject.database_is("CloudNativePGMissing").await;
    assert!(message.contains("install CloudNativePG"), "{message}");

    // Installed later, it is noticed by itself.
    cnpg::install(&subject.client).await.unwrap();
    let message = subject.database_is("ClusterNotReady").await;
    // The first look is before it is made, the next one after.
    let told = ["is being created", "nothing is reported yet"];
    assert!(
        told.iter().any(|words| message.contains(words)),
        "{message}"
    );
    let made = subject.cluster_is_made(CLUSTER).await;
    assert_eq!(made.data["spec"]["instances"], 2);
    assert_eq!(made.data["spec"]["storage"]["size"], "2Gi");
    assert_eq!(made.data["spec"]["imageCatalogRef"]["major"], 17);
    assert_eq!(made.data["spec"]["backup"]["retentionPolicy"], "30d");
    assert_eq!(
        made.data["spec"]["postgresql"]["synchronous"]["dataDurability"],
        "preferred"
    );
    assert!(made.owner_references().is_empty(), "the data is retained");

    let mut provider = CloudNativePg::look_after(&subject.client, NAMESPACE, CLUSTER, entrance)
        .await
        .unwrap();
    subject.database_is("DatabaseAvailable").await;
    let status = subject.database_status().await;
    assert_eq!(status.primary.as_deref(), Some("subject-postgres-1"));
    assert_eq!(status.host, Some(format!("{host}:5432")));
    assert_eq!(status.ready, Some(true));
    let pods = subject.pod_template().await;
    let sources = pods["spec"]["volumes"].to_string();
    for name in ["subject-postgres-app", "subject-postgres-ca"] {
        assert!(sources.contains(name), "{name} in {sources}");
    }

    let seen = Box::pin(async {
        let message = subject.database_is("FailingOver").await;
        assert!(
            message.contains("is failing over from subject-postgres-1 ("),
            "{message}"
        );
    });
    Box::pin(provider.fail_over(seen)).await.unwrap();
    subject.database_is("DatabaseAvailable").await;
    let status = subject.database_status().await;
    assert_eq!(status.primary.as_deref(), Some("subject-postgres-2"));

    let before = times_usable(&operator);
    provider.rotate_password("another").await.unwrap();
    subject
        .database_is_found_usable_again(&operator, before)
        .await;
    let before = times_usable(&operator);
    provider.rotate_certificates().await.unwrap();
    subject
        .database_is_found_usable_again(&operator, before)
        .await;
    subject.database_is("DatabaseAvailable").await;
    assert_eq!(subject.pod_template().await, pods, "no pod is restarted");

    // The same cluster by reference is somebody else's: it is left as it is.
    let before = cnpg::clusters(&subject.client, NAMESPACE)
        .get(CLUSTER)
        .await
        .unwrap();
    subject
        .apply(json!({"mode": "CloudNativePG",
            "cloudNativePG": {"clusterRef": {"name": CLUSTER}}}))
        .await;
    subject.database_is("DatabaseAvailable").await;
    let after = cnpg::clusters(&subject.client, NAMESPACE)
        .get(CLUSTER)
        .await
        .unwrap();
    assert_eq!(after.metadata.generation, before.metadata.generation);

    subject
        .apply(json!({"mode": "CloudNativePG",
            "cloudNativePG": {"clusterRef": {"name": "nowhere"}}}))
        .await;
    let message = subject.database_is("ClusterMissing").await;
    assert!(
        message.contains("Cluster target/nowhere is missing"),
        "{message}"
    );
    let metrics = operator.metrics().unwrap();
    let line =
        "reports_server_operator_database_problem{name=\"subject\",reason=\"ClusterMissing\"} 1";
    assert!(metrics.contains(line), "{metrics}");
}
