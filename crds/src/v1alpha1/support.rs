//! Fields of the specification that this version does not act on.
//!
//! The whole specification is in the CRD, so that it stays as it is while features arrive. A field
//! whose effect is not built yet is refused by name; it is never ignored.

use std::fmt;

use super::spec::{MonitoringSpec, ReportsServerSpec};

/// The message for a refused field.
pub const NOT_SUPPORTED: &str = "not supported in this version";

/// Every path that [`unsupported_fields`] can name; the field reference marks them.
pub const UNSUPPORTED_PATHS: &[&str] = &[
    "spec.networkPolicy.enabled",
    "spec.monitoring.serviceMonitor",
    "spec.monitoring.prometheusRule",
    "spec.monitoring.grafanaDashboard",
];

/// One field and its error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Path from the object's root, such as `spec.database.mode`.
    pub path: String,
    /// The error, as a phrase.
    pub message: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// Names every field of the specification that asks for something which this version does not do.
/// A field that asks for what happens anyway (`enabled: false`) is not named.
#[must_use]
pub fn unsupported_fields(spec: &ReportsServerSpec) -> Vec<FieldError> {
    // Taken apart without `..`: a new field cannot be forgotten here.
    let ReportsServerSpec {
        target_namespace: _,
        suspend: _,
        apis: _,
        migration: _,
        database: _,
        cluster_identity: _,
        server: _,
        images: _,
        tls: _,
        network_policy,
        monitoring,
        deletion_policy: _,
    } = spec;
    let mut found = Found::default();
    let network_policy = network_policy.as_ref().and_then(|policy| policy.enabled);
    found.when("spec.networkPolicy.enabled", asked(network_policy));
    if let Some(monitoring) = monitoring {
        found.monitoring(monitoring);
    }
    found.0
}

fn asked(switch: Option<bool>) -> bool {
    switch == Some(true)
}

#[derive(Default)]
struct Found(Vec<FieldError>);

impl Found {
    fn when(&mut self, path: &str, unsupported: bool) {
        if unsupported {
            self.0.push(FieldError {
                path: path.to_owned(),
                message: NOT_SUPPORTED.to_owned(),
            });
        }
    }

    fn monitoring(&mut self, spec: &MonitoringSpec) {
        let MonitoringSpec {
            service_monitor,
            prometheus_rule,
            grafana_dashboard,
        } = spec;
        self.when("spec.monitoring.serviceMonitor", asked(*service_monitor));
        self.when("spec.monitoring.prometheusRule", asked(*prometheus_rule));
        self.when(
            "spec.monitoring.grafanaDashboard",
            asked(*grafana_dashboard),
        );
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn refused(mut spec: Value) -> Vec<String> {
        spec["targetNamespace"] = json!("reports-server");
        let spec = serde_json::from_value(spec).unwrap();
        unsupported_fields(&spec)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn the_supported_set_is_not_named() {
        let found = refused(json!({
            "suspend": false,
            "apis": [{"group": "wgpolicyk8s.io", "owner": "Server"}],
            "migration": {"approval": "Manual", "approvedPlan": "sha256:0", "pageSize": 100,
                "maxRequestsPerSecond": 10, "soak": "1h", "onFailure": "Hold", "dryRun": true, "requireAdmission": true, "concurrency": 2,
                "verification": "Sample", "drainWindow": "1m",
                "restart": [{"kind": "Deployment", "namespace": "n", "name": "d"}], "source": {"policy": "Prune", "after": "24h"}},
            "database": {"mode": "Embedded", "embedded": {"storage": {"size": "1Gi"}}},
            "clusterIdentity": {"id": "a"},
            "server": {"replicas": 2, "topologySpreadConstraints": [],
                "podDisruptionBudget": {"minAvailable": 1}, "resources": {"limits": {"memory": "1Gi"}},
                "nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}],
                "affinity": {}, "priorityClassName": "p", "logging": {"level": "Info", "format": "Text"}},
            "images": {"registry": "r.example", "server": {"tag": "1"}, "postgres": {"tag": "17"}, "pullSecrets": [{"name": "s"}]},
            "tls": {"mode": "Provided", "operator": {"certValidity": "24h"},
                "provided": {"secretRef": {"name": "x"}}, "certManager": {"issuerRef": {"name": "x"}}},
            "networkPolicy": {"enabled": false}, "monitoring": {"serviceMonitor": false},
            "deletionPolicy": {"apis": "Orphan", "data": "Delete"},
        }));
        assert_eq!(found, Vec::<String>::new());
    }

    #[rstest]
    #[case(json!({"networkPolicy": {"enabled": true}}), "spec.networkPolicy.enabled: ")]
    #[case(json!({"monitoring": {"prometheusRule": true}}), "spec.monitoring.prometheusRule: ")]
    fn each_field_without_effect_is_named(#[case] spec: Value, #[case] start: &str) {
        assert_eq!(refused(spec), [format!("{start}{NOT_SUPPORTED}")]);
    }

    #[test]
    fn all_of_them_are_named_at_once_and_are_in_the_list() {
        let spec = json!({
            "targetNamespace": "reports-server",
            "networkPolicy": {"enabled": true},
            "monitoring": {"serviceMonitor": true, "prometheusRule": true,
                "grafanaDashboard": true},
        });
        let spec = serde_json::from_value(spec).unwrap();
        let found: Vec<String> = unsupported_fields(&spec)
            .into_iter()
            .map(|e| e.path)
            .collect();
        assert_eq!(found, UNSUPPORTED_PATHS);
    }
}
