//! Installation of the operator and the `ReportsServer`, as a user does it.

use std::time::Duration;

use crds::names::LABEL_TARGET;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::runtime::conditions::is_deployment_completed;
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};

use super::{
    GROUPS, NAME, OPERATOR_NAMESPACE, TARGET_NAMESPACE, Takeover, TakeoverError, incumbent,
};

/// Name of the operator's Deployment in `manifests/install.yaml`.
pub const OPERATOR: &str = "reports-server-operator";
/// Longest time until the operators are available.
pub const OPERATOR_LIMIT: Duration = Duration::from_mins(3);

pub async fn operator(line: &Takeover) -> Result<(), TakeoverError> {
    let manifest = line.options.manifests.join("install.yaml");
    if !manifest.exists() {
        return Err(TakeoverError::Missing {
            path: manifest,
            hint: "hack/gen makes it",
        });
    }
    line.say("kubectl apply -f manifests/install.yaml");
    line.cluster
        .kubectl(["apply".as_ref(), "-f".as_ref(), manifest.as_os_str()])
        .await?;
    wait_for_operator(line).await
}

/// Waits until the Deployment of the operator is rolled out.
pub async fn wait_for_operator(line: &Takeover) -> Result<(), TakeoverError> {
    let deployments: Api<Deployment> = Api::namespaced(line.client.clone(), OPERATOR_NAMESPACE);
    let ready = await_condition(deployments, OPERATOR, is_deployment_completed());
    match tokio::time::timeout(OPERATOR_LIMIT, ready).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(TakeoverError::Answer(format!("the operator: {error}"))),
        Err(_) => Err(TakeoverError::NotReached {
            what: "the operator's rollout".into(),
            waited: OPERATOR_LIMIT,
            last: line.cluster.kubectl(["get", "pods", "-A"]).await?,
        }),
    }
}

pub async fn reports_server(line: &Takeover, owner: &str) -> Result<(), TakeoverError> {
    let apis: Vec<_> = GROUPS
        .iter()
        .map(|group| match line.options.incumbent {
            Some(_) => json!({"group": group, "owner": owner, "from": incumbent::from()}),
            None => json!({"group": group, "owner": owner}),
        })
        .collect();
    let mut spec = json!({
        "targetNamespace": TARGET_NAMESPACE,
        "apis": apis,
        "migration": {"soak": "5s", "maxRequestsPerSecond": 200,
            "source": {"policy": "Prune", "after": "24h"}},
    });
    let members = line.options.database.spec(&line.options.images)?;
    if let (Some(spec), Value::Object(members)) = (spec.as_object_mut(), members) {
        spec.extend(members);
    }
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": TARGET_NAMESPACE, "labels": {LABEL_TARGET: "true"}}},
        {"apiVersion": "reports-server.io/v1alpha1", "kind": "ReportsServer",
            "metadata": {"name": NAME},
            "spec": spec},
    ]});
    line.cluster
        .kubectl_with_input(["apply", "-f", "-"], &objects.to_string())
        .await?;
    Ok(())
}
