//! The number of the server's pods, their places, and the number that may be away.

use crds::names::FIELD_MANAGER;
use crds::v1alpha1::defaults::{Effective, REPLICAS};
use crds::v1alpha1::spec::{AutoscalingSpec, PodDisruptionBudgetSpec};
use crds::v1alpha1::{ReportsServerSpec, reasons};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::MetricSpec;
use k8s_openapi::api::core::v1::TopologySpreadConstraint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;

use super::refusal::{Refusal, refuse};

/// The number of the pods, and their places.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    /// The number of the pods.
    pub replicas: Replicas,
    /// The number in the cluster, where the operator has set it and nobody else since.
    pub present: Option<i32>,
    /// The number that may be away at the same time: (`minAvailable`, `maxUnavailable`), one of
    /// them.
    pub disruption_budget: Option<(Option<IntOrString>, Option<IntOrString>)>,
    /// The user's own spread over nodes and zones.
    pub spread: Option<Vec<TopologySpreadConstraint>>,
}

/// The number of the pods.
#[derive(Clone, Debug, PartialEq)]
pub enum Replicas {
    /// So many.
    Fixed(i32),
    /// By load.
    Auto(Autoscaling),
}

/// Number of pods by load.
#[derive(Clone, Debug, PartialEq)]
pub struct Autoscaling {
    /// Fewest.
    pub min: i32,
    /// Most.
    pub max: i32,
    /// The metrics that count; none means the default.
    pub metrics: Vec<MetricSpec>,
}

impl Replicas {
    /// Fewest pods at any time.
    #[must_use]
    pub fn least(&self) -> i32 {
        match self {
            Self::Fixed(count) => *count,
            Self::Auto(auto) => auto.min,
        }
    }

    /// Most pods at any time, not counting the additional one of a rolling update.
    #[must_use]
    pub fn most(&self) -> i32 {
        match self {
            Self::Fixed(count) => *count,
            Self::Auto(auto) => auto.max,
        }
    }
}

pub(super) fn of(
    spec: &ReportsServerSpec,
    effective: &Effective,
    deployment: Option<&Deployment>,
) -> Result<Scale, Refusal> {
    let server = spec.server.clone().unwrap_or_default();
    let replicas = match server.autoscaling {
        Some(auto) => Replicas::Auto(autoscaling(auto)?),
        None => Replicas::Fixed(
            effective
                .replicas
                .and_then(|count| i32::try_from(count).ok())
                .unwrap_or(1),
        ),
    };
    // One pod that must stay could never leave a node that is drained.
    let default = (replicas.least() > 1).then_some((Some(IntOrString::Int(1)), None));
    let own = server.pod_disruption_budget.map(
        |PodDisruptionBudgetSpec {
             min_available,
             max_unavailable,
         }| (min_available, max_unavailable),
    );
    Ok(Scale {
        disruption_budget: own.or(default),
        spread: server.topology_spread_constraints,
        present: deployment.and_then(own_replicas),
        replicas,
    })
}

/// Returns the number of pods of a Deployment that is for the operator to set: the one that it has set
/// itself, as whoever changes it takes the field from the operator; and 0, whoever has set that, as an
/// autoscaler leaves a Deployment without pods as it is.
fn own_replicas(deployment: &Deployment) -> Option<i32> {
    let own = |entry: &ManagedFieldsEntry| {
        let fields = entry.fields_v1.as_ref();
        entry.manager.as_deref() == Some(FIELD_MANAGER)
            && entry.operation.as_deref() == Some("Apply")
            && fields.is_some_and(|fields| fields.0.pointer("/f:spec/f:replicas").is_some())
    };
    let replicas = deployment.spec.as_ref()?.replicas?;
    let mut entries = deployment.metadata.managed_fields.iter().flatten();
    (replicas == 0 || entries.any(own)).then_some(replicas)
}

fn autoscaling(spec: AutoscalingSpec) -> Result<Autoscaling, Refusal> {
    let AutoscalingSpec {
        min_replicas,
        max_replicas,
        metrics,
    } = spec;
    let least = i32::try_from(REPLICAS).unwrap_or(1);
    let metrics = metrics.into_iter().flatten().enumerate();
    let metrics = metrics.map(|(index, metric)| {
        serde_json::from_value(Value::Object(metric)).or_else(|error| {
            let field = format!("spec.server.autoscaling.metrics[{index}]");
            refuse(
                reasons::INVALID_SPEC,
                format!("{field}: not a metric of autoscaling/v2: {error}"),
            )
        })
    });
    Ok(Autoscaling {
        min: min_replicas.unwrap_or(least).min(max_replicas),
        max: max_replicas,
        metrics: metrics.collect::<Result<_, _>>()?,
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::the_operator(FIELD_MANAGER, "Apply", "f:replicas", 5, Some(5))]
    #[case::an_autoscaler("kube-controller-manager", "Update", "f:replicas", 5, None)]
    #[case::nobody(FIELD_MANAGER, "Apply", "f:paused", 5, None)]
    #[case::scaled_away("kubectl", "Update", "f:replicas", 0, Some(0))]
    fn the_number_of_pods_is_known_by_who_has_set_it(
        #[case] manager: &str,
        #[case] operation: &str,
        #[case] field: &str,
        #[case] replicas: i32,
        #[case] expected: Option<i32>,
    ) {
        let deployment = serde_json::from_value(json!({
            "metadata": {"name": "a-server", "managedFields": [{"manager": manager,
                "operation": operation, "fieldsV1": {"f:spec": {field: {}}}}]},
            "spec": {"replicas": replicas, "selector": {}, "template": {}},
        }));
        assert_eq!(own_replicas(&deployment.unwrap()), expected);
    }
}
