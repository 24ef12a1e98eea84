//! Installation of the operator and the `ReportsServer`, as a user does it.

use std::ffi::OsStr;
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
use crate::access::Access;

/// Name of the operator's Deployment in `manifests/install.yaml`.
pub const OPERATOR: &str = "reports-server-operator";
/// Longest time until the operators are available.
pub const OPERATOR_LIMIT: Duration = Duration::from_mins(3);
/// The question to kubectl that shows why the operator is not available.
const PODS: [&str; 3] = ["get", "pods", "-A"];

pub async fn operator<C: Access>(line: &Takeover<C>) -> Result<(), TakeoverError> {
    let manifest = line.options.manifests.join("install.yaml");
    if !manifest.exists() {
        return Err(TakeoverError::Missing {
            path: manifest,
            hint: "hack/gen makes it",
        });
    }
    line.say("kubectl apply -f manifests/install.yaml");
    let apply = [OsStr::new("apply"), OsStr::new("-f"), manifest.as_os_str()];
    line.cluster.kubectl(&apply, "").await?;
    wait_for_operator(line).await
}

/// Waits until the Deployment of the operator is rolled out.
async fn wait_for_operator<C: Access>(line: &Takeover<C>) -> Result<(), TakeoverError> {
    let deployments: Api<Deployment> = Api::namespaced(line.client.clone(), OPERATOR_NAMESPACE);
    let ready = await_condition(deployments, OPERATOR, is_deployment_completed());
    match tokio::time::timeout(OPERATOR_LIMIT, ready).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(TakeoverError::Answer(format!("the operator: {error}"))),
        Err(_) => Err(TakeoverError::NotReached {
            what: "the operator's rollout".into(),
            waited: OPERATOR_LIMIT,
            last: line.cluster.kubectl(&PODS.map(OsStr::new), "").await?,
        }),
    }
}

pub async fn reports_server<C: Access>(
    line: &Takeover<C>,
    owner: &str,
) -> Result<(), TakeoverError> {
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
    let apply = ["apply", "-f", "-"].map(OsStr::new);
    line.cluster.kubectl(&apply, &objects.to_string()).await?;
    Ok(())
}
