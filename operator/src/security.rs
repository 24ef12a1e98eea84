//! Security contexts of our pods, and the check that a pod passes the `restricted` Pod Security
//! Standard (<https://kubernetes.io/docs/concepts/security/pod-security-standards/>).

use k8s_openapi::api::core::v1::{
    Capabilities, PodSecurityContext, PodSpec, SeccompProfile, SecurityContext,
};

/// User and group of the images.
pub const NON_ROOT_ID: i64 = 65532;

/// Returns the security context of a pod. There is no fixed user: the image names one, and where
/// the cluster assigns users by namespace (`OpenShift`) it is free to.
#[must_use]
pub fn pod() -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        seccomp_profile: Some(SeccompProfile {
            type_: "RuntimeDefault".to_owned(),
            ..SeccompProfile::default()
        }),
        ..PodSecurityContext::default()
    }
}

/// Returns the security context of a container.
#[must_use]
pub fn container() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        read_only_root_filesystem: Some(true),
        capabilities: Some(Capabilities {
            drop: Some(vec!["ALL".to_owned()]),
            ..Capabilities::default()
        }),
        ..SecurityContext::default()
    }
}

/// Returns the rules of `restricted` that `pod` breaks, and two of our own: a read-only root file
/// system, and requests and limits for memory.
#[must_use]
pub fn violations(pod: &PodSpec) -> Vec<String> {
    let mut found = host_access(pod);
    let context = pod.security_context.clone().unwrap_or_default();
    if context.run_as_non_root != Some(true) || context.run_as_user == Some(0) {
        found.push("pod may run as root".to_owned());
    }
    let profile = context
        .seccomp_profile
        .map(|profile| profile.type_)
        .unwrap_or_default();
    if !["RuntimeDefault", "Localhost"].contains(&profile.as_str()) {
        found.push("pod has no seccomp profile".to_owned());
    }
    for container in pod
        .containers
        .iter()
        .chain(pod.init_containers.iter().flatten())
    {
        let name = &container.name;
        let context = container.security_context.clone().unwrap_or_default();
        let capabilities = context.capabilities.unwrap_or_default();
        let mut check = |holds: bool, rule: &str| {
            if !holds {
                found.push(format!("container {name}: {rule}"));
            }
        };
        check(
            context.allow_privilege_escalation == Some(false),
            "may escalate privileges",
        );
        check(context.privileged != Some(true), "is privileged");
        check(context.run_as_user != Some(0), "runs as root");
        check(context.run_as_non_root != Some(false), "may run as root");
        check(
            context.read_only_root_filesystem == Some(true),
            "writes to its root file system",
        );
        let dropped = capabilities.drop.unwrap_or_default();
        check(dropped.iter().any(|c| c == "ALL"), "keeps capabilities");
        let added = capabilities.add.unwrap_or_default();
        check(
            added.iter().all(|c| c == "NET_BIND_SERVICE"),
            "adds capabilities",
        );
        let resources = container.resources.clone().unwrap_or_default();
        let memory = |of: Option<std::collections::BTreeMap<_, _>>| {
            of.is_some_and(|of| of.contains_key("memory"))
        };
        check(memory(resources.requests), "has no memory request");
        check(memory(resources.limits), "has no memory limit");
        let ports = container.ports.iter().flatten();
        check(
            ports.into_iter().all(|port| port.host_port.is_none()),
            "uses a host port",
        );
    }
    found
}

fn host_access(pod: &PodSpec) -> Vec<String> {
    let mut found = Vec::new();
    for (used, what) in [
        (pod.host_network, "network"),
        (pod.host_pid, "process table"),
        (pod.host_ipc, "IPC namespace"),
    ] {
        if used == Some(true) {
            found.push(format!("pod uses the host's {what}"));
        }
    }
    for volume in pod.volumes.iter().flatten() {
        let allowed = volume.config_map.is_some()
            || volume.empty_dir.is_some()
            || volume.persistent_volume_claim.is_some()
            || volume.projected.is_some()
            || volume.secret.is_some();
        if !allowed {
            found.push(format!(
                "volume {} is of a type that is not allowed",
                volume.name
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_pod_breaks_the_standard() {
        let pod = PodSpec {
            containers: vec![k8s_openapi::api::core::v1::Container {
                name: "c".to_owned(),
                ..Default::default()
            }],
            host_network: Some(true),
            ..PodSpec::default()
        };
        let found = violations(&pod);
        for rule in [
            "host's network",
            "as root",
            "seccomp",
            "escalate",
            "capabilities",
            "root file",
        ] {
            assert!(
                found.iter().any(|f| f.contains(rule)),
                "{rule} in {found:?}"
            );
        }
    }
}
