//! Processes that ended by a fault of their own, as the kubelet has seen it.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};

use super::AbuseError;
use crate::request::RequestError;
use crate::takeover::{OPERATOR_NAMESPACE, TARGET_NAMESPACE};

/// Exit codes of a process that panicked, that aborted, as at the end of its stack, and that touched
/// memory which is not its own.
const CODES: [i32; 3] = [101, 134, 139];

/// Returns the containers of the operator and of the server that ended so, each in words.
///
/// # Errors
/// If pods cannot be listed.
pub async fn crashes(client: &Client) -> Result<Vec<String>, AbuseError> {
    let mut found = Vec::new();
    for namespace in [OPERATOR_NAMESPACE, TARGET_NAMESPACE] {
        let pods = Api::<Pod>::namespaced(client.clone(), namespace);
        let pods = pods.list(&ListParams::default()).await;
        let pods = pods.map_err(RequestError::of("list pods"))?;
        found.extend(pods.items.iter().flat_map(of_pod));
    }
    Ok(found)
}

fn of_pod(pod: &Pod) -> Vec<String> {
    let status = pod.status.as_ref();
    let containers = status.and_then(|status| status.container_statuses.as_deref());
    let named = |container: &ContainerStatus| {
        let code = crash(container)?;
        Some(format!(
            "{}: container {} ended with exit code {code}",
            pod.name_any(),
            container.name
        ))
    };
    let containers = containers.unwrap_or_default();
    containers.iter().filter_map(named).collect()
}

fn crash(container: &ContainerStatus) -> Option<i32> {
    let states = [&container.state, &container.last_state];
    let ended = states.into_iter().flatten();
    let mut codes = ended.filter_map(|state| Some(state.terminated.as_ref()?.exit_code));
    codes.find(|code| CODES.contains(code))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({"lastState": {"terminated": {"exitCode": 134}}}), true)]
    #[case(json!({"state": {"terminated": {"exitCode": 101}}}), true)]
    #[case(json!({"lastState": {"terminated": {"exitCode": 137}}}), false)]
    #[case(json!({"state": {"running": {}}}), false)]
    fn an_end_by_a_fault_of_its_own_is_a_crash(
        #[case] status: serde_json::Value,
        #[case] expected: bool,
    ) {
        let mut container = json!({"name": "operator", "image": "", "imageID": "", "ready": true,
            "restartCount": 1});
        container
            .as_object_mut()
            .unwrap()
            .extend(status.as_object().unwrap().clone());
        let pod = json!({"metadata": {"name": "a"}, "status": {"containerStatuses": [container]}});
        let found = of_pod(&serde_json::from_value(pod).unwrap());
        assert_eq!(found.len(), usize::from(expected), "{found:?}");
    }
}
