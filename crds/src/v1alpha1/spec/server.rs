//! `spec.server`: the server's pods.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, ResourceRequirements, Toleration, TopologySpreadConstraint,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::v1alpha1::schema;

/// The server's pods.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new("!(has(self.replicas) && has(self.autoscaling))")
        .message("replicas and autoscaling are mutually exclusive")
)]
#[serde(rename_all = "camelCase")]
pub struct ServerSpec {
    /// Number of pods. Default: 2; with `database.mode: Embedded` 1 (and no more).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 32))]
    pub replicas: Option<i32>,
    /// A number of pods that follows the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<AutoscalingSpec>,
    /// CPU and memory of the server's container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Labels that a node must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::string_map")]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Taints that the pods tolerate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub tolerations: Option<Vec<Toleration>>,
    /// Rules for the nodes of the pods, and for the pods beside them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// The spread of the pods over nodes and zones. Default: evenly over both where that is
    /// possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub topology_spread_constraints: Option<Vec<TopologySpreadConstraint>>,
    /// `PriorityClass` of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub priority_class_name: Option<String>,
    /// The number of pods that may be away at the same time. Default: all but one, where there are
    /// several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_disruption_budget: Option<PodDisruptionBudgetSpec>,
    /// The pods' `ServiceAccount`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ServiceAccountSpec>,
    /// The server's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logging: Option<LoggingSpec>,
    /// A pod template that is merged over ours last, for whatever has no field of its own: lists of
    /// things with names by the name (the server's container is `server`), other lists as a whole.
    /// It may ask for what the Pod Security label of `targetNamespace` admits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::any_object")]
    pub pod_template: Option<Map<String, Value>>,
}

/// A number of pods that follows the load.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new("!has(self.minReplicas) || self.minReplicas <= self.maxReplicas")
        .message("minReplicas must not be above maxReplicas")
)]
#[serde(rename_all = "camelCase")]
pub struct AutoscalingSpec {
    /// Fewest pods. Default: 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 32))]
    pub min_replicas: Option<i32>,
    /// Most pods.
    #[schemars(range(min = 1, max = 32))]
    pub max_replicas: i32,
    /// Metrics of the `HorizontalPodAutoscaler`, handed on as they are. Default: one CPU core a
    /// pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::any_objects")]
    pub metrics: Option<Vec<Map<String, Value>>>,
}

/// The number of pods that may be away at the same time: exactly one member.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new("has(self.minAvailable) != has(self.maxUnavailable)")
        .message("exactly one of minAvailable and maxUnavailable must be set")
)]
#[serde(rename_all = "camelCase")]
pub struct PodDisruptionBudgetSpec {
    /// Pods that must stay, as a number or percentage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int_or_percent")]
    pub min_available: Option<IntOrString>,
    /// Pods that may be away, as a number or percentage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int_or_percent")]
    pub max_unavailable: Option<IntOrString>,
}

/// The pods' `ServiceAccount`.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceAccountSpec {
    /// An existing `ServiceAccount` in `targetNamespace`, used instead of one made by the operator.
    /// Its annotation `reports-server.io/allow-use` must have the name of the `ReportsServer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub name: Option<String>,
    /// Annotations of the `ServiceAccount`, as cloud identities need them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::string_map")]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// The server's log.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoggingSpec {
    /// Least severity that is logged. Default: `Info`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<LogLevel>,
    /// Form of a line: `Json` (an object, for programs) or `Text` (for people). Default: `Json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<LogFormat>,
}

/// Least severity that is logged.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[schemars(transform = crate::v1alpha1::schema::without_description)]
pub enum LogLevel {
    /// Failures only.
    Error,
    /// Failures, and what may become one.
    Warn,
    /// In addition, what an operator wants to know.
    #[default]
    Info,
    /// In addition, what a developer wants to know.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    /// Returns the level as the binaries' `--log-level` takes it.
    #[must_use]
    pub fn as_flag(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// Form of a log line.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[schemars(transform = crate::v1alpha1::schema::without_description)]
pub enum LogFormat {
    /// One JSON object a line.
    #[default]
    Json,
    /// Text for people.
    Text,
}

impl LogFormat {
    /// Returns the format as the server's `--log-format` takes it.
    #[must_use]
    pub fn as_flag(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Text => "text",
        }
    }
}
