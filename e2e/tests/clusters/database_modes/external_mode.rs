//! Mode `External` against a real kube-apiserver and a real PostgreSQL: each mistake is told with
//! a reason of its own, and is over as soon as it is mended.
use std::collections::BTreeMap;

use e2e::operator::Operator;
use pgtest::{Authority, Postgres, PostgresOptions, Tls};
use serde_json::json;
use testcluster::{Cluster, ClusterOptions};

use super::subject::{NAMESPACE, Subject, times_usable};

/// The history in the database, and one that is not there.
const THERE: &str = "6f1c0f0e-3d0e-4f5a-9a51-0d4d7c1b2a33";
const ELSEWHERE: &str = "0f5e3c1a-7a54-4bb8-8d5f-2f0c4d1e9b77";

#[tokio::test]
async fn mistakes_are_told_and_mended_without_a_restart() {
    let server = Postgres::start(PostgresOptions::quick().with_tls(Tls::Required))
        .await
        .unwrap();
    let cluster = Cluster::start(ClusterOptions::default()).await.unwrap();
    let subject = Subject::prepare(&cluster).await;
    let operator = Operator::start(&cluster, BTreeMap::new()).await.unwrap();
    subject
        .apply(
            json!({"mode": "External", "pool": {"maxConnections": 5}, "external": {
            "connectionSecretRef": {"name": "pg"}, "caSecretRef": {"name": "pg-ca"},
            "keys": {"password": "geheim"}}}),
        )
        .await;

    let message = subject.database_is("SecretMissing").await;
    assert_eq!(
        message,
        format!("secret {NAMESPACE}/pg is missing: create it")
    );
    let good = server.params().without("ca.crt").without("sslmode");
    let with_password = |password: &str| good.clone().without("password").with("geheim", password);
    let right = with_password(&server.password());

    subject.secret("pg", &good).await;
    let message = subject.database_is("SecretKeyMissing").await;
    assert!(message.contains("has no key \"geheim\""), "{message}");

    subject.secret("pg", &right).await;
    subject.database_is("SecretMissing").await;
    let other = Authority::new("other").unwrap();
    let ca = |pem: &str| pgtest::Params::new().with("ca.crt", pem);
    subject.secret("pg-ca", &ca(other.pem())).await;
    let message = subject.database_is("TLSMismatch").await;
    assert!(
        message.contains("not signed by a CA in `ca.crt`"),
        "{message}"
    );

    let ours = ca(server.authority().unwrap().pem());
    subject.secret("pg-ca", &ours).await;
    subject.database_is("DatabaseAvailable").await;
    let pods = subject.pod_template().await;
    let args = pods["spec"]["containers"][0]["args"].to_string();
    assert!(args.contains("--database-max-connections=5"), "{args}");

    subject.secret("pg", &with_password("wrong")).await;
    let message = subject.database_is("WrongPassword").await;
    assert!(
        message.contains("write the right password into the Secret"),
        "{message}"
    );
    subject.event("WrongPassword").await;

    subject
        .secret("pg", &right.clone().with("dbname", "nowhere"))
        .await;
    subject.database_is("DatabaseMissing").await;

    server
        .sql("ALTER DATABASE reports OWNER TO postgres")
        .await
        .unwrap();
    subject.secret("pg", &right).await;
    let message = subject.database_is("RightsMissing").await;
    assert!(message.contains("GRANT CREATE ON DATABASE"), "{message}");

    server
        .sql("ALTER DATABASE reports OWNER TO reports")
        .await
        .unwrap();
    // Nothing in the cluster tells of it: it is noticed all the same.
    subject.database_is("DatabaseAvailable").await;
    subject.event("DatabaseAvailable").await;

    server.set_password("another").await.unwrap();
    let before = times_usable(&operator);
    subject.secret("pg", &with_password("another")).await;
    subject
        .database_is_found_usable_again(&operator, before)
        .await;
    subject.database_is("DatabaseAvailable").await;
    assert_eq!(subject.pod_template().await, pods, "no pod is restarted");

    let status = subject.database_status().await;
    let place = format!("127.0.0.1:{}", server.port());
    assert_eq!(status.host.as_deref(), Some(place.as_str()));
    assert_eq!(status.primary.as_deref(), Some(place.as_str()));
    assert_eq!((status.ready, status.size_bytes), (Some(true), Some(0)));
    let metrics = operator.metrics().unwrap();
    let line = "reports_server_operator_database_usable{name=\"subject\"} 1";
    assert!(metrics.contains(line), "{metrics}");
}

/// Makes what a server would have left in the database: a cluster under an identity.
async fn leave_behind(server: &Postgres, uid: &str) {
    let tables = format!(
        "CREATE SCHEMA reports_server;
         CREATE TABLE reports_server.clusters (cluster int, identity text, history uuid,
             cluster_uid text);
         CREATE TABLE reports_server.commits (cluster int);
         INSERT INTO reports_server.clusters VALUES (1, 'former', '{THERE}', '{uid}');
         INSERT INTO reports_server.commits VALUES (1)"
    );
    let client = server.client().await.unwrap();
    client.batch_execute(&tables).await.unwrap();
}

#[tokio::test]
async fn a_database_is_known_by_identity_and_history() {
    let server = Postgres::start(PostgresOptions::quick()).await.unwrap();
    let cluster = Cluster::start(ClusterOptions::default()).await.unwrap();
    let subject = Subject::prepare(&cluster).await;
    let uid = [
        "get",
        "namespace",
        "kube-system",
        "-o",
        "jsonpath={.metadata.uid}",
    ];
    let uid = cluster.kubectl(uid).await.unwrap();
    leave_behind(&server, uid.trim()).await;
    subject.secret("pg", &server.params()).await;
    let _operator = Operator::start(&cluster, BTreeMap::new()).await.unwrap();
    let external = json!({"connectionSecretRef": {"name": "pg"}, "sslMode": "disable"});
    subject
        .apply_spec(json!({"apis": [], "clusterIdentity": {"id": "renamed"},
            "database": {"mode": "External", "external": external}}))
        .await;

    let message = subject.database_is("OtherIdentity").await;
    let words =
        "holds the reports of this cluster under former, not under renamed; set it to former";
    assert!(message.contains(words), "{message}");
    subject.event("OtherIdentity").await;
    let rename = "UPDATE reports_server.clusters SET identity = 'renamed'";
    server.sql(rename).await.unwrap();
    subject.database_is("DatabaseAvailable").await;

    // As if the reports had been in another database until now.
    let noted = json!({"status": {"database": {"history": ELSEWHERE}}}).to_string();
    let patch = [
        "patch",
        "reportsserver",
        "subject",
        "--subresource=status",
        "--type=merge",
        "-p",
    ];
    cluster
        .kubectl([&patch[..], &[noted.as_str()]].concat())
        .await
        .unwrap();
    let message = subject.database_is("OtherDatabase").await;
    assert!(
        message.contains(&format!("it has history {THERE}")),
        "{message}"
    );
    assert!(
        message.contains(&format!("lead Secret {NAMESPACE}/pg back")),
        "{message}"
    );
    subject.event("OtherDatabase").await;

    let anew = format!("reports-server.io/begin-anew={ELSEWHERE}");
    let annotate = ["annotate", "reportsserver", "subject", &anew];
    cluster.kubectl(annotate).await.unwrap();
    subject.database_is("DatabaseAvailable").await;
    let pods = subject.pod_template().await;
    let replaced = &pods["metadata"]["annotations"]["reports-server.io/begin-anew"];
    assert_eq!(replaced, ELSEWHERE);
}
