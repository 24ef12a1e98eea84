//! Edits of the specification that are accepted, and that have an effect.

use crds::v1alpha1::conditions;
use serde_json::{Value, json};

use super::expect::Expect;
use crate::takeover::GROUPS;

/// Returns the members of the specification by which everything optional is there.
#[must_use]
pub fn optional() -> Value {
    json!({
        "server": {"replicas": null, "autoscaling": {"minReplicas": 2, "maxReplicas": 4}},
        // A dump has tests of its own.
        "database": {"backup": {"schedule": "0 0 29 2 *",
            "destination": {"pvc": {"storage": {"size": "1Gi"}}}}},
        "networkPolicy": {"enabled": true},
        "monitoring": {"grafanaDashboard": true},
    })
}

/// An edit that is valid. It is taken back when it was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValidEdit {
    /// More servers at least.
    MoreReplicas,
    /// A number of servers that nobody adapts.
    FixedReplicas,
    /// No backups.
    BackupsOff,
    /// A log of more lines.
    LogLevel,
    /// No network policies.
    PoliciesOff,
    /// No dashboard.
    DashboardOff,
    /// An object of a kind that is not installed.
    MissingMonitor,
    /// Pods that may be away.
    Budget,
    /// Another soak.
    Soak,
    /// Another pace of migrations.
    Pace,
    /// Certificates that are renewed every half minute.
    RenewSoon,
    /// Other resources of the servers.
    Resources,
    /// A node that does not exist.
    NoNode,
    /// An image that does not exist.
    NoImage,
    /// Nothing is to be changed any more.
    Suspended,
    /// A group goes back to its CRDs.
    GivenBack,
}

impl ValidEdit {
    /// Every edit.
    pub const ALL: [Self; 16] = [
        Self::MoreReplicas,
        Self::FixedReplicas,
        Self::BackupsOff,
        Self::LogLevel,
        Self::PoliciesOff,
        Self::DashboardOff,
        Self::MissingMonitor,
        Self::Budget,
        Self::Soak,
        Self::Pace,
        Self::RenewSoon,
        Self::Resources,
        Self::NoNode,
        Self::NoImage,
        Self::Suspended,
        Self::GivenBack,
    ];

    /// Returns the members of the specification that it sets (RFC 7386).
    #[must_use]
    pub fn patch(self) -> Value {
        match self {
            Self::MoreReplicas => json!({"server": {"autoscaling": {"minReplicas": 3}}}),
            Self::FixedReplicas => json!({"server": {"autoscaling": null, "replicas": 1}}),
            Self::BackupsOff => json!({"database": {"backup": null}}),
            Self::LogLevel => json!({"server": {"logging": {"level": "Debug"}}}),
            Self::PoliciesOff => json!({"networkPolicy": {"enabled": false}}),
            Self::DashboardOff => json!({"monitoring": {"grafanaDashboard": false}}),
            Self::MissingMonitor => json!({"monitoring": {"serviceMonitor": true}}),
            Self::Budget => json!({"server": {"podDisruptionBudget": {"maxUnavailable": 1}}}),
            Self::Soak => json!({"migration": {"soak": "7s"}}),
            Self::Pace => json!({"migration": {"maxRequestsPerSecond": 150}}),
            Self::RenewSoon => json!({"tls": {"operator":
                {"caValidity": "24h", "certValidity": "9m", "renewBefore": "510s"}}}),
            Self::Resources => json!({"server": {"resources": {"requests": {"cpu": "60m"}}}}),
            Self::NoNode => json!({"server": {"nodeSelector": {"abuse": "nowhere"}}}),
            Self::NoImage => json!({"images": {"server": {"tag": "abused"}}}),
            Self::Suspended => json!({"suspend": true}),
            Self::GivenBack => json!({"apis": [
                {"group": GROUPS[0], "owner": "CRD"}, {"group": GROUPS[1], "owner": "Server"}]}),
        }
    }

    /// Returns what has to be so after it.
    #[must_use]
    pub fn expect(self) -> Expect {
        match self {
            Self::MissingMonitor => {
                Expect::Told(conditions::MONITORING_READY, "False", &["servicemonitors"])
            }
            // Those that run go on, and something says that others cannot be made.
            Self::NoNode | Self::NoImage => Expect::Told(conditions::RECONCILING, "True", &[]),
            Self::Suspended => Expect::Told(conditions::READY, "True", &["spec.suspend"]),
            _ => Expect::Served,
        }
    }
}

#[cfg(test)]
mod tests {
    use crds::v1alpha1::ReportsServerSpec;
    use crds::v1alpha1::support::unsupported_fields;

    use super::*;

    #[test]
    fn every_edit_is_one_of_the_specification_and_changes_it() {
        let mut before = json!({"targetNamespace": "a", "apis": [
            {"group": GROUPS[0], "owner": "Server"}, {"group": GROUPS[1], "owner": "Server"}],
            "database": {"mode": "Managed", "managed": {"storage": {"size": "2Gi"}}}});
        json_patch::merge(&mut before, &optional());
        let read = |spec: &Value| serde_json::from_value::<ReportsServerSpec>(spec.clone());
        for edit in ValidEdit::ALL {
            let mut after = before.clone();
            json_patch::merge(&mut after, &edit.patch());
            let (before, after) = (read(&before).unwrap(), read(&after).unwrap());
            assert_ne!(before, after, "{edit:?}");
            assert!(unsupported_fields(&after).is_empty(), "{edit:?}");
        }
    }
}
