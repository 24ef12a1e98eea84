//! Which field of a `ReportsServer` a child was refused for.

use std::collections::BTreeSet;

use crds::v1alpha1::reasons;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Resource;
use kube::core::Status;

use super::error::Error;
use crate::cert_manager;
use crate::controller::build::MonitoringKind;
use crate::controller::validate::Refusal;
use crate::database::cloudnativepg;
use crate::said::is_refused_by_admission;

/// Fields of pods and their containers, and the fields of `spec.server` that they are made from.
const SERVER: [(&str, &str); 7] = [
    ("affinity", "affinity"),
    ("tolerations", "tolerations"),
    ("topologySpreadConstraints", "topologySpreadConstraints"),
    ("nodeSelector", "nodeSelector"),
    ("priorityClassName", "priorityClassName"),
    ("resources", "resources"),
    ("serviceAccountName", "serviceAccount"),
];

/// Those that the pods of databases and backups have from `spec.server`, too.
const SHARED: [&str; 3] = ["nodeSelector", "priorityClassName", "tolerations"];

impl Error {
    /// Returns why a child can never be applied as it is, and what to change; nothing where trying
    /// again may help.
    #[must_use]
    pub fn refused(&self) -> Option<Refusal> {
        match self {
            Self::Foreign { .. } => Some(Refusal {
                reason: reasons::FOREIGN_OBJECT,
                message: self.to_string(),
            }),
            Self::Apply {
                kind,
                name,
                source: source @ kube::Error::Api(status),
            } if matches!(status.code, 400 | 422) || is_refused_by_admission(source) => {
                let field = field(kind, name, status);
                let message = format!(
                    "{field}: the kube-apiserver refuses an object that is built from it: {}",
                    status.message
                );
                Some(Refusal {
                    reason: reasons::INVALID_SPEC,
                    message,
                })
            }
            _ => None,
        }
    }
}

/// Returns the field of the `ReportsServer`.
fn field(kind: &str, name: &str, status: &Status) -> String {
    let is = |wanted: std::borrow::Cow<'static, str>| kind == wanted;
    let of_server = is(Deployment::kind(&()));
    if let Some(fields) = server_fields(status, |part| of_server || SHARED.contains(&part)) {
        return fields;
    }
    if is(HorizontalPodAutoscaler::kind(&())) {
        "spec.server.autoscaling".to_owned()
    } else if is(PodDisruptionBudget::kind(&())) {
        "spec.server.podDisruptionBudget".to_owned()
    } else if is(NetworkPolicy::kind(&())) {
        "spec.networkPolicy".to_owned()
    } else if is(ServiceAccount::kind(&())) {
        "spec.server.serviceAccount".to_owned()
    } else if is(CronJob::kind(&())) || is(Job::kind(&())) {
        "spec.database.backup".to_owned()
    } else if is(PersistentVolumeClaim::kind(&())) {
        volume_field(name).to_owned()
    } else if is(StatefulSet::kind(&())) {
        "spec.database.managed".to_owned()
    } else if MonitoringKind::ALL.iter().any(|known| known.name() == kind) {
        "spec.monitoring".to_owned()
    } else if kind == cloudnativepg::resource().kind {
        "spec.database.cloudNativePG.create".to_owned()
    } else if kind == cert_manager::resource().kind {
        "spec.tls.certManager".to_owned()
    } else if of_server {
        "spec.server.podTemplate".to_owned()
    } else {
        "spec".to_owned()
    }
}

/// Returns the field that the claim called `name` is built from.
pub(super) fn volume_field(name: &str) -> &'static str {
    if name.ends_with("-backup") {
        "spec.database.backup.destination.pvc.storage"
    } else if name.contains("-postgres-data") {
        "spec.database.managed.storage"
    } else {
        "spec.database.embedded.storage"
    }
}

/// Returns the fields of `spec.server` that pods have what was refused from, where `counts` says so of
/// the part; nothing where there is none.
fn server_fields(status: &Status, counts: impl Fn(&str) -> bool) -> Option<String> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let parts = causes.filter_map(|cause| pod_part(&cause.field));
    let found = parts.filter(|part| counts(part)).filter_map(|part| {
        let (_, field) = SERVER.into_iter().find(|(known, _)| *known == part)?;
        Some(format!("spec.server.{field}"))
    });
    let found: BTreeSet<String> = found.collect();
    (!found.is_empty()).then(|| Vec::from_iter(found).join(", "))
}

/// Returns the field of the pod, or of one of its containers, that a field of a workload lies in.
fn pod_part(field: &str) -> Option<&str> {
    let field = field.strip_prefix("spec.jobTemplate.").unwrap_or(field);
    let pod = field.strip_prefix("spec.template.spec.")?;
    let part = match pod.strip_prefix("containers[") {
        Some(container) => container.split_once("].")?.1,
        None => pod,
    };
    part.split(['.', '[']).next()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn refused(kind: &str, name: &str, code: u16, field: &str) -> Option<Refusal> {
        let status: Status = serde_json::from_value(json!({
            "status": "Failure", "code": code, "message": "no", "reason": "Invalid",
            "details": {"causes": [{"field": field, "message": "no"}]},
        }))
        .unwrap();
        let error = Error::Apply {
            kind: kind.to_owned(),
            name: format!("ns/{name}"),
            source: kube::Error::Api(status.boxed()),
        };
        error.refused()
    }

    #[rstest]
    #[case(
        "CronJob",
        "a-postgres-backup",
        "spec.schedule",
        "spec.database.backup"
    )]
    #[case(
        "HorizontalPodAutoscaler",
        "a-server",
        "spec.metrics[0]",
        "spec.server.autoscaling"
    )]
    #[case(
        "PodDisruptionBudget",
        "a-server",
        "spec.minAvailable",
        "spec.server.podDisruptionBudget"
    )]
    #[case("ServiceMonitor", "a-server", "metadata.labels", "spec.monitoring")]
    #[case(
        "NetworkPolicy",
        "a-server",
        "spec.ingress[0].from[0].ipBlock.cidr",
        "spec.networkPolicy"
    )]
    #[case(
        "PersistentVolumeClaim",
        "a-server-data",
        "spec.resources",
        "spec.database.embedded.storage"
    )]
    #[case(
        "PersistentVolumeClaim",
        "a-postgres-data",
        "spec.resources",
        "spec.database.managed.storage"
    )]
    #[case(
        "PersistentVolumeClaim",
        "a-postgres-data-17",
        "spec.resources",
        "spec.database.managed.storage"
    )]
    #[case(
        "PersistentVolumeClaim",
        "a-backup",
        "spec.resources",
        "spec.database.backup.destination.pvc.storage"
    )]
    #[case("StatefulSet", "a-postgres", "spec.template", "spec.database.managed")]
    #[case::database_where_the_server_runs(
        "StatefulSet",
        "a-postgres",
        "spec.template.spec.tolerations[0].operator",
        "spec.server.tolerations"
    )]
    #[case::memory_of_the_database(
        "StatefulSet",
        "a-postgres",
        "spec.template.spec.containers[0].resources.limits[memory]",
        "spec.database.managed"
    )]
    #[case::backup_where_the_server_runs(
        "CronJob",
        "a-postgres-backup",
        "spec.jobTemplate.spec.template.spec.nodeSelector",
        "spec.server.nodeSelector"
    )]
    #[case(
        "Cluster",
        "a-postgres",
        "spec.storage.size",
        "spec.database.cloudNativePG.create"
    )]
    #[case(
        "Certificate",
        "a-server",
        "spec.issuerRef.name",
        "spec.tls.certManager"
    )]
    #[case(
        "Deployment",
        "a-server",
        "spec.template.spec.containers[0].resources.requests",
        "spec.server.resources"
    )]
    #[case(
        "Deployment",
        "a-server",
        "spec.template.spec.affinity.nodeAffinity",
        "spec.server.affinity"
    )]
    #[case(
        "Deployment",
        "a-server",
        "spec.template.spec.volumes[3].name",
        "spec.server.podTemplate"
    )]
    #[case::spread(
        "Deployment",
        "a-server",
        "spec.template.spec.topologySpreadConstraints[0].whenUnsatisfiable",
        "spec.server.topologySpreadConstraints"
    )]
    #[case::affinity_by_labels_of_nodes(
        "Deployment",
        "a-server",
        "spec.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution\
            .nodeSelectorTerms[0].matchExpressions[0].operator",
        "spec.server.affinity"
    )]
    #[case::limits(
        "Deployment",
        "a-server",
        "spec.template.spec.containers[0].resources.limits[memory]",
        "spec.server.resources"
    )]
    #[case::size_0(
        "PersistentVolumeClaim",
        "a-server-data",
        "spec.resources[storage]",
        "spec.database.embedded.storage"
    )]
    #[case::schedule_of_an_embedded_database(
        "CronJob",
        "a-server-backup",
        "spec.schedule",
        "spec.database.backup"
    )]
    fn the_field_to_change_is_named(
        #[case] kind: &str,
        #[case] name: &str,
        #[case] cause: &str,
        #[case] field: &str,
    ) {
        let message = refused(kind, name, 422, cause).unwrap().message;
        let start = format!("{field}: the kube-apiserver refuses");
        assert!(message.starts_with(&start), "{message}");
        assert!(message.ends_with(": no"), "{message}");
    }

    /// The last accepted specification stays in force then, and its certificates are renewed.
    #[test]
    fn what_a_quota_refuses_is_refused() {
        let status: Status = serde_json::from_value(json!({"status": "Failure", "code": 403,
            "message": "persistentvolumeclaims \"a-backup\" is forbidden: exceeded quota: q"}))
        .unwrap();
        let error = Error::Apply {
            kind: "PersistentVolumeClaim".to_owned(),
            name: "ns/a-backup".to_owned(),
            source: kube::Error::Api(status.boxed()),
        };
        let message = error.refused().unwrap().message;
        assert!(message.contains("exceeded quota"), "{message}");
    }

    #[test]
    fn what_may_pass_by_itself_is_no_refusal() {
        assert_eq!(refused("Deployment", "a", 409, ""), None);
        assert_eq!(refused("Deployment", "a", 503, ""), None);
        assert_eq!(refused("Deployment", "a", 403, ""), None);
    }
}
