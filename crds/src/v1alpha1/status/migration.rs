//! `status.migration`: the state of each API group between etcd and the server.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::v1alpha1::spec::WorkloadKind;

/// The state of the migrations. Groups move on their own; the fields up here sum them up.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MigrationStatus {
    /// Phase of the group that needs attention first: one that is stalled, else the least advanced.
    /// `message` is about the same group; see `groups`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<MigrationPhase>,
    /// Hash of the plan that waits for approval or is carried out: `sha256:` and 64 hexadecimal
    /// digits. It changes with the groups, their CRDs and the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 71))]
    pub plan_hash: Option<String>,
    /// Progress of that group while it goes through all of its reports, such as `1,234/10,000`:
    /// copied, compared, deleted from etcd, or compared and written back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub progress: Option<String>,
    /// One sentence about the state of the migrations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub message: Option<String>,
    /// The time at which the first group started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// The time at which the last group was switched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switched_at: Option<Time>,
    /// The time at which the last group was completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Time>,
    /// The groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["group".into()]))]
    pub groups: Vec<GroupMigrationStatus>,
    /// The groups' resources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["group".into(), "resource".into()]))]
    pub resources: Vec<ResourceMigrationStatus>,
}

/// The phase of a group. The forward path is `Pending → Preflight → Mirroring → Verifying →
/// (DryRun) → (AwaitingApproval) → Switching → (Importing) → Soaking → Retaining → Pruning →
/// Completed`, the way back `RollingBack → RolledBack`. The names are stable.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[schemars(transform = crate::v1alpha1::schema::without_description)]
pub enum MigrationPhase {
    /// The server is asked to answer; nothing has been looked at yet.
    #[default]
    Pending,
    /// The operator checks whether the group can be taken over. The phase stays, with a reason,
    /// while it cannot.
    Preflight,
    /// The reports are copied, and their changes are followed.
    Mirroring,
    /// The copy is compared with etcd.
    Verifying,
    /// The copy is verified and followed; nothing is switched while `migration.dryRun` is true.
    DryRun,
    /// The copy is verified and followed; the migration waits for `migration.approvedPlan`.
    AwaitingApproval,
    /// The APIService is handed over; `step` names the present step.
    Switching,
    /// The server answers; reports that only the database of another server has are imported.
    Importing,
    /// The server answers; its availability is watched, and etcd still has every copy.
    Soaking,
    /// The soak is over; the copies in etcd are kept until `migration.source.after` is over.
    Retaining,
    /// The verified copies in etcd are being deleted.
    Pruning,
    /// Nothing is left to do. `prunedAt` says whether copies are still in etcd.
    Completed,
    /// The reports are written back and the APIService is given back.
    RollingBack,
    /// The CRD answers again.
    RolledBack,
}

impl MigrationPhase {
    /// Returns the phase's name as it is written in status, events and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Preflight => "Preflight",
            Self::Mirroring => "Mirroring",
            Self::Verifying => "Verifying",
            Self::DryRun => "DryRun",
            Self::AwaitingApproval => "AwaitingApproval",
            Self::Switching => "Switching",
            Self::Importing => "Importing",
            Self::Soaking => "Soaking",
            Self::Retaining => "Retaining",
            Self::Pruning => "Pruning",
            Self::Completed => "Completed",
            Self::RollingBack => "RollingBack",
            Self::RolledBack => "RolledBack",
        }
    }

    /// Returns whether clients of the group are served as asked, and nothing but waiting and
    /// tidying up is left.
    #[must_use]
    pub fn is_settled(self) -> bool {
        matches!(
            self,
            Self::Soaking | Self::Retaining | Self::Pruning | Self::Completed | Self::RolledBack
        )
    }

    /// Returns whether the server serves the group and every step up to the soak is behind it.
    #[must_use]
    pub fn is_serving(self) -> bool {
        matches!(self, Self::Retaining | Self::Pruning | Self::Completed)
    }

    /// Returns the order in which a person should look at groups, 0 first. A way back comes before
    /// the way forward, and there the least advanced.
    #[must_use]
    pub fn rank(self) -> u8 {
        match self {
            Self::RollingBack => 0,
            Self::Pending => 1,
            Self::Preflight => 2,
            Self::Mirroring => 3,
            Self::Verifying => 4,
            Self::DryRun => 5,
            Self::AwaitingApproval => 6,
            Self::Switching => 7,
            Self::Importing => 8,
            Self::Soaking => 9,
            Self::Pruning => 10,
            Self::Retaining => 11,
            Self::Completed => 12,
            Self::RolledBack => 13,
        }
    }
}

impl std::fmt::Display for MigrationPhase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The state of one API group.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupMigrationStatus {
    /// The API group.
    #[schemars(length(max = 253))]
    pub group: String,
    /// The phase of the group.
    pub phase: MigrationPhase,
    /// Step within the phase, such as `Hold` or `OpenSideDoor` while `Switching`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub step: Option<String>,
    /// One sentence about the present work, or about what has to be done, and by whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub message: Option<String>,
    /// Progress of the group while it goes through all of its reports, such as `1,234/10,000`:
    /// copied, compared, deleted from etcd, or compared and written back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub progress: Option<String>,
    /// The plan of a switch; present while the copy is verified and not switched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanStatus>,
    /// Reports in etcd when they were listed, over all resources of the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<i64>,
    /// Reports in the copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied: Option<i64>,
    /// Reports that were compared and are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<i64>,
    /// Of these, those whose content was compared by checksum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksummed: Option<i64>,
    /// Copies deleted from etcd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pruned: Option<i64>,
    /// Objects in etcd that were not imported and verified, and are therefore left there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_in_etcd: Option<i64>,
    /// Writes and deletions that others made to etcd while the server was in charge, and that were
    /// dropped because the server had changed the same objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_writes: Option<i64>,
    /// The first of these writes, as `resource/namespace/name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), inner(length(max = 600)))]
    pub dropped_names: Vec<String>,
    /// Reports imported from the database of another server, once the import is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<i64>,
    /// Rows of that database that were left there: their namespace does not exist, or they are not
    /// reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_imported: Option<i64>,
    /// The first of these rows, as `resource/namespace/name: why`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), inner(length(max = 1000)))]
    pub not_imported_names: Vec<String>,
    /// The time at which the group's migration started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// The time at which the server answered for the group at every kube-apiserver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switched_at: Option<Time>,
    /// The time for which requests were held during the last switch or way back, in milliseconds of
    /// the server's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_milliseconds: Option<i64>,
    /// The time from which on nothing in etcd keeps the copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prune_after: Option<Time>,
    /// The time at which the last copy was deleted from etcd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pruned_at: Option<Time>,
    /// The time at which the group reached `Completed` or `RolledBack`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Time>,
    /// The version of the CRDs through which the operator reaches etcd while the server answers
    /// for the public one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side_door: Option<SideDoor>,
    /// The group's way back to its CRDs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<RollbackStatus>,
    /// A summary of the migration report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<MigrationReportStatus>,
    /// Workloads of `migration.restart` that were due for a restart, each with the last time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub restarts: Vec<RestartStatus>,
}

/// The outcome of the restart of a workload.
#[derive(JsonSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestartStatus {
    /// Kind of the workload.
    pub kind: WorkloadKind,
    /// Namespace of the workload.
    #[schemars(length(max = 63))]
    pub namespace: String,
    /// Name of the workload.
    #[schemars(length(max = 253))]
    pub name: String,
    /// The outcome of the restart.
    pub result: RestartResult,
    /// The time of the outcome.
    pub time: Time,
    /// The reason for the restart, and the obstacle where there was one.
    #[schemars(length(max = 1024))]
    pub message: String,
}

/// The outcome of the restart of a workload.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[schemars(transform = crate::v1alpha1::schema::without_description)]
pub enum RestartResult {
    /// The pods are being replaced, or have been.
    Restarted,
    /// There is no such workload.
    NotFound,
    /// It could not be restarted, and the operator tries again.
    Failed,
}

/// The plan of a group's switch, with estimates of its duration.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanStatus {
    /// The value for `migration.approvedPlan` with `approval: Manual`.
    #[schemars(length(max = 71))]
    pub hash: String,
    /// Reports in etcd when they were listed.
    pub reports: i64,
    /// Size of these reports as JSON, in bytes.
    pub bytes: i64,
    /// The duration of the copy and the comparison, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_seconds: Option<i64>,
    /// Estimate for the switch, in seconds. Requests wait for 1 to 2 s of it, whatever the number
    /// of reports.
    pub switch_seconds: i64,
    /// Estimate for deleting the copies from etcd, in seconds, where the plan deletes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prune_seconds: Option<i64>,
}

/// A summary of the report of a group's last run, forward and back. The whole report is in a
/// `ConfigMap`.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MigrationReportStatus {
    /// Name of the `ConfigMap` in the target namespace with the whole report, as JSON.
    #[schemars(length(max = 253))]
    pub config_map: String,
    /// Checksum over all reports that were compared, hexadecimal: their uid, resourceVersion and,
    /// as far as it was compared, content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub checksum: Option<String>,
    /// Late writes and deletions that were found in etcd after the switch.
    pub stragglers: i64,
    /// Reports written to etcd on the way back.
    pub written_back: i64,
    /// The number of times that something was tried again.
    pub retries: i64,
    /// The newest reason for a retry, as `step: reason`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub last_retry: Option<String>,
    /// The longest time for which requests were held, in milliseconds of the server's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_hold_milliseconds: Option<i64>,
}

/// The operator's way to etcd beside the public version.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[schemars(transform = crate::v1alpha1::schema::without_description)]
pub enum SideDoor {
    /// The CRDs have the version, and only the operator can write through it.
    Open,
    /// The CRDs are as their owner shipped them.
    Closed,
}

/// A group's way back to its CRDs.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RollbackStatus {
    /// True when setting the owner to `CRD` would succeed.
    pub available: bool,
    /// The obstacle, as a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub reason: Option<String>,
    /// The time since which the server has reports which etcd does not have; they are written back
    /// first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale_since: Option<Time>,
}

/// The account of one resource.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceMigrationStatus {
    /// API group of the resource.
    #[schemars(length(max = 253))]
    pub group: String,
    /// Plural name of the resource.
    #[schemars(length(max = 63))]
    pub resource: String,
    /// The version that is read from etcd.
    #[schemars(length(max = 63))]
    pub version: String,
    /// Reports in etcd when they were listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<i64>,
    /// Reports in the copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied: Option<i64>,
    /// Reports that were compared and are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<i64>,
    /// Of these, those whose content was compared by checksum: all that are not left out with
    /// `verification: Full`, a part with `Sample`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksummed: Option<i64>,
    /// Reports that differ without an explanation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<i64>,
    /// Reports that were left out, because they were deleted or changed meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<i64>,
    /// Copies deleted from etcd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pruned: Option<i64>,
    /// etcd's resourceVersion up to which the copy has everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub source_resource_version: Option<String>,
    /// Checksum over uid, resourceVersion and, as far as it was compared, content of the verified
    /// reports, hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub set_checksum: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::MigrationPhase as Phase;

    #[test]
    fn a_way_back_comes_first_then_the_least_advanced() {
        let order = [
            Phase::RollingBack,
            Phase::Pending,
            Phase::Mirroring,
            Phase::Verifying,
            Phase::DryRun,
            Phase::AwaitingApproval,
            Phase::Pruning,
            Phase::Retaining,
            Phase::Completed,
        ];
        assert!(order.is_sorted_by_key(|phase| phase.rank()));
    }

    #[test]
    fn names_are_those_of_the_serialized_form() {
        for phase in [
            Phase::Pending,
            Phase::DryRun,
            Phase::AwaitingApproval,
            Phase::RolledBack,
        ] {
            assert_eq!(serde_json::to_value(phase).unwrap(), phase.to_string());
        }
    }
}
