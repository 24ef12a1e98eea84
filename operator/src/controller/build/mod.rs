//! Step 4 of a reconciliation: every child, as it should be. No client here, and no input but what
//! passed validation; the same input gives the same bytes, so nothing is written twice.

mod collector;
mod config;
mod control_api;
mod deployment;
mod metadata;
mod monitoring;
mod network;
mod notes;
mod rbac;
mod scale;
mod secrets;
mod storage;
mod template;
#[cfg(test)]
mod tests;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{
    ConfigMap, PersistentVolumeClaim, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;

use kube::ResourceExt;
use kube::api::DynamicObject;

use super::validate::Validated;
use crate::certs::Material;
use crate::database::{cloudnativepg, embedded, managed};

pub use control_api::name as control_api_name;
pub use deployment::{CONTAINER, DATA_VOLUME};
pub use metadata::data_metadata;
pub use monitoring::{Kind as MonitoringKind, Monitored};
pub use notes::{Note, commit, retired};
#[cfg(test)]
pub(crate) use rbac::config_reader_rules;
pub use rbac::{ServiceAccountRef, operand_binding};
pub use secrets::database_move;

/// Everything that belongs to one `ReportsServer`, in the order in which it is applied: rights
/// before what uses them, what is mounted before what mounts it.
#[derive(Clone, Debug)]
pub struct Children {
    /// The operator's rights in the target namespace.
    pub operand_binding: RoleBinding,
    /// Identity of the server, unless the user has one for it.
    pub service_account: Option<ServiceAccount>,
    /// Lets the server ask who a user is and what the user may do.
    pub auth_delegator: ClusterRoleBinding,
    /// Lets the server read the aggregator's client CA.
    pub auth_reader: RoleBinding,
    /// Gives the server its rights to read namespaces, CRDs and APIServices.
    pub cluster_reader: ClusterRoleBinding,
    /// Right to read the one `ConfigMap`.
    pub config_reader: Role,
    /// Gives [`Self::config_reader`] to the server.
    pub config_reader_binding: RoleBinding,
    /// The certificate authority.
    pub ca: Secret,
    /// The server's certificate.
    pub serving_cert: Secret,
    /// Who may connect to server, database and Jobs, and what they may connect to.
    pub network_policies: Vec<NetworkPolicy>,
    /// Groups to serve.
    pub config: ConfigMap,
    /// A PostgreSQL that the operator runs.
    pub managed: Option<managed::Children>,
    /// A PostgreSQL that `CloudNativePG` runs.
    pub cluster: Option<DynamicObject>,
    /// The objects that make backups of an embedded database, and restore one.
    pub embedded: Option<embedded::Children>,
    /// The place of PostgreSQL.
    pub connection: Option<ConfigMap>,
    /// The place to which the server is to move the reports.
    pub database_move: Option<Secret>,
    /// Volume of the embedded database; none where it is ephemeral.
    pub data: Option<PersistentVolumeClaim>,
    /// The Service by which the aggregator reaches the server.
    pub service: Service,
    /// The server.
    pub deployment: Deployment,
    /// Number of the server's pods that may be away.
    pub disruption_budget: Option<PodDisruptionBudget>,
    /// Number of the server's pods by load.
    pub autoscaler: Option<HorizontalPodAutoscaler>,
    /// A dashboard for Grafana.
    pub dashboard: Option<ConfigMap>,
    /// Objects of the Prometheus operator.
    pub monitored: Vec<Monitored>,
    /// Registers the control API.
    pub control_api: APIService,
    /// Asks cert-manager for the server's certificate. Late, since it passes a webhook of
    /// somebody else.
    pub certificate: Option<DynamicObject>,
    /// The specification that all this is made from. Applied last.
    pub accepted: ConfigMap,
    /// Name of [`Self::database_move`], also where there is none.
    pub move_name: String,
}

/// Builds all children. `operator` is the operator's own `ServiceAccount`.
#[must_use]
pub fn build(spec: &Validated, material: &Material, operator: &ServiceAccountRef) -> Children {
    Children {
        operand_binding: operand_binding(spec, operator),
        service_account: rbac::service_account(spec),
        auth_delegator: rbac::auth_delegator(spec),
        auth_reader: rbac::auth_reader(spec),
        cluster_reader: rbac::cluster_reader(spec),
        config_reader: rbac::config_reader(spec),
        config_reader_binding: rbac::config_reader_binding(spec),
        ca: secrets::ca(spec, material),
        serving_cert: secrets::serving_cert(spec, material),
        network_policies: network::policies(spec, operator),
        config: config::config(spec),
        managed: managed_children(spec, material),
        cluster: cluster(spec),
        embedded: embedded_children(spec),
        connection: config::connection(spec),
        database_move: database_move(spec),
        data: storage::claim(spec),
        service: config::service(spec),
        deployment: deployment::deployment(spec),
        disruption_budget: scale::disruption_budget(spec),
        autoscaler: scale::autoscaler(spec),
        dashboard: monitoring::dashboard(spec),
        monitored: monitoring::objects(spec),
        control_api: control_api::api_service(spec, material),
        certificate: secrets::certificate(spec),
        accepted: config::accepted(spec),
        move_name: spec.names.database_move(),
    }
}

fn managed_children(spec: &Validated, material: &Material) -> Option<managed::Children> {
    let managed = spec.database.postgres()?.managed.as_ref()?;
    let mut children = managed::children(managed, material, scope(spec));
    let schedule = children.backup.as_mut().and_then(|job| job.spec.as_mut());
    // A dump of what the reports are only on their way to would count as the newest backup.
    if let Some(schedule) = schedule.filter(|_| spec.moving.is_some()) {
        schedule.suspend = Some(true);
    }
    Some(children)
}

fn embedded_children(spec: &Validated) -> Option<embedded::Children> {
    let embedded = spec.embedded.as_ref()?;
    let account = spec.service_account();
    Some(embedded::children(embedded, &account, scope(spec)))
}

fn scope(spec: &Validated) -> managed::Scope<'_> {
    managed::Scope {
        names: &spec.names,
        namespace: &spec.namespace,
        owner: spec.owner.as_ref(),
        retain_data: spec.retain_data,
    }
}

fn cluster(spec: &Validated) -> Option<DynamicObject> {
    let plan = spec.postgres.as_ref()?.cluster.as_ref()?;
    let metadata = data_metadata(spec, plan.name.clone());
    let create = plan.create.as_ref()?;
    Some(cloudnativepg::cluster(metadata, create))
}

/// Names of the children, of each kind that is swept for leftovers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Deployments.
    pub deployments: Vec<String>,
    /// Services.
    pub services: Vec<String>,
    /// `ConfigMap`s.
    pub config_maps: Vec<String>,
    /// Secrets.
    pub secrets: Vec<String>,
    /// Roles.
    pub roles: Vec<String>,
    /// `RoleBinding`s in the target namespace.
    pub role_bindings: Vec<String>,
    /// `ServiceAccount`s.
    pub service_accounts: Vec<String>,
    /// `PodDisruptionBudget`s.
    pub disruption_budgets: Vec<String>,
    /// `HorizontalPodAutoscaler`s.
    pub autoscalers: Vec<String>,
    /// `NetworkPolicy`s.
    pub network_policies: Vec<String>,
    /// `StatefulSet`s.
    pub stateful_sets: Vec<String>,
    /// `CronJob`s.
    pub cron_jobs: Vec<String>,
    /// Jobs that no `CronJob` has made.
    pub jobs: Vec<String>,
    /// Kinds of the Prometheus operator, of which there is one object each.
    pub monitored: Vec<MonitoringKind>,
}

impl Children {
    /// Returns what is to stay when leftovers are removed.
    #[must_use]
    pub fn kept(&self) -> Kept {
        let mut kept = Kept {
            deployments: vec![self.deployment.name_any()],
            services: vec![self.service.name_any()],
            config_maps: vec![self.config.name_any(), self.accepted.name_any()],
            secrets: vec![self.ca.name_any(), self.serving_cert.name_any()],
            roles: vec![self.config_reader.name_any()],
            role_bindings: vec![
                self.config_reader_binding.name_any(),
                self.operand_binding.name_any(),
            ],
            service_accounts: name(self.service_account.as_ref()),
            disruption_budgets: name(self.disruption_budget.as_ref()),
            autoscalers: name(self.autoscaler.as_ref()),
            network_policies: self
                .network_policies
                .iter()
                .map(ResourceExt::name_any)
                .collect(),
            stateful_sets: Vec::new(),
            cron_jobs: Vec::new(),
            jobs: Vec::new(),
            monitored: self.monitored.iter().map(|object| object.kind).collect(),
        };
        kept.config_maps.extend(name(self.connection.as_ref()));
        kept.config_maps.extend(name(self.dashboard.as_ref()));
        // It goes when no pod needs it any more, and that is not known here.
        kept.secrets.push(self.move_name.clone());
        if let Some(managed) = &self.managed {
            // Taken apart without `..`: a new child cannot be forgotten here.
            let managed::Children {
                password,
                tls,
                client,
                config,
                data: _,
                service,
                pods,
                stateful_set,
                upgrade,
                recovery,
                backups: _,
                backup,
            } = managed;
            kept.secrets
                .extend([password, tls, client].map(ResourceExt::name_any));
            kept.config_maps.push(config.name_any());
            kept.services
                .extend([service, pods].map(ResourceExt::name_any));
            kept.stateful_sets.push(stateful_set.name_any());
            if let Some(upgrade) = upgrade {
                kept.config_maps.push(upgrade.config.name_any());
                kept.jobs.extend(upgrade.jobs.clone());
            }
            kept.jobs.extend(name(recovery.as_ref()));
            kept.cron_jobs.extend(name(backup.as_ref()));
        }
        if let Some(embedded) = &self.embedded {
            let embedded::Children {
                recovery,
                backups: _,
                backup,
            } = embedded;
            kept.jobs.extend(name(recovery.as_ref()));
            kept.cron_jobs.extend(name(backup.as_ref()));
        }
        kept
    }
}

fn name<K: ResourceExt>(object: Option<&K>) -> Vec<String> {
    object.map(ResourceExt::name_any).into_iter().collect()
}
