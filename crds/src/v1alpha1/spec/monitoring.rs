//! Objects for a monitoring stack, and traces.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tracing::TracingSpec;
use crate::v1alpha1::schema;

/// Objects for a monitoring stack, and traces. The condition `MonitoringReady` names the CRDs that are missing
/// for them.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MonitoringSpec {
    /// True when the operator makes a `ServiceMonitor`, by which a Prometheus finds the server.
    /// Default: `false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_monitor: Option<bool>,
    /// True when the operator makes a `PrometheusRule` with alerts. Default: `false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prometheus_rule: Option<bool>,
    /// True when the operator makes a `ConfigMap` with a Grafana dashboard. Default: `false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grafana_dashboard: Option<bool>,
    /// Labels of `ServiceMonitor` and `PrometheusRule`, by which a Prometheus selects them, such as
    /// `release: prometheus`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::string_map")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Age of the newest backup from which an alert is raised. Default: `26h`, for a backup each
    /// day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration")]
    pub max_backup_age: Option<kube::core::Duration>,
    /// The collector of the server's traces. Default: none. A change replaces the server's pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracing: Option<TracingSpec>,
}
