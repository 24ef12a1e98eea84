//! The objects and fields that keep an operator at work while nodes come and go: number, spread,
//! priority, and the budget of the chart.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, PodAffinityTerm, PodAntiAffinity, ResourceQuota, ResourceQuotaSpec, ScopeSelector,
    ScopedResourceSelectorRequirement, WeightedPodAffinityTerm,
};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::objects::{meta, selector};
use super::place::Place;
use crate::names::{OPERATOR, PRIORITY_QUOTA};

/// Number of operators: one leads, the other waits for its Lease.
pub(super) const REPLICAS: i32 = 2;
/// Priority class of the operator's pods.
pub(super) const PRIORITY_CLASS: &str = "system-cluster-critical";
/// Pods of that class that the quota admits: as many as anybody can have. It shall limit nothing.
const ADMITTED: &str = "1G";

fn pods() -> LabelSelector {
    LabelSelector {
        match_labels: Some(selector()),
        ..LabelSelector::default()
    }
}

/// Returns the wish for a node without another operator. It is no condition, so that a cluster of one
/// node has both. Pods of another template do not count, or a rolling update would end lopsided.
pub(super) fn affinity() -> Affinity {
    let term = PodAffinityTerm {
        label_selector: Some(pods()),
        match_label_keys: Some(vec!["pod-template-hash".to_owned()]),
        topology_key: "kubernetes.io/hostname".to_owned(),
        ..PodAffinityTerm::default()
    };
    let preferred = WeightedPodAffinityTerm {
        pod_affinity_term: term,
        weight: 100,
    };
    Affinity {
        pod_anti_affinity: Some(PodAntiAffinity {
            preferred_during_scheduling_ignored_during_execution: Some(vec![preferred]),
            ..PodAntiAffinity::default()
        }),
        ..Affinity::default()
    }
}

/// Returns the budget by which nodes are drained of operators one after the other, for those who ask the
/// chart for one: it keeps the last of several on a node for as long as no other node takes one. It
/// counts those that may be away, so one operator alone can always be moved.
pub(super) fn disruption_budget(place: &Place) -> PodDisruptionBudget {
    PodDisruptionBudget {
        metadata: meta(OPERATOR, Some(&place.namespace)),
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: Some(IntOrString::Int(1)),
            selector: Some(pods()),
            // A pod that does not work anyway is no reason to keep a node from being drained.
            unhealthy_pod_eviction_policy: Some("AlwaysAllow".to_owned()),
            ..PodDisruptionBudgetSpec::default()
        }),
        ..PodDisruptionBudget::default()
    }
}

/// Returns the quota that admits pods of the operator's priority class into its namespace. Some clusters
/// refuse them where no quota does.
pub(super) fn priority_quota(place: &Place) -> ResourceQuota {
    let of_class = ScopedResourceSelectorRequirement {
        scope_name: "PriorityClass".to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![PRIORITY_CLASS.to_owned()]),
    };
    let admitted = BTreeMap::from([("pods".to_owned(), Quantity(ADMITTED.to_owned()))]);
    ResourceQuota {
        metadata: meta(PRIORITY_QUOTA, Some(&place.namespace)),
        spec: Some(ResourceQuotaSpec {
            hard: Some(admitted),
            scope_selector: Some(ScopeSelector {
                match_expressions: Some(vec![of_class]),
            }),
            ..ResourceQuotaSpec::default()
        }),
        ..ResourceQuota::default()
    }
}
