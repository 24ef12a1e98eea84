//! Identity and rights of the server, and the operator's own rights in the target namespace.

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{
    ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Validated;
use super::metadata::{cluster, namespaced};
use crate::names::{
    AUTH_DELEGATOR, AUTH_READER, KUBE_SYSTEM, OPERAND_CLUSTER_ROLE, SERVER_CLUSTER_ROLE,
};

/// A `ServiceAccount`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAccountRef {
    /// The namespace of the account.
    pub namespace: String,
    /// The name of the account.
    pub name: String,
}

const RBAC: &str = "rbac.authorization.k8s.io";

/// None where the user has one.
pub(super) fn service_account(spec: &Validated) -> Option<ServiceAccount> {
    if spec.pod.service_account.is_some() {
        return None;
    }
    Some(ServiceAccount {
        metadata: ObjectMeta {
            annotations: spec.pod.service_account_annotations.clone(),
            ..namespaced(spec, spec.names.server())
        },
        // The pod asks for its token itself; nobody else who uses the account gets one.
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    })
}

/// Gives the operator's `ServiceAccount` its rights on Secrets, Deployments and so on in the target
/// namespace, and in no other.
#[must_use]
pub fn operand_binding(spec: &Validated, operator: &ServiceAccountRef) -> RoleBinding {
    RoleBinding {
        metadata: namespaced(spec, spec.names.operand_binding()),
        role_ref: role_ref("ClusterRole", OPERAND_CLUSTER_ROLE.to_owned()),
        subjects: Some(vec![subject(operator)]),
    }
}

pub(super) fn auth_delegator(spec: &Validated) -> ClusterRoleBinding {
    ClusterRoleBinding {
        metadata: cluster(spec, spec.names.cluster("auth-delegator")),
        role_ref: role_ref("ClusterRole", AUTH_DELEGATOR.to_owned()),
        subjects: Some(server(spec)),
    }
}

pub(super) fn auth_reader(spec: &Validated) -> RoleBinding {
    RoleBinding {
        metadata: ObjectMeta {
            namespace: Some(KUBE_SYSTEM.to_owned()),
            ..cluster(spec, spec.names.cluster("authentication-reader"))
        },
        role_ref: role_ref("Role", AUTH_READER.to_owned()),
        subjects: Some(server(spec)),
    }
}

pub(super) fn cluster_reader(spec: &Validated) -> ClusterRoleBinding {
    ClusterRoleBinding {
        metadata: cluster(spec, spec.names.cluster("server")),
        role_ref: role_ref("ClusterRole", SERVER_CLUSTER_ROLE.to_owned()),
        subjects: Some(server(spec)),
    }
}

pub(super) fn config_reader(spec: &Validated) -> Role {
    Role {
        metadata: namespaced(spec, spec.names.server()),
        rules: Some(config_reader_rules(spec.names.config())),
    }
}

/// Returns what a server reads of its namespace: the `ConfigMap` called `config`.
pub(crate) fn config_reader_rules(config: String) -> Vec<PolicyRule> {
    vec![PolicyRule {
        api_groups: Some(vec![String::new()]),
        resources: Some(vec!["configmaps".to_owned()]),
        resource_names: Some(vec![config]),
        verbs: ["get", "list", "watch"].map(str::to_owned).to_vec(),
        ..PolicyRule::default()
    }]
}

pub(super) fn config_reader_binding(spec: &Validated) -> RoleBinding {
    RoleBinding {
        metadata: namespaced(spec, spec.names.server()),
        role_ref: role_ref("Role", spec.names.server()),
        subjects: Some(server(spec)),
    }
}

fn role_ref(kind: &str, name: String) -> RoleRef {
    RoleRef {
        api_group: RBAC.to_owned(),
        kind: kind.to_owned(),
        name,
    }
}

fn server(spec: &Validated) -> Vec<Subject> {
    let account = ServiceAccountRef {
        namespace: spec.namespace.clone(),
        name: spec.service_account(),
    };
    vec![subject(&account)]
}

fn subject(account: &ServiceAccountRef) -> Subject {
    Subject {
        kind: "ServiceAccount".to_owned(),
        name: account.name.clone(),
        namespace: Some(account.namespace.clone()),
        ..Subject::default()
    }
}
