//! Fields of the specification that this version does not act on.
//!
//! The whole specification is in the CRD, so that it stays as it is while features arrive. A field
//! whose effect is not built yet is refused by name; it is never ignored.

use std::fmt;

use super::spec::ReportsServerSpec;

/// The message for a refused field.
pub const NOT_SUPPORTED: &str = "not supported in this version";

/// Every path that [`unsupported_fields`] can name; the field reference marks them. There is none
/// at present.
pub const UNSUPPORTED_PATHS: &[&str] = &[];

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

/// Names every field of the specification that asks for something which this version does not do,
/// with [`NOT_SUPPORTED`]. A field that asks for what happens anyway (`enabled: false`) is not named.
#[must_use]
pub fn unsupported_fields(spec: &ReportsServerSpec) -> Vec<FieldError> {
    // Taken apart without `..`: a new field cannot be forgotten here. All have an effect at present.
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
        network_policy: _,
        monitoring: _,
        deletion_policy: _,
    } = spec;
    Vec::new()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_supported_set_is_not_named() {
        let spec = json!({
            "targetNamespace": "reports-server",
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
            "networkPolicy": {"enabled": true},
            "monitoring": {"serviceMonitor": true, "prometheusRule": true, "grafanaDashboard": true, "tracing": {"endpoint": "http://c"}},
            "deletionPolicy": {"apis": "Orphan", "data": "Delete"},
        });
        let spec = serde_json::from_value(spec).unwrap();
        assert_eq!(unsupported_fields(&spec), []);
    }
}
