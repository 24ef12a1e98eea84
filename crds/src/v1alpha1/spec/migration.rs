//! `spec.migration`: the migration of reports between etcd and the server's database.

use kube::KubeSchema;
use kube::core::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::v1alpha1::schema;

/// The migration of reports between etcd and the server's database.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new("!has(self.approvedPlan) || (has(self.approval) && self.approval == 'Manual')")
        .message("approvedPlan can be set only with approval: Manual")
)]
#[serde(rename_all = "camelCase")]
pub struct MigrationSpec {
    /// The approval of the switch: `Automatic` switches as soon as the copy is verified; `Manual`
    /// waits for `approvedPlan`. Default: `Automatic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// The plan that may be carried out: the value of `status.migration.planHash`. A hash of an
    /// older plan is not accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 71), regex(pattern = r"^sha256:[0-9a-f]{64}$"))]
    pub approved_plan: Option<String>,
    /// True when nothing is switched and nothing deleted from etcd. A group is copied, verified and
    /// followed, and its plan is shown in `status.migration.groups[].plan`. False goes on from
    /// there. A group that the server serves already goes on being served, and a way back is not
    /// kept from anything. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    /// True when a group is not switched while there are admission policies, webhooks or quotas for
    /// its resources. The kube-apiserver applies none of them to an API that another server
    /// answers for; the condition `AdmissionBypassed` names them. A group that the server serves
    /// already goes on being served. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require_admission: Option<bool>,
    /// Most deletions of a prune, and most writes of a way back, at the same time. A prune stays
    /// below it while the kube-apiserver refuses requests or answers slowly. Default: 16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub concurrency: Option<i32>,
    /// Reports in a page of a list, and in a batch of an import. Default: 250.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub page_size: Option<i32>,
    /// Requests to the kube-apiserver in a second. Default: 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub max_requests_per_second: Option<i32>,
    /// The depth of the comparison with etcd. `Full` compares the content of every report by
    /// checksum. `Sample` compares uid and resourceVersion of every report, and the content of a
    /// part: 5 %, and at least 100 reports of each resource. Default: `Full`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<Verification>,
    /// The time after the switch in which late writes to etcd are looked for, such as `1m`; at most
    /// `1h`. Each is taken over. With `0s` there is one look. Default: `0s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::window")]
    pub drain_window: Option<Duration>,
    /// The time for which the API is watched after the switch, and after `drainWindow`, before the
    /// migration counts as good, such as `1h`. Default: `5m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration")]
    pub soak: Option<Duration>,
    /// The reaction when the API is unhealthy during the soak: `Revert` gives it back to the CRD,
    /// `Hold` leaves it and says so. Default: `Revert`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
    /// The policy for the copies in etcd once everything is verified and served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceSpec>,
    /// Workloads that are restarted, as `kubectl rollout restart` does it, when a switch or a way
    /// back could not keep their watches. They are clients that do not begin anew after a 410. The
    /// operator needs the rights `get` and `patch` on each of them, which a Role has to give it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["kind".into(), "namespace".into(), "name".into()]))]
    pub restart: Option<Vec<RestartSpec>>,
}

/// A workload that is restarted when its watches could not be kept.
#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestartSpec {
    /// Kind of the workload.
    pub kind: WorkloadKind,
    /// Namespace of the workload.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub namespace: String,
    /// Name of the workload.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub name: String,
    /// The condition for the restart. `IfNeeded` restarts the workload only after a switch or a way
    /// back in which watches were lost. Default: `IfNeeded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<RestartWhen>,
}

/// Kind of a workload that has a pod template.
#[derive(
    JsonSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[schemars(transform = crate::v1alpha1::schema::without_description)]
pub enum WorkloadKind {
    /// `apps/v1` `Deployment`.
    Deployment,
    /// `apps/v1` `StatefulSet`.
    StatefulSet,
    /// `apps/v1` `DaemonSet`.
    DaemonSet,
}

impl WorkloadKind {
    /// Returns the kind as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
            Self::DaemonSet => "DaemonSet",
        }
    }

    /// Returns the plural name in `apps/v1`.
    #[must_use]
    pub fn plural(self) -> &'static str {
        match self {
            Self::Deployment => "deployments",
            Self::StatefulSet => "statefulsets",
            Self::DaemonSet => "daemonsets",
        }
    }
}

/// The condition for the restart of a workload.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[schemars(transform = crate::v1alpha1::schema::without_description)]
pub enum RestartWhen {
    /// After a switch or a way back in which watches were lost.
    #[default]
    IfNeeded,
}

/// The one who approves the switch of a verified migration.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[schemars(transform = crate::v1alpha1::schema::without_description)]
pub enum Approval {
    /// The operator.
    #[default]
    Automatic,
    /// The user, by `migration.approvedPlan`.
    Manual,
}

/// The depth of the comparison of a copy with etcd.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[schemars(transform = crate::v1alpha1::schema::without_description)]
pub enum Verification {
    /// Every report by uid, resourceVersion and checksum.
    #[default]
    Full,
    /// Every report by uid and resourceVersion, and a part of them by checksum.
    Sample,
}

impl Verification {
    /// Returns whether a comparison of this depth is as good as one of the depth `asked`.
    #[must_use]
    pub fn covers(self, asked: Self) -> bool {
        self == Self::Full || self == asked
    }
}

/// The reaction when an API is unhealthy during the soak.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[schemars(transform = crate::v1alpha1::schema::without_description)]
pub enum OnFailure {
    /// The API is given back to the CRD.
    #[default]
    Revert,
    /// The API stays with the server, and the operator waits for the user.
    Hold,
}

/// The policy for the copies in etcd.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceSpec {
    /// The policy: `Prune` deletes each verified copy; `Keep` deletes nothing. Default: `Prune`,
    /// and `Keep` where the database is ephemeral.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<SourcePolicy>,
    /// The time after the switch before anything is pruned, such as `24h`; no meaning with `Keep`.
    /// Default: `24h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration")]
    pub after: Option<Duration>,
}

/// The policy for the copies in etcd.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[schemars(transform = crate::v1alpha1::schema::without_description)]
pub enum SourcePolicy {
    /// Each copy that was imported and verified is deleted.
    #[default]
    Prune,
    /// Nothing is deleted.
    Keep,
}
