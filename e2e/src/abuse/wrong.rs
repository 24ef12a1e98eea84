//! Edits of the specification that are wrong: each is refused by somebody who names the field.

use serde_json::{Value, json};

use super::expect::Expect;
use crate::takeover::GROUPS;

/// An edit that is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InvalidEdit {
    /// Another target namespace.
    OtherNamespace,
    /// Another identity in the database.
    OtherIdentity,
    /// No server.
    NoReplicas,
    /// More servers than there may be.
    TooManyReplicas,
    /// Two that decide on the number of servers.
    TwoScales,
    /// Back to a database of the pod.
    EmbeddedAgain,
    /// A volume that is smaller.
    SmallerVolume,
    /// A volume of another class.
    OtherClass,
    /// A database older than its data.
    OlderDatabase,
    /// Times of backups that are none.
    NoCron,
    /// A time that is none.
    NoDuration,
    /// A window that is too long.
    LongDrain,
    /// A certificate that ends at once.
    ShortCertificate,
    /// A certificate that ends with its authority.
    ShortAuthority,
    /// Certificates from a Secret that does not exist.
    MissingCertificate,
    /// No groups, while some are served.
    NoGroups,
    /// A group that is no group.
    NoGroup,
    /// A field of pods that does not exist.
    UnknownField,
    /// Pods that see the processes of their node.
    HostProcesses,
    /// An account that is somebody else's.
    ForeignAccount,
    /// Less allowed than requested.
    LimitBelowRequest,
    /// A toleration that cannot be.
    BadToleration,
    /// An affinity that cannot be.
    BadAffinity,
    /// Two bounds of pods that are away.
    TwoBudgets,
    /// Networks of a database that is not external.
    ForeignNetworks,
    /// A network that is none.
    BadNetwork,
}

impl InvalidEdit {
    /// Every edit.
    pub const ALL: [Self; 26] = [
        Self::OtherNamespace,
        Self::OtherIdentity,
        Self::NoReplicas,
        Self::TooManyReplicas,
        Self::TwoScales,
        Self::EmbeddedAgain,
        Self::SmallerVolume,
        Self::OtherClass,
        Self::OlderDatabase,
        Self::NoCron,
        Self::NoDuration,
        Self::LongDrain,
        Self::ShortCertificate,
        Self::ShortAuthority,
        Self::MissingCertificate,
        Self::NoGroups,
        Self::NoGroup,
        Self::UnknownField,
        Self::HostProcesses,
        Self::ForeignAccount,
        Self::LimitBelowRequest,
        Self::BadToleration,
        Self::BadAffinity,
        Self::TwoBudgets,
        Self::ForeignNetworks,
        Self::BadNetwork,
    ];

    /// Returns the members of the specification that it sets (RFC 7386).
    #[must_use]
    pub fn patch(self) -> Value {
        match self {
            Self::OtherNamespace => json!({"targetNamespace": "abuse-00"}),
            Self::OtherIdentity => json!({"clusterIdentity": {"id": "abused"}}),
            Self::EmbeddedAgain => json!({"database": {"mode": "Embedded", "managed": null}}),
            Self::SmallerVolume => managed(&json!({"storage": {"size": "1Gi"}})),
            Self::OtherClass => managed(&json!({"storage": {"storageClassName": "abused"}})),
            Self::OlderDatabase => managed(&json!({"version": "13"})),
            Self::NoCron => json!({"database": {"backup": {"schedule": "every now and then"}}}),
            Self::NoDuration => json!({"migration": {"soak": "soon"}}),
            Self::LongDrain => json!({"migration": {"drainWindow": "2h"}}),
            Self::ShortCertificate => json!({"tls": {"operator": {"certValidity": "1s"}}}),
            Self::ShortAuthority => {
                json!({"tls": {"operator": {"caValidity": "2h", "certValidity": "90m"}}})
            }
            Self::MissingCertificate => json!({"tls": {"mode": "Provided",
                "provided": {"secretRef": {"name": "abused"}}}}),
            Self::NoGroups => json!({"apis": []}),
            Self::NoGroup => json!({"apis": [
                {"group": GROUPS[0], "owner": "Server"}, {"group": GROUPS[1], "owner": "Server"},
                {"group": "No Group", "owner": "Server"}]}),
            Self::ForeignNetworks => json!({"networkPolicy": {"databaseCIDRs": ["192.0.2.0/24"]}}),
            Self::BadNetwork => json!({"networkPolicy": {"apiServerCIDRs": ["10.0.0.0/99"]}}),
            of_pods => json!({"server": of_pods.pods()}),
        }
    }

    /// Returns the members of `spec.server` that it sets.
    fn pods(self) -> Value {
        match self {
            Self::NoReplicas => json!({"replicas": 0}),
            Self::TooManyReplicas => json!({"replicas": 33}),
            Self::TwoScales => json!({"replicas": 2, "autoscaling": {"maxReplicas": 3}}),
            Self::UnknownField => json!({"podTemplate": {"spec": {"noSuchField": true}}}),
            Self::HostProcesses => json!({"podTemplate": {"spec": {"hostPID": true}}}),
            Self::ForeignAccount => json!({"serviceAccount": {"name": "default"}}),
            Self::LimitBelowRequest => {
                json!({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}})
            }
            Self::BadToleration => json!({"tolerations": [{"key": "a", "operator": "Perhaps"}]}),
            Self::BadAffinity => json!({"affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "a", "operator": "Perhaps"}]}]}}}}),
            Self::TwoBudgets => {
                json!({"podDisruptionBudget": {"minAvailable": 1, "maxUnavailable": 1}})
            }
            _ => json!({}),
        }
    }

    /// Returns what has to be so after it: somebody names the field.
    #[must_use]
    pub fn expect(self) -> Expect {
        Expect::Refused(match self {
            Self::OtherNamespace => &["targetNamespace"],
            Self::OtherIdentity => &["clusterIdentity"],
            Self::NoReplicas | Self::TooManyReplicas => &["spec.server.replicas"],
            Self::TwoScales => &["autoscaling"],
            Self::EmbeddedAgain => &["database.mode"],
            Self::SmallerVolume => &["database.managed.storage.size"],
            Self::OtherClass => &["database.managed.storage.storageClassName"],
            Self::OlderDatabase => &["database.managed.version"],
            Self::NoCron => &["spec.database.backup"],
            Self::NoDuration => &["spec.migration.soak"],
            Self::LongDrain => &["spec.migration.drainWindow"],
            Self::ShortCertificate => &["spec.tls.operator.certValidity"],
            Self::ShortAuthority => &["spec.tls.operator.caValidity"],
            Self::MissingCertificate => &["spec.tls"],
            Self::NoGroups => &["apis"],
            Self::NoGroup => &["spec.apis[2].group"],
            Self::UnknownField => &["noSuchField"],
            Self::HostProcesses => &["spec.server.podTemplate.spec.hostPID"],
            Self::ForeignAccount => &["annotate serviceaccount default"],
            Self::LimitBelowRequest => &["spec.server.resources"],
            Self::BadToleration => &["spec.server.tolerations"],
            Self::BadAffinity => &["spec.server.affinity"],
            Self::TwoBudgets => &["podDisruptionBudget"],
            Self::ForeignNetworks => &["spec.networkPolicy.databaseCIDRs"],
            Self::BadNetwork => &["spec.networkPolicy"],
        })
    }
}

fn managed(members: &Value) -> Value {
    json!({"database": {"managed": members}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_edit_sets_something_and_is_refused_by_name() {
        for edit in InvalidEdit::ALL {
            let patch = edit.patch();
            let members = patch.as_object().unwrap();
            assert_eq!(members.len(), 1, "{edit:?}");
            let set = members.values().all(|member| *member != json!({}));
            assert!(set, "{edit:?} sets nothing");
            match edit.expect() {
                Expect::Refused(words) => assert!(!words.is_empty(), "{edit:?}"),
                other => panic!("{edit:?}: {other:?}"),
            }
        }
    }
}
