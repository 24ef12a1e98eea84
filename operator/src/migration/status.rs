//! What the migration of one API group has reached, for the `ReportsServer`'s status.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{estimate::Plan, step::StepName, verify::Verified};

/// Short, stable word for `status.migration.phase`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Nothing has been looked at yet, or something outside has to become ready first.
    #[default]
    Pending,
    /// Looking whether the group can be taken.
    Preflight,
    /// Copying objects and following their changes.
    Copying,
    /// Comparing both sides object by object.
    Verifying,
    /// Everything is verified, and nothing is to be switched.
    DryRun,
    /// Waiting for the user's approval of the plan.
    AwaitingApproval,
    /// Between holding the first request and closing the side door.
    Switching,
    /// Served by us and under observation.
    Soaking,
    /// Served by us; the copies in etcd are kept until their time has come.
    Serving,
    /// Deleting the copies in etcd.
    Pruning,
    /// Served by us and nothing left to do.
    Completed,
    /// Writing back to etcd and giving the APIServices back.
    RollingBack,
    /// Served by the CRDs.
    RolledBack,
}

impl Phase {
    /// The word as it stands in the status.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Preflight => "Preflight",
            Self::Copying => "Copying",
            Self::Verifying => "Verifying",
            Self::DryRun => "DryRun",
            Self::AwaitingApproval => "AwaitingApproval",
            Self::Switching => "Switching",
            Self::Soaking => "Soaking",
            Self::Serving => "Serving",
            Self::Pruning => "Pruning",
            Self::Completed => "Completed",
            Self::RollingBack => "RollingBack",
            Self::RolledBack => "RolledBack",
        }
    }

    /// Whether the group is served by us and every step up to the soak is behind it.
    #[must_use]
    pub fn is_serving(self) -> bool {
        matches!(self, Self::Serving | Self::Pruning | Self::Completed)
    }
}

/// Who answers for one version of a group now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ServedBy {
    /// Our server.
    Server,
    /// The CRD: a Local, automanaged APIService.
    Crd,
    /// Nobody: there is no APIService.
    Absent,
    /// Some other server.
    Foreign,
}

/// One APIService of the group.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiServiceStatus {
    /// `<version>.<group>`.
    pub name: String,
    /// Its uid, where it exists.
    pub uid: Option<String>,
    /// See [`ServedBy`].
    pub served_by: ServedBy,
    /// Its labels and specification while a CRD serves it.
    pub original: Option<Map<String, Value>>,
}

/// How far one resource has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceProgress {
    /// The version it is read through while it is copied.
    pub version: String,
    /// Plural name.
    pub resource: String,
    /// Objects in etcd when the copying began, once known.
    pub total: Option<u64>,
    /// Objects and events taken over so far.
    pub copied: u64,
    /// Objects in etcd when both sides were compared, all of them equal or explained.
    pub verified: u64,
    /// Objects that differ and that no event explains, once a comparison has ended.
    pub failed: Option<u64>,
    /// Of the verified ones, those that had changed since they were listed.
    pub skipped: Option<u64>,
    /// See [`Verified::checksum`].
    pub set_checksum: Option<String>,
    /// Newest etcd version that the server has durably.
    pub source_resource_version: String,
}

impl ResourceProgress {
    /// This, with what a verification has found.
    #[must_use]
    pub fn with(mut self, verified: Option<&Verified>) -> Self {
        if let Some(verified) = verified {
            self.verified = verified.objects;
            self.failed = Some(0);
            self.skipped = Some(verified.objects.saturating_sub(verified.equal));
            self.set_checksum = Some(verified.checksum.clone());
        }
        self
    }
}

/// Something that keeps the migration from going on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Reason in `CamelCase` for a condition.
    pub reason: &'static str,
    /// What is wrong and what to do about it.
    pub message: String,
    /// True when retrying cannot help and a user has to act.
    pub stalled: bool,
}

/// What the prune gave back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Objects deleted from etcd.
    pub objects: u64,
    /// Their size as JSON, in bytes.
    pub bytes: u64,
    /// Objects left in etcd.
    pub left: u64,
    /// The first of them, as `resource/namespace/name: why`.
    pub left_names: Vec<String>,
}

/// Writes to etcd that gave way to the server's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// How many.
    pub count: u64,
    /// The first of them, as `resource/namespace/name`.
    pub names: Vec<String>,
}

/// The migration report, in short.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportSummary {
    /// Name of the `ConfigMap` in the target namespace that has the whole.
    pub config_map: String,
    /// SHA-256 (hex) over everything that was compared.
    pub checksum: Option<String>,
    /// Late writes that were found in etcd after the switch.
    pub stragglers: u64,
    /// Objects written to etcd on the way back.
    pub written_back: u64,
    /// How often something was tried again.
    pub retries: u64,
    /// The newest reason for that, as `step: reason`.
    pub last_retry: Option<String>,
    /// The longest that requests were held, in milliseconds.
    pub longest_hold_milliseconds: Option<u64>,
}

/// State of one API group; a snapshot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupStatus {
    /// API group.
    pub group: String,
    /// See [`Phase`].
    pub phase: Phase,
    /// The step that runs or waits now.
    pub step: Option<StepName>,
    /// One sentence for people.
    pub message: String,
    /// One entry a served version.
    pub api_services: Vec<ApiServiceStatus>,
    /// One entry a resource.
    pub resources: Vec<ResourceProgress>,
    /// What [`super::Approval::Manual`] asks the user to approve, `sha256:...`.
    pub plan_hash: Option<String>,
    /// What a switch would do, while everything is verified and nothing switched.
    pub plan: Option<Plan>,
    /// When our server was put in charge.
    pub switched_at: Option<Timestamp>,
    /// When the copies in etcd were deleted.
    pub pruned_at: Option<Timestamp>,
    /// What that gave back; known to the process that did it.
    pub pruned: Option<Pruned>,
    /// How long requests waited in the switch; known to the process that did it.
    pub held_milliseconds: Option<u64>,
    /// When the copies in etcd become due for deletion, where they are to be deleted.
    pub prune_due: Option<Timestamp>,
    /// Writes that others made to etcd while the server was in charge, and that were dropped.
    pub dropped: Dropped,
    /// See [`ReportSummary`]; none before the first was written.
    pub report: Option<ReportSummary>,
    /// Whether a CRD of the group has the additional version `legacy` now.
    pub door_open: bool,
    /// Whether the group's CRDs exist, so that it can be given back.
    pub crds_present: bool,
    /// What is in the way, if anything.
    pub problem: Option<Problem>,
    /// The step in which that happened.
    pub failed_step: Option<StepName>,
}

impl GroupStatus {
    /// Something keeps the present step from its end.
    pub fn fail(&mut self, problem: Problem) {
        self.failed_step = self.step;
        self.problem = Some(problem);
    }

    /// Nothing is in the way.
    pub fn succeed(&mut self) {
        self.failed_step = None;
        self.problem = None;
    }

    /// A step begins. What was wrong with an earlier one is not wrong any more.
    pub fn begin(&mut self, step: StepName, phase: Phase) {
        if self.failed_step.is_some_and(|failed| failed < step) {
            self.succeed();
        }
        self.step = Some(step);
        self.phase = phase;
        step.describe().clone_into(&mut self.message);
    }
}
