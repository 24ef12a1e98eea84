//! Every example is taken by a real kube-apiserver, as strictly as kubectl asks, and stored as it is.

use std::path::{Path, PathBuf};
use std::time::Duration;

use reports_server_operator::manifests;
use serde::Deserialize as _;
use serde_json::Value;
use testcluster::{Cluster, ClusterOptions};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../manifests/examples");
/// Namespaces of other programs that examples put objects into.
const OF_OTHERS: [&str; 1] = ["kyverno"];
const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn every_example_can_be_applied() {
    let cluster = Cluster::start(ClusterOptions::default()).await.unwrap();
    lay(&cluster).await;
    let files = files();
    assert!(files.len() >= 20, "{files:?}");
    for path in files {
        let file = path.to_str().unwrap();
        let arguments = ["apply", "--server-side", "--validate=strict", "-f", file];
        let applied = cluster.kubectl(arguments).await;
        applied.unwrap_or_else(|error| panic!("{file}: {error}"));
        for wanted in servers(&path) {
            let name = wanted["metadata"]["name"].as_str().unwrap();
            let stored = cluster
                .kubectl(["get", "reportsserver", name, "-o", "json"])
                .await;
            let stored: Value = serde_json::from_str(&stored.unwrap()).unwrap();
            assert_eq!(stored["spec"], wanted["spec"], "{file}");
        }
        // The next one has the same name and another database.
        let gone = cluster.kubectl(["delete", "reportsservers", "--all"]).await;
        gone.unwrap();
    }
}

/// Installs the CRD and the roles that examples name, and the namespaces of other programs.
async fn lay(cluster: &Cluster) {
    let install = manifests::install().unwrap();
    let applied = cluster
        .kubectl_with_input(["apply", "-f", "-"], &install)
        .await;
    applied.unwrap();
    for namespace in OF_OTHERS {
        let made = cluster.kubectl(["create", "namespace", namespace]).await;
        made.unwrap();
    }
    let known = async {
        while cluster.kubectl(["get", "reportsservers"]).await.is_err() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let known = tokio::time::timeout(LIMIT, known).await;
    known.expect("the kube-apiserver does not serve reportsservers");
}

fn files() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(FOLDER).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Returns the `ReportsServer`s of an example.
fn servers(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    serde_yaml::Deserializer::from_str(&text)
        .map(|document| Value::deserialize(document).unwrap())
        .filter(|object| object["kind"] == "ReportsServer")
        .collect()
}
