//! The operators of an installation: how many there are, and which of them leads.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::runtime::wait::await_condition;
use serde_json::json;

use super::install::{OPERATOR, OPERATOR_LIMIT};
use super::{OPERATOR_NAMESPACE, Takeover, TakeoverError};
use crate::request::RequestError;

/// Returns the name of the pod whose operator leads; none where nobody holds the Lease.
pub async fn leader(line: &Takeover) -> Result<Option<String>, TakeoverError> {
    let leases: Api<Lease> = Api::namespaced(line.client.clone(), OPERATOR_NAMESPACE);
    let lease = leases.get_opt(OPERATOR).await;
    let lease = lease.map_err(RequestError::of("read the Lease of the operators"))?;
    let holder = lease.and_then(|lease| lease.spec?.holder_identity);
    // A leader that ends leaves the Lease without a holder.
    Ok(holder.filter(|holder| !holder.is_empty()))
}

/// Sets the number of operators, and waits until so many are available.
pub async fn scale(line: &Takeover, count: i32) -> Result<(), TakeoverError> {
    let deployments: Api<Deployment> = Api::namespaced(line.client.clone(), OPERATOR_NAMESPACE);
    let patch = Patch::Merge(json!({"spec": {"replicas": count}}));
    let params = PatchParams::default();
    let scaled = deployments.patch(OPERATOR, &params, &patch).await;
    scaled.map_err(RequestError::of("set the number of operators"))?;
    let reached = await_condition(deployments, OPERATOR, |found: Option<&Deployment>| {
        found.is_some_and(|deployment| has(deployment, count))
    });
    match tokio::time::timeout(OPERATOR_LIMIT, reached).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(TakeoverError::Answer(format!("the operators: {error}"))),
        Err(_) => Err(TakeoverError::NotReached {
            what: format!("the number of operators, {count}"),
            waited: OPERATOR_LIMIT,
            last: line.cluster.kubectl(["get", "pods", "-A"]).await?,
        }),
    }
}

/// Returns whether so many operators are there and available.
fn has(deployment: &Deployment, count: i32) -> bool {
    deployment.status.as_ref().is_some_and(|status| {
        status.observed_generation == deployment.metadata.generation
            && status.replicas.unwrap_or(0) == count
            && status.available_replicas.unwrap_or(0) == count
    })
}
