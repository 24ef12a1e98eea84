//! The user's part of the pod template, merged over ours as `kubectl patch` merges: members one by
//! one, lists of things with names by the name, other lists as a whole; null takes a member away.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::{Map, Value};

/// Lists whose items have a key, as Kubernetes defines them.
const KEYS: [(&str, &str); 11] = [
    ("containers", "name"),
    ("env", "name"),
    ("hostAliases", "ip"),
    ("imagePullSecrets", "name"),
    ("initContainers", "name"),
    ("ports", "containerPort"),
    ("resourceClaims", "name"),
    ("topologySpreadConstraints", "topologyKey"),
    ("volumeDevices", "devicePath"),
    ("volumeMounts", "mountPath"),
    ("volumes", "name"),
];

/// `ours` with `over` merged over it. Validation has seen to it that the result is a template.
pub(super) fn merged(ours: PodTemplateSpec, over: Option<&Map<String, Value>>) -> PodTemplateSpec {
    let Some(over) = over else {
        return ours;
    };
    let Ok(mut template) = serde_json::to_value(&ours) else {
        return ours;
    };
    merge(&mut template, &Value::Object(over.clone()), "");
    serde_json::from_value(template).unwrap_or(ours)
}

fn merge(base: &mut Value, over: &Value, field: &str) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (name, value) in over {
                if value.is_null() {
                    base.remove(name);
                } else if let Some(present) = base.get_mut(name) {
                    merge(present, value, name);
                } else {
                    base.insert(name.clone(), value.clone());
                }
            }
        }
        (Value::Array(base), Value::Array(over)) if key(field).is_some() => {
            let key = key(field).unwrap_or_default();
            for item in over {
                match base.iter_mut().find(|present| present[key] == item[key]) {
                    Some(present) => merge(present, item, ""),
                    None => base.push(item.clone()),
                }
            }
        }
        (base, over) => *base = over.clone(),
    }
}

fn key(field: &str) -> Option<&'static str> {
    let found = KEYS.iter().find(|(list, _)| *list == field);
    found.map(|(_, key)| *key)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn things_with_names_are_merged_and_the_rest_is_replaced() {
        let ours = json!({
            "metadata": {"labels": {"own": "1"}},
            "spec": {"terminationGracePeriodSeconds": 60, "priorityClassName": "p",
                "containers": [{"name": "server", "image": "i", "args": ["--a"],
                    "env": [{"name": "A", "value": "1"}],
                    "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]},
        });
        let over = json!({
            "metadata": {"labels": {"team": "t"}},
            "spec": {"terminationGracePeriodSeconds": 90, "priorityClassName": null,
                "containers": [
                    {"name": "server", "env": [{"name": "A", "value": "2"}, {"name": "B"}],
                        "volumeMounts": [{"name": "w", "mountPath": "/w"}]},
                    {"name": "beside", "image": "j"}]},
        });
        let expected = json!({
            "metadata": {"labels": {"own": "1", "team": "t"}},
            "spec": {"terminationGracePeriodSeconds": 90,
                "containers": [
                    {"name": "server", "image": "i", "args": ["--a"],
                        "env": [{"name": "A", "value": "2"}, {"name": "B"}],
                        "volumeMounts": [{"name": "v", "mountPath": "/v"},
                            {"name": "w", "mountPath": "/w"}]},
                    {"name": "beside", "image": "j"}]},
        });
        let ours: PodTemplateSpec = serde_json::from_value(ours).unwrap();
        let result = merged(ours.clone(), over.as_object());
        assert_eq!(serde_json::to_value(result).unwrap(), expected);
        assert_eq!(merged(ours.clone(), None), ours);
    }
}
