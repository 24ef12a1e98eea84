//! The demands of a part of a pod template beyond the Pod Security Standard `restricted`
//! (<https://kubernetes.io/docs/concepts/security/pod-security-standards/>). A field that it does
//! not set is as it is in our own template, or Kubernetes decides.

use serde_json::{Map, Value};

use crate::controller::found::Level;

/// The lists of a pod's containers.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];
/// The namespaces of the host.
const HOST: [&str; 3] = ["hostNetwork", "hostPID", "hostIPC"];
/// Types of volumes that are always admitted.
const VOLUMES: [&str; 8] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
];
/// The one capability that is always admitted.
const BIND: &str = "NET_BIND_SERVICE";
/// Capabilities that `baseline` admits.
const CAPABILITIES: [&str; 12] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
/// Parameters of the kernel that are always admitted.
const SYSCTLS: [&str; 10] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_syncookies",
];
/// Types of `SELinux` that are always admitted.
const SELINUX_TYPES: [&str; 5] = [
    "",
    "container_engine_t",
    "container_init_t",
    "container_kvm_t",
    "container_t",
];
/// The start of the annotations that were the way to a profile of `AppArmor` before its field.
const APPARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Something that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    /// The path of the field, from the template on.
    pub path: String,
    /// The least level that admits it.
    pub level: Level,
}

fn ask(path: String, level: Level) -> Ask {
    Ask { path, level }
}

/// Returns everything that a template asks for.
pub(super) fn asked(template: &Map<String, Value>) -> Vec<Ask> {
    let spec = template.get("spec").unwrap_or(&Value::Null);
    let metadata = template.get("metadata").unwrap_or(&Value::Null);
    let mut asks: Vec<Ask> = HOST
        .iter()
        .filter(|field| is_true(&spec[**field]))
        .map(|field| ask(format!(".spec.{field}"), Level::Privileged))
        .collect();
    asks.extend(annotations(&metadata["annotations"]));
    asks.extend(context(spec, ".spec"));
    asks.extend(sysctls(&spec["securityContext"]["sysctls"]));
    for (index, volume) in list(&spec["volumes"]) {
        asks.extend(of_volume(volume, &format!(".spec.volumes[{index}]")));
    }
    for field in CONTAINERS {
        for (index, container) in list(&spec[field]) {
            asks.extend(of_container(container, &format!(".spec.{field}[{index}]")));
        }
    }
    asks
}

/// Returns the path of the first token for others than the kube-apiserver.
pub(super) fn foreign_token(template: &Map<String, Value>) -> Option<String> {
    let spec = template.get("spec").unwrap_or(&Value::Null);
    list(&spec["volumes"]).find_map(|(volume, found)| {
        list(&found["projected"]["sources"]).find_map(|(source, found)| {
            let audience = found["serviceAccountToken"]["audience"].as_str()?;
            let path = format!(".spec.volumes[{volume}].projected.sources[{source}]");
            (!audience.is_empty()).then_some(path)
        })
    })
}

fn of_container(container: &Value, path: &str) -> Vec<Ask> {
    let mut asks = context(container, path);
    for (index, port) in list(&container["ports"]) {
        if port["hostPort"].as_i64().unwrap_or(0) != 0 {
            let path = format!("{path}.ports[{index}].hostPort");
            asks.push(ask(path, Level::Privileged));
        }
    }
    asks
}

/// Returns what is asked for by the security context of a pod or a container.
fn context(of: &Value, path: &str) -> Vec<Ask> {
    let path = format!("{path}.securityContext");
    let given = &of["securityContext"];
    let privileged = [
        ("privileged", is_true(&given["privileged"])),
        ("procMount", is_other(&given["procMount"], "Default")),
        ("seccompProfile", is_unconfined(&given["seccompProfile"])),
        ("appArmorProfile", is_unconfined(&given["appArmorProfile"])),
        ("seLinuxOptions", is_free(&given["seLinuxOptions"])),
        (
            "windowsOptions.hostProcess",
            is_true(&given["windowsOptions"]["hostProcess"]),
        ),
    ];
    let escalation = &given["allowPrivilegeEscalation"];
    let baseline = [
        ("allowPrivilegeEscalation", is_true(escalation)),
        ("runAsUser", given["runAsUser"].as_i64() == Some(0)),
        (
            "runAsNonRoot",
            given["runAsNonRoot"].as_bool() == Some(false),
        ),
        ("capabilities.drop", keeps(&given["capabilities"]["drop"])),
    ];
    let named = |level: Level| {
        let path = path.clone();
        move |(field, asked): (&str, bool)| asked.then(|| ask(format!("{path}.{field}"), level))
    };
    let mut asks: Vec<Ask> = Vec::new();
    asks.extend(privileged.into_iter().filter_map(named(Level::Privileged)));
    asks.extend(baseline.into_iter().filter_map(named(Level::Baseline)));
    asks.extend(added(&given["capabilities"]["add"], &path));
    asks.extend(taken_away(of, &path));
    asks
}

/// Null takes a member of ours away: the pod could then do what we forbid it.
fn taken_away(of: &Value, path: &str) -> Vec<Ask> {
    let Some(given) = of.get("securityContext") else {
        return Vec::new();
    };
    if given.is_null() {
        return vec![ask(path.to_owned(), Level::Baseline)];
    }
    let members = given.as_object().into_iter().flatten();
    let taken = members.filter(|(_, value)| value.is_null());
    taken
        .map(|(field, _)| ask(format!("{path}.{field}"), Level::Baseline))
        .collect()
}

fn added(add: &Value, path: &str) -> Vec<Ask> {
    let mut asks = Vec::new();
    for (index, capability) in list(add) {
        let name = capability.as_str().unwrap_or_default();
        let level = if name == BIND {
            continue;
        } else if CAPABILITIES.contains(&name) {
            Level::Baseline
        } else {
            Level::Privileged
        };
        asks.push(ask(format!("{path}.capabilities.add[{index}]"), level));
    }
    asks
}

fn of_volume(volume: &Value, path: &str) -> Vec<Ask> {
    let members = volume.as_object().into_iter().flatten();
    let types = members.filter(|(field, value)| *field != "name" && !value.is_null());
    let beyond = types.filter(|(field, _)| !VOLUMES.contains(&field.as_str()));
    let level = |field: &str| match field {
        "hostPath" => Level::Privileged,
        _ => Level::Baseline,
    };
    beyond
        .map(|(field, _)| ask(format!("{path}.{field}"), level(field)))
        .collect()
}

fn sysctls(given: &Value) -> Vec<Ask> {
    let unsafe_ones = list(given).filter(|(_, sysctl)| {
        let name = sysctl["name"].as_str().unwrap_or_default();
        !SYSCTLS.contains(&name)
    });
    let path = |index| format!(".spec.securityContext.sysctls[{index}]");
    unsafe_ones
        .map(|(index, _)| ask(path(index), Level::Privileged))
        .collect()
}

fn annotations(given: &Value) -> Vec<Ask> {
    let members = given.as_object().into_iter().flatten();
    let unconfined =
        members.filter(|(key, value)| key.starts_with(APPARMOR) && *value == "unconfined");
    unconfined
        .map(|(key, _)| ask(format!(".metadata.annotations[{key}]"), Level::Privileged))
        .collect()
}

fn list(value: &Value) -> impl Iterator<Item = (usize, &Value)> {
    value.as_array().into_iter().flatten().enumerate()
}

fn is_true(value: &Value) -> bool {
    value.as_bool() == Some(true)
}

fn is_other(value: &Value, usual: &str) -> bool {
    value.as_str().is_some_and(|value| value != usual)
}

fn is_unconfined(profile: &Value) -> bool {
    profile["type"].as_str() == Some("Unconfined")
}

/// Returns whether `SELinux` is told what to do, in other than the admitted words.
fn is_free(options: &Value) -> bool {
    let type_ = options["type"].as_str().unwrap_or_default();
    let set = |field: &str| options[field].as_str().is_some_and(|text| !text.is_empty());
    !SELINUX_TYPES.contains(&type_) || set("user") || set("role")
}

/// Returns whether capabilities are kept, which replaces our list of those that are dropped.
fn keeps(drop: &Value) -> bool {
    let mut dropped = list(drop);
    drop.is_array() && !dropped.any(|(_, capability)| *capability == "ALL")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn of(template: &Value) -> Vec<Ask> {
        asked(template.as_object().unwrap())
    }

    #[rstest]
    #[case("hostNetwork", json!({"hostNetwork": true}))]
    #[case("hostPID", json!({"hostPID": true}))]
    #[case("hostIPC", json!({"hostIPC": true}))]
    #[case("volumes[1].hostPath", json!({"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": {"path": "/"}}]}))]
    #[case("securityContext.sysctls[0]", json!({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}))]
    #[case("securityContext.seccompProfile", json!({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}))]
    #[case("securityContext.seLinuxOptions", json!({"securityContext": {"seLinuxOptions": {"type": "spc_t"}}}))]
    #[case("securityContext.seLinuxOptions", json!({"securityContext": {"seLinuxOptions": {"user": "root"}}}))]
    #[case("securityContext.windowsOptions.hostProcess", json!({"securityContext": {"windowsOptions": {"hostProcess": true}}}))]
    #[case("containers[0].ports[0].hostPort", json!({"containers": [{"name": "a", "ports": [{"containerPort": 1, "hostPort": 1}]}]}))]
    fn a_pod_that_reaches_the_host_needs_privileged(#[case] path: &str, #[case] spec: Value) {
        let expected = ask(format!(".spec.{path}"), Level::Privileged);
        assert_eq!(of(&json!({"spec": spec})), [expected]);
    }

    #[rstest]
    #[case("privileged", json!({"privileged": true}), Level::Privileged)]
    #[case("procMount", json!({"procMount": "Unmasked"}), Level::Privileged)]
    #[case("appArmorProfile", json!({"appArmorProfile": {"type": "Unconfined"}}), Level::Privileged)]
    #[case("capabilities.add[1]", json!({"capabilities": {"add": ["NET_BIND_SERVICE", "SYS_ADMIN"]}}), Level::Privileged)]
    #[case("capabilities.add[0]", json!({"capabilities": {"add": ["CHOWN"]}}), Level::Baseline)]
    #[case("capabilities.drop", json!({"capabilities": {"drop": ["KILL"]}}), Level::Baseline)]
    #[case("allowPrivilegeEscalation", json!({"allowPrivilegeEscalation": true}), Level::Baseline)]
    #[case("runAsUser", json!({"runAsUser": 0}), Level::Baseline)]
    #[case("runAsNonRoot", json!({"runAsNonRoot": false}), Level::Baseline)]
    #[case("capabilities", json!({"capabilities": null}), Level::Baseline)]
    fn so_does_a_container_of_every_kind(
        #[case] path: &str,
        #[case] context: Value,
        #[case] level: Level,
    ) {
        for list in CONTAINERS {
            let spec = json!({list: [{"name": "a"}, {"name": "b", "securityContext": context}]});
            let path = format!(".spec.{list}[1].securityContext.{path}");
            assert_eq!(of(&json!({"spec": spec})), [ask(path, level)]);
        }
    }

    #[test]
    fn our_security_contexts_are_not_taken_away() {
        let spec = json!({"securityContext": null, "containers": [{"name": "server", "securityContext": null}]});
        let paths: Vec<String> = of(&json!({"spec": spec}))
            .into_iter()
            .map(|a| a.path)
            .collect();
        let expected = [
            ".spec.securityContext",
            ".spec.containers[0].securityContext",
        ];
        assert_eq!(paths, expected);
    }

    #[test]
    fn old_ways_are_seen_too() {
        let key = format!("{APPARMOR}server");
        let template = json!({"metadata": {"annotations": {key.clone(): "unconfined"}},
            "spec": {"volumes": [{"name": "a", "gitRepo": {"repository": "x"}}]}});
        let expected = [
            ask(format!(".metadata.annotations[{key}]"), Level::Privileged),
            ask(".spec.volumes[0].gitRepo".to_owned(), Level::Baseline),
        ];
        assert_eq!(of(&template), expected);
    }

    #[test]
    fn what_is_ordinary_asks_for_nothing() {
        let template = json!({
            "metadata": {"annotations": {"a": "unconfined", format!("{APPARMOR}a"): "runtime/default"}},
            "spec": {"hostNetwork": false, "hostUsers": false,
                "securityContext": {"runAsNonRoot": true, "runAsUser": 1000, "fsGroup": 1000,
                    "seccompProfile": {"type": "RuntimeDefault"},
                    "seLinuxOptions": {"level": "s0"},
                    "sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]},
                "volumes": [{"name": "a", "secret": {"secretName": "s"}},
                    {"name": "b", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}],
                "containers": [{"name": "server", "ports": [{"containerPort": 1}],
                    "securityContext": {"privileged": false, "procMount": "Default",
                        "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}}]},
        });
        let asks = of(&template);
        assert!(asks.is_empty(), "{asks:?}");
        assert_eq!(foreign_token(template.as_object().unwrap()), None);
    }
}
