//! The user's part of the pod template: whatever is in it has an effect, or is refused.

use std::collections::BTreeMap;

use crds::v1alpha1::reasons;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::{Map, Value};

use super::refusal::{Refusal, refuse};

const FIELD: &str = "spec.server.podTemplate";
/// The pods' account by its name, and by the one that Kubernetes gave up: it is not read where the
/// other is set, which ours always is.
const ACCOUNT: [&str; 2] = ["serviceAccountName", "serviceAccount"];
/// The metadata of a template that its pods get.
const METADATA: [&str; 3] = ["annotations", "finalizers", "labels"];

/// Refuses what is no pod template, and what would take the pods away from the `ReportsServer`.
/// `selector` is what they are found by.
pub(super) fn check(
    template: &Map<String, Value>,
    selector: &BTreeMap<String, String>,
) -> Result<(), Refusal> {
    let template = Value::Object(template.clone());
    let parsed: PodTemplateSpec = match serde_json::from_value(template.clone()) {
        Ok(parsed) => parsed,
        Err(error) => return invalid("", &format!("is not a pod template: {error}")),
    };
    let read = serde_json::to_value(&parsed).unwrap_or_default();
    if let Some(path) = unknown(&template, &read) {
        return invalid(&path, "is not a field of a pod template");
    }
    for list in ["containers", "initContainers"] {
        let containers = template["spec"][list].as_array().into_iter().flatten();
        for (index, container) in containers.enumerate() {
            if container["name"].as_str().is_none_or(str::is_empty) {
                let path = format!(".spec.{list}[{index}]");
                return invalid(&path, "needs a name; the server's own is called \"server\"");
            }
        }
    }
    account(&template["spec"])?;
    metadata(&template["metadata"])?;
    let labels = parsed.metadata.and_then(|metadata| metadata.labels);
    for (key, value) in labels.into_iter().flatten() {
        if selector.get(&key).is_some_and(|own| *own != value) {
            let path = format!(".metadata.labels[{key}]");
            return invalid(&path, "cannot be changed: it selects the pods");
        }
    }
    Ok(())
}

/// Refuses an account, which would have no rights. Null would take ours away.
fn account(spec: &Value) -> Result<(), Refusal> {
    let Some(field) = ACCOUNT.iter().find(|field| spec.get(field).is_some()) else {
        return Ok(());
    };
    let instead = "must be set in spec.server.serviceAccount.name, which gives it its rights";
    invalid(&format!(".spec.{field}"), instead)
}

/// Refuses metadata that no pod gets. Tools write `creationTimestamp: null` into every template.
fn metadata(metadata: &Value) -> Result<(), Refusal> {
    let mut given = metadata.as_object().into_iter().flatten();
    let lost = given.find(|(field, value)| !METADATA.contains(&field.as_str()) && !value.is_null());
    let Some((field, _)) = lost else {
        return Ok(());
    };
    let why = "has no effect: pods get labels, annotations and finalizers only";
    invalid(&format!(".metadata.{field}"), why)
}

fn invalid(path: &str, why: &str) -> Result<(), Refusal> {
    refuse(reasons::INVALID_SPEC, format!("{FIELD}{path}: {why}"))
}

/// Returns the first member of `given` that nobody has `read`.
fn unknown(given: &Value, read: &Value) -> Option<String> {
    match (given, read) {
        (Value::Object(given), Value::Object(read)) => {
            let mut given = given.iter().filter(|(_, value)| !value.is_null());
            given.find_map(|(key, value)| {
                let path = format!(".{key}");
                let Some(read) = read.get(key) else {
                    return Some(path);
                };
                unknown(value, read).map(|rest| path + &rest)
            })
        }
        (Value::Array(given), Value::Array(read)) => {
            given
                .iter()
                .zip(read)
                .enumerate()
                .find_map(|(index, (given, read))| {
                    unknown(given, read).map(|rest| format!("[{index}]{rest}"))
                })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn checked(template: &Value) -> Result<(), String> {
        let selector = [(
            "app.kubernetes.io/name".to_owned(),
            "reports-server".to_owned(),
        )];
        let template = template.as_object().unwrap();
        check(template, &selector.into()).map_err(|refusal| refusal.message)
    }

    #[test]
    fn ordinary_templates_are_taken() {
        let template = json!({
            "metadata": {"creationTimestamp": null, "labels": {"team": "a", "app.kubernetes.io/name": "reports-server"},
                "annotations": {"a": "b"}},
            "spec": {"dnsPolicy": "Default", "hostAliases": null,
                "containers": [{"name": "server", "env": [{"name": "A", "value": "b"}]},
                    {"name": "own", "image": "x"}],
                "volumes": [{"name": "own", "emptyDir": {}}]},
        });
        assert_eq!(checked(&template), Ok(()));
        assert_eq!(checked(&json!({})), Ok(()));
    }

    #[rstest]
    #[case(json!({"spec": {"containers": 5}}), ": is not a pod template: ")]
    #[case(json!({"sepc": {}}), ".sepc: is not a field")]
    #[case(json!({"spec": {"containers": [{"name": "server", "envs": []}]}}),
        ".spec.containers[0].envs: is not a field")]
    #[case(json!({"spec": {"initContainers": [{"image": "x"}]}}), ".spec.initContainers[0]: needs a name")]
    #[case(json!({"spec": {"serviceAccountName": "x"}}),
        ".spec.serviceAccountName: must be set in")]
    #[case(json!({"spec": {"serviceAccountName": null}}),
        ".spec.serviceAccountName: must be set in")]
    #[case(json!({"spec": {"serviceAccount": "x"}}), ".spec.serviceAccount: must be set in")]
    #[case(json!({"metadata": {"name": "x"}}), ".metadata.name: has no effect")]
    #[case(json!({"metadata": {"labels": {"app.kubernetes.io/name": "x"}}}),
        ".metadata.labels[app.kubernetes.io/name]: cannot be changed")]
    fn the_rest_is_named(#[case] template: Value, #[case] start: &str) {
        let message = checked(&template).unwrap_err();
        assert!(message.starts_with(&format!("{FIELD}{start}")), "{message}");
    }
}
