//! The number of the server's pods, their spread, and the number that may be away.

use k8s_openapi::api::autoscaling::v2::{
    CrossVersionObjectReference, HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec, MetricSpec,
    MetricTarget, ResourceMetricSource,
};
use k8s_openapi::api::core::v1::TopologySpreadConstraint;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::Validated;
use super::metadata::namespaced;
use crate::controller::validate::{Backend, Replicas};
use crate::database::embedded::Embedded;
use crate::database::managed::Managed;

/// The topologies that pods are spread over: a node is lost more often than a zone.
const TOPOLOGIES: [&str; 2] = ["kubernetes.io/hostname", "topology.kubernetes.io/zone"];
/// CPU of one pod at which another one is started, where the user names no metric. Not a share of
/// the request: that is small, so that small clusters can run the server at all.
const CPU_PER_POD: &str = "1";

/// Absent where an autoscaler has decided: it owns the field then. Until it has, the present number
/// stays, since a field that nobody owns any more falls back to one pod.
pub(super) fn replicas(spec: &Validated) -> Option<i32> {
    // Nobody else could follow the reports into a file.
    if spec.moving.is_some() || spec.home().is_some() {
        return Some(1);
    }
    // A server would write to a database that is about to be filled.
    if is_recovering(spec) {
        return Some(0);
    }
    match &spec.scale.replicas {
        Replicas::Fixed(count) => Some(*count),
        Replicas::Auto(auto) => {
            let present = spec.scale.present;
            present.map(|count| count.max(auto.min).min(auto.max))
        }
    }
}

/// Returns the user's own constraints; else pods spread where that is possible, and run anyway
/// where it is not. Pods of another template do not count, or a rolling update would end lopsided.
pub(super) fn spread(spec: &Validated) -> Option<Vec<TopologySpreadConstraint>> {
    if let Some(own) = &spec.scale.spread {
        return Some(own.clone());
    }
    let Backend::Postgres(_) = spec.backend() else {
        return None;
    };
    let over = |topology: &str| TopologySpreadConstraint {
        label_selector: Some(selector(spec)),
        match_label_keys: Some(vec!["pod-template-hash".to_owned()]),
        max_skew: 1,
        topology_key: topology.to_owned(),
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        ..TopologySpreadConstraint::default()
    };
    Some(TOPOLOGIES.map(over).to_vec())
}

pub(super) fn disruption_budget(spec: &Validated) -> Option<PodDisruptionBudget> {
    if spec.moving.is_some() {
        return None;
    }
    let (min_available, max_unavailable) = spec.scale.disruption_budget.clone()?;
    Some(PodDisruptionBudget {
        metadata: namespaced(spec, spec.names.server()),
        spec: Some(PodDisruptionBudgetSpec {
            min_available,
            max_unavailable,
            selector: Some(selector(spec)),
            // A pod that does not serve anyway is no reason to keep a node from being drained.
            unhealthy_pod_eviction_policy: Some("AlwaysAllow".to_owned()),
        }),
        ..PodDisruptionBudget::default()
    })
}

pub(super) fn autoscaler(spec: &Validated) -> Option<HorizontalPodAutoscaler> {
    let Replicas::Auto(auto) = &spec.scale.replicas else {
        return None;
    };
    if is_recovering(spec) || spec.moving.is_some() {
        return None;
    }
    // No leftovers are removed while reports move, so it has to agree.
    let (min, max) = match spec.home() {
        Some(_) => (1, 1),
        None => (auto.min, auto.max),
    };
    let metrics = if auto.metrics.is_empty() {
        vec![cpu()]
    } else {
        auto.metrics.clone()
    };
    Some(HorizontalPodAutoscaler {
        metadata: namespaced(spec, spec.names.server()),
        spec: Some(HorizontalPodAutoscalerSpec {
            min_replicas: Some(min),
            max_replicas: max,
            metrics: Some(metrics),
            scale_target_ref: CrossVersionObjectReference {
                api_version: Some("apps/v1".to_owned()),
                kind: "Deployment".to_owned(),
                name: spec.names.server(),
            },
            ..HorizontalPodAutoscalerSpec::default()
        }),
        ..HorizontalPodAutoscaler::default()
    })
}

fn is_recovering(spec: &Validated) -> bool {
    let managed = spec.managed().and_then(Managed::recovering);
    let embedded = spec.embedded.as_ref().and_then(Embedded::recovering);
    managed.or(embedded).is_some()
}

fn cpu() -> MetricSpec {
    MetricSpec {
        type_: "Resource".to_owned(),
        resource: Some(ResourceMetricSource {
            name: "cpu".to_owned(),
            target: MetricTarget {
                type_: "AverageValue".to_owned(),
                average_value: Some(Quantity(CPU_PER_POD.to_owned())),
                ..MetricTarget::default()
            },
        }),
        ..MetricSpec::default()
    }
}

fn selector(spec: &Validated) -> LabelSelector {
    LabelSelector {
        match_labels: Some(spec.names.selector()),
        ..LabelSelector::default()
    }
}
