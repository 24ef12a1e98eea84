//! Step 4 of a reconciliation: every child, as it should be. No client here, and no input but what
//! passed validation; the same input gives the same bytes, so nothing is written twice.

mod config;
mod control_api;
mod deployment;
mod rbac;
mod secrets;
mod storage;
#[cfg(test)]
mod tests;

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, PersistentVolumeClaim, Secret, Service, ServiceAccount},
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};

use super::validate::Validated;
use crate::certs::Material;

pub use control_api::name as control_api_name;
pub use rbac::operand_binding;
#[cfg(test)]
pub(crate) use rbac::schema_reader_rules;

/// Everything that belongs to one `ReportsServer`, in the order in which it is applied: rights
/// before what uses them, what is mounted before what mounts it.
#[derive(Clone, Debug)]
pub struct Children {
    /// The operator's rights in the target namespace.
    pub operand_binding: RoleBinding,
    /// Identity of the server.
    pub service_account: ServiceAccount,
    /// Lets the server ask who a user is and what the user may do.
    pub auth_delegator: ClusterRoleBinding,
    /// Lets the server read the aggregator's client CA.
    pub auth_reader: RoleBinding,
    /// Rights to read namespaces and CRDs.
    pub schema_reader: ClusterRole,
    /// Gives [`Self::schema_reader`] to the server.
    pub schema_reader_binding: ClusterRoleBinding,
    /// Right to read the one `ConfigMap`.
    pub config_reader: Role,
    /// Gives [`Self::config_reader`] to the server.
    pub config_reader_binding: RoleBinding,
    /// The certificate authority.
    pub ca: Secret,
    /// The server's certificate.
    pub serving_cert: Secret,
    /// Groups to serve.
    pub config: ConfigMap,
    /// Volume of the database; none where it is ephemeral.
    pub data: Option<PersistentVolumeClaim>,
    /// Where the aggregator reaches the server.
    pub service: Service,
    /// The server.
    pub deployment: Deployment,
    /// Registers the control API.
    pub control_api: APIService,
}

/// Builds all children. `operator` is the operator's own `ServiceAccount`.
#[must_use]
pub fn build(spec: &Validated, material: &Material, operator: &ServiceAccountRef) -> Children {
    Children {
        operand_binding: operand_binding(spec, operator),
        service_account: rbac::service_account(spec),
        auth_delegator: rbac::auth_delegator(spec),
        auth_reader: rbac::auth_reader(spec),
        schema_reader: rbac::schema_reader(spec),
        schema_reader_binding: rbac::schema_reader_binding(spec),
        config_reader: rbac::config_reader(spec),
        config_reader_binding: rbac::config_reader_binding(spec),
        ca: secrets::ca(spec, material),
        serving_cert: secrets::serving_cert(spec, material),
        config: config::config(spec),
        data: storage::claim(spec),
        service: config::service(spec),
        deployment: deployment::deployment(spec),
        control_api: control_api::api_service(spec, material),
    }
}

/// A `ServiceAccount`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAccountRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Metadata of a namespaced child that goes with its `ReportsServer`.
fn namespaced(spec: &Validated, name: String) -> ObjectMeta {
    ObjectMeta {
        namespace: Some(spec.namespace.clone()),
        ..cluster(spec, name)
    }
}

/// Metadata of a cluster-scoped child that goes with its `ReportsServer`.
fn cluster(spec: &Validated, name: String) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        labels: Some(spec.names.labels()),
        owner_references: spec.owner.clone().map(|owner| vec![owner]),
        ..ObjectMeta::default()
    }
}
