//! The `Cluster`s and Secrets of `CloudNativePG`, as they are awaited.

use std::time::Duration;

use e2e::cnpg;
use e2e::takeover::{TARGET_NAMESPACE, Takeover};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::DynamicObject;
use kube::runtime::wait::await_condition;
use serde_json::Value;

/// Name of the `Cluster` that our operator makes.
pub const CLUSTER: &str = "policy-reports-postgres";
/// Longest wait for what `CloudNativePG` does: pods one after the other, each of which may wait
/// three minutes for its clients before it ends.
pub const LIMIT: Duration = Duration::from_mins(20);

/// Waits until a `Cluster` is as wanted, and returns it.
pub async fn cluster_is(
    line: &Takeover,
    name: &str,
    what: &str,
    wanted: impl Fn(&Value) -> bool,
) -> Value {
    let api = cnpg::clusters(&line.client, TARGET_NAMESPACE);
    let reached = await_condition(api.clone(), name, |object: Option<&DynamicObject>| {
        object.is_some_and(|object| wanted(&object.data))
    });
    let Ok(reached) = tokio::time::timeout(LIMIT, reached).await else {
        let last = api.get(name).await.unwrap();
        panic!("{what} was not reached: {:#}", last.data["status"])
    };
    reached.unwrap().unwrap().data
}

/// Returns whether a `Cluster` is ready, with all of its instances.
pub fn is_healthy(cluster: &Value) -> bool {
    let status = &cluster["status"];
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let ready = conditions.any(|found| found["type"] == "Ready" && found["status"] == "True");
    ready
        && status["currentPrimary"] == status["targetPrimary"]
        && status["readyInstances"] == cluster["spec"]["instances"]
}

/// Returns the instance of a `Cluster` that takes writes.
pub fn primary(cluster: &Value) -> String {
    let primary = cluster["status"]["currentPrimary"].as_str();
    primary.unwrap_or_default().to_owned()
}

/// Returns the API of the Secrets beside the `Cluster`.
pub fn secrets(line: &Takeover) -> Api<Secret> {
    Api::namespaced(line.client.clone(), TARGET_NAMESPACE)
}

/// Returns what a Secret has under a key.
pub fn value(secret: &Secret, key: &str) -> Option<String> {
    let value = secret.data.as_ref()?.get(key)?;
    String::from_utf8(value.0.clone()).ok()
}

/// Returns what the Secret of this name has under a key.
pub async fn value_of(line: &Takeover, name: &str, key: &str) -> String {
    let secret = secrets(line).get(name).await.unwrap();
    value(&secret, key).unwrap_or_else(|| panic!("Secret {name} has no {key}"))
}

/// Waits until a Secret has another value under a key, whether it was missing meanwhile or not.
pub async fn another_value(line: &Takeover, name: &str, key: &str, before: &str) {
    let another = await_condition(secrets(line), name, |secret: Option<&Secret>| {
        let now = secret.and_then(|secret| value(secret, key));
        now.is_some_and(|now| now != before)
    });
    tokio::time::timeout(LIMIT, another)
        .await
        .unwrap_or_else(|_| panic!("{key} of Secret {name} is not renewed"))
        .unwrap();
}
