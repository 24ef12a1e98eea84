//! The level of the server's log is changed while it runs.

use crds::names;
use e2e::takeover::{NAME, TARGET_NAMESPACE, is_ready};
use serde_json::json;

use crate::upkeep::{Ground, LIMIT, PAUSE};

/// The level of the logs changes, and no pod is replaced for it.
pub async fn is_changed_without_other_pods(ground: &Ground, reports: usize) {
    let before = generation(ground).await;
    let level = |level: &str| json!({"server": {"logging": {"level": level}}});
    ground.patch(level("Debug")).await;
    ground.follow("a server that serves", is_ready).await;
    let told = async {
        while !log(ground).await.contains("\"level\":\"DEBUG\"") {
            tokio::time::sleep(PAUSE).await;
            // So that there is something to log.
            assert_eq!(ground.shown().await, Some(reports));
        }
    };
    let told = tokio::time::timeout(LIMIT, told).await;
    told.expect("the servers do not log as they are told");
    ground.patch(json!({"server": {"logging": null}})).await;
    ground.follow("a server that serves", is_ready).await;
    assert_eq!(generation(ground).await, before);
}

/// The generation of the server's Deployment: another one has other pods.
async fn generation(ground: &Ground) -> Option<i64> {
    let deployment = ground.deployments().get(&names::server(NAME)).await;
    deployment.unwrap().metadata.generation
}

/// The last lines of every server's log.
async fn log(ground: &Ground) -> String {
    let selector = format!("{}=server", names::LABEL_APP_COMPONENT);
    let arguments = [
        "-n",
        TARGET_NAMESPACE,
        "logs",
        "--tail=200",
        "-l",
        &selector,
    ];
    ground.line.cluster.kubectl(arguments).await.unwrap()
}
