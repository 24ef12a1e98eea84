//! The progress of the migration of one API group, for the `ReportsServer`'s status.

use std::fmt;

use crds::v1alpha1::reasons;
use crds::v1alpha1::status::{MigrationPhase, RestartResult, ServedBy};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::grant::Rule;
use crate::migration::observe::bypass::Bypass;
use crate::migration::plan::action::Action;
use crate::migration::plan::estimate::Plan;
use crate::migration::plan::step::StepName;
use crate::migration::plan::target::Workload;
use crate::migration::plan::verified::Verified;
use crate::migration::steps::diff::NAMED;

/// One APIService of the group.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiServiceStatus {
    /// `<version>.<group>`.
    pub name: String,
    /// uid of the APIService, where it exists.
    pub uid: Option<String>,
    /// See [`ServedBy`].
    pub served_by: ServedBy,
    /// Labels and specification of the APIService while a CRD serves it.
    pub original: Option<Map<String, Value>>,
}

/// The progress of one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceProgress {
    /// The version through which it is read while it is copied.
    pub version: String,
    /// Plural name.
    pub resource: String,
    /// Objects in etcd when the copying began, once known.
    pub total: Option<u64>,
    /// Objects and events taken over so far.
    pub copied: u64,
    /// Objects in etcd when both sides were compared, all of them equal or explained.
    pub verified: u64,
    /// Of these, those that were equal by checksum, too; once a comparison has ended.
    pub checksummed: Option<u64>,
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
    /// Returns this progress with the result of a verification.
    #[must_use]
    pub fn with(mut self, verified: Option<&Verified>) -> Self {
        if let Some(verified) = verified {
            self.verified = verified.objects;
            self.failed = Some(0);
            self.checksummed = Some(verified.checksummed);
            self.skipped = Some(verified.objects.saturating_sub(verified.equal));
            self.set_checksum = Some(verified.checksum.clone());
        }
        self
    }
}

/// The progress of a step that goes through all reports of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Reports that are done.
    pub done: u64,
    /// All reports.
    pub total: u64,
}

impl Counted {
    /// Returns the reports of `resources` for which `done` counts, once all of them are listed. A
    /// resource counts what was written meanwhile, too, and is never shown beyond its list.
    #[must_use]
    pub fn of(
        resources: &[ResourceProgress],
        done: impl Fn(&ResourceProgress) -> u64,
    ) -> Option<Self> {
        let mut sum = Self::default();
        for resource in resources {
            let total = resource.total?;
            sum.done += done(resource).min(total);
            sum.total += total;
        }
        (!resources.is_empty()).then_some(sum)
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", grouped(self.done), grouped(self.total))
    }
}

/// Returns a number with its thousands set apart.
fn grouped(number: u64) -> String {
    if number < 1000 {
        return number.to_string();
    }
    format!("{},{:03}", grouped(number / 1000), number % 1000)
}

/// Something that keeps the migration from going on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Reason in `CamelCase` for a condition.
    pub reason: &'static str,
    /// The error and its remedy.
    pub message: String,
    /// True when retrying cannot help and a user has to act.
    pub stalled: bool,
}

impl Problem {
    /// Returns the problem of an operator that lacks a right, which `error` names, with the rule
    /// that would give it where the kube-apiserver's words tell.
    #[must_use]
    pub fn forbidden(error: &impl fmt::Display) -> Self {
        let error = error.to_string();
        let rule = Rule::of_refusal(&error);
        let rule = rule.map_or_else(String::new, |rule| format!(" by the rule {rule}"));
        Self {
            reason: reasons::FORBIDDEN,
            message: format!(
                "the operator lacks a right: {error}; grant it to its ServiceAccount{rule}"
            ),
            stalled: true,
        }
    }
}

/// The effect of the prune.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Objects deleted from etcd.
    pub objects: u64,
    /// Size of these objects as JSON, in bytes.
    pub bytes: u64,
    /// Objects left in etcd.
    pub left: u64,
    /// The first of those left, as `resource/namespace/name: why`.
    pub left_names: Vec<String>,
}

/// Writes to etcd that gave way to the server's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// The number of these writes.
    pub count: u64,
    /// The first of these writes, as `resource/namespace/name`.
    pub names: Vec<String>,
}

impl Dropped {
    /// Adds one write to each of the objects `names`. The first objects are named, each once.
    pub fn add(&mut self, names: &[String]) {
        self.count += names.len() as u64;
        for name in names {
            if self.names.len() < NAMED && !self.names.contains(name) {
                self.names.push(name.clone());
            }
        }
    }
}

/// The outcome for the rows of a predecessor's database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Reports that were imported.
    pub objects: u64,
    /// Rows that were left there.
    pub left: u64,
    /// The first of those rows, as `resource/namespace/name: why`.
    pub left_names: Vec<String>,
}

/// A summary of the migration report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportSummary {
    /// Name of the `ConfigMap` in the target namespace with the whole report.
    pub config_map: String,
    /// SHA-256 (hex) over everything that was compared.
    pub checksum: Option<String>,
    /// Late writes that were found in etcd after the switch.
    pub stragglers: u64,
    /// Objects written to etcd on the way back.
    pub written_back: u64,
    /// The number of times that something was tried again.
    pub retries: u64,
    /// The newest reason for a retry, as `step: reason`.
    pub last_retry: Option<String>,
    /// The longest time for which requests were held, in milliseconds.
    pub longest_hold_milliseconds: Option<u64>,
}

/// The outcome of the restart of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Restart {
    /// The workload.
    #[serde(flatten)]
    pub workload: Workload,
    /// The outcome of the restart.
    pub result: RestartResult,
    /// The time of the outcome.
    pub at: Timestamp,
    /// The reason for the restart, and the obstacle where there was one.
    pub message: String,
}

/// The state of one API group; a snapshot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupStatus {
    /// API group.
    pub group: String,
    /// The phase.
    pub phase: MigrationPhase,
    /// The step that runs or waits now.
    pub step: Option<StepName>,
    /// One sentence for people.
    pub message: String,
    /// The progress of the present step, where it goes through all reports.
    pub progress: Option<Counted>,
    /// One entry a served version.
    pub api_services: Vec<ApiServiceStatus>,
    /// One entry a resource.
    pub resources: Vec<ResourceProgress>,
    /// The hash that [`crds::v1alpha1::spec::Approval::Manual`] asks the user to approve, `sha256:...`.
    pub plan_hash: Option<String>,
    /// The plan of a switch, while everything is verified and nothing switched.
    pub plan: Option<Plan>,
    /// The time at which our server was put in charge.
    pub switched_at: Option<Timestamp>,
    /// The time at which the copies in etcd were deleted.
    pub pruned_at: Option<Timestamp>,
    /// The effect of the prune; known to the process that did it.
    pub pruned: Option<Pruned>,
    /// The time for which requests waited in the switch; known to the process that did it.
    pub held_milliseconds: Option<u64>,
    /// The time at which the copies in etcd become due for deletion, where the plan deletes them.
    pub prune_due: Option<Timestamp>,
    /// Writes that others made to etcd while the server was in charge, and that were dropped.
    pub dropped: Dropped,
    /// The imports from the database of a predecessor, once they are done.
    pub imported: Option<Imported>,
    /// See [`ReportSummary`]; none before the first was written.
    pub report: Option<ReportSummary>,
    /// Workloads that were due for a restart, each with the last time.
    pub restarts: Vec<Restart>,
    /// True when a CRD of the group has the additional version `legacy` now.
    pub door_open: bool,
    /// True when the group's CRDs exist, so that it can be given back.
    pub crds_present: bool,
    /// The objects without effect on reports while the server answers for them, or the problem
    /// because of which they are not known; none before the first look.
    pub bypass: Option<Result<Bypass, Problem>>,
    /// The present obstacle, if there is one.
    pub problem: Option<Problem>,
    /// The step in which that obstacle appeared.
    pub failed_step: Option<StepName>,
    /// The action in which that obstacle appeared.
    pub failed_action: Option<Action>,
    /// The action under way.
    pub action: Option<Action>,
}

impl GroupStatus {
    /// Notes that something keeps the present step from its end.
    pub fn fail(&mut self, problem: Problem) {
        self.failed_step = self.step;
        self.failed_action = self.action.take();
        self.problem = Some(problem);
    }

    /// Notes that something outside has to happen first.
    pub fn wait(&mut self, problem: Problem) {
        self.succeed();
        self.message.clone_from(&problem.message);
        self.problem = Some(problem);
    }

    /// Notes that nothing is in the way, and nothing is under way.
    pub fn succeed(&mut self) {
        self.goes_on();
        self.action = None;
        self.progress = None;
    }

    /// Notes that the present work goes on: its obstacle is gone.
    pub fn goes_on(&mut self) {
        self.failed_step = None;
        self.failed_action = None;
        self.problem = None;
    }

    /// Notes that an action begins. The last error is shown on only while the same action is tried
    /// again.
    pub fn attempt(&mut self, action: Action) {
        if self.failed_action != Some(action) {
            self.goes_on();
        }
        self.action = Some(action);
    }

    /// Notes that a step begins. The error of an earlier step is gone.
    pub fn begin(&mut self, step: StepName, phase: MigrationPhase) {
        if self.failed_step.is_some_and(|failed| failed < step) {
            self.goes_on();
        }
        self.step = Some(step);
        self.phase = phase;
        self.progress = None;
        step.describe().clone_into(&mut self.message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(message: &str) -> Problem {
        Problem {
            reason: "Progressing",
            message: message.to_owned(),
            stalled: false,
        }
    }

    fn shown(status: &GroupStatus) -> Option<&str> {
        status.problem.as_ref().map(|p| p.message.as_str())
    }

    #[test]
    fn what_was_waited_for_is_not_shown_while_reports_are_copied() {
        let mut status = GroupStatus::default();
        status.begin(StepName::Preflight, MigrationPhase::Preflight);
        status.wait(problem("waiting for the server's Deployment to be ready"));
        assert!(shown(&status).is_some());
        status.attempt(Action::Mirror);
        status.begin(StepName::Mirror, MigrationPhase::Mirroring);
        assert_eq!(shown(&status), None);
    }

    #[test]
    fn progress_is_counted_over_all_resources_once_they_are_listed() {
        let resource = |total: Option<u64>, copied: u64| ResourceProgress {
            total,
            copied,
            ..ResourceProgress::default()
        };
        let of = |resources: &[ResourceProgress]| {
            let counted = Counted::of(resources, |resource| resource.copied);
            counted.map(|counted| counted.to_string())
        };
        let listed = resource(Some(9_000), 1_234);
        // Events of what was written meanwhile count as copied.
        let passed = resource(Some(1_000), 1_500);
        let both = of(&[listed.clone(), passed]);
        assert_eq!(both.as_deref(), Some("2,234/10,000"));
        assert_eq!(of(&[listed, resource(None, 7)]), None);
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn thousands_are_set_apart() {
        let shown = [0, 999, 1_000, 65_007, 1_000_000].map(grouped);
        assert_eq!(shown, ["0", "999", "1,000", "65,007", "1,000,000"]);
    }

    #[test]
    fn progress_belongs_to_the_step_that_made_it() {
        let counted = Some(Counted { done: 1, total: 2 });
        let mut status = GroupStatus {
            progress: counted,
            ..GroupStatus::default()
        };
        status.goes_on();
        assert_eq!(status.progress, counted);
        status.begin(StepName::Verify, MigrationPhase::Verifying);
        assert_eq!(status.progress, None);
        status.progress = counted;
        status.succeed();
        assert_eq!(status.progress, None);
    }

    #[test]
    fn an_error_of_the_way_back_is_not_shown_on_the_way_forward() {
        let mut status = GroupStatus::default();
        status.attempt(Action::Back);
        status.begin(StepName::BackHold, MigrationPhase::RollingBack);
        status.fail(problem("requests were held for 5 s"));
        // Tried again: what was wrong is shown until that step is behind it.
        status.attempt(Action::Back);
        status.begin(StepName::BackOpenDoor, MigrationPhase::RollingBack);
        assert_eq!(shown(&status), Some("requests were held for 5 s"));
        let mut again = status.clone();
        again.begin(StepName::BackRelease, MigrationPhase::RollingBack);
        assert_eq!(shown(&again), None);
        status.attempt(Action::Mirror);
        status.begin(StepName::Mirror, MigrationPhase::Mirroring);
        assert_eq!(shown(&status), None);
    }

    #[test]
    fn a_look_that_failed_is_not_shown_while_a_step_is_carried_out() {
        let mut status = GroupStatus::default();
        status.attempt(Action::Prune);
        status.begin(StepName::Prune, MigrationPhase::Pruning);
        status.succeed();
        status.fail(problem("cannot read APIServices"));
        status.attempt(Action::Prune);
        status.begin(StepName::Prune, MigrationPhase::Pruning);
        assert_eq!(shown(&status), None);
    }

    #[test]
    fn a_step_that_gets_on_forgets_what_was_in_its_way() {
        let mut status = GroupStatus::default();
        status.attempt(Action::Prune);
        status.fail(problem("503"));
        status.attempt(Action::Prune);
        assert_eq!(shown(&status), Some("503"));
        status.goes_on();
        assert_eq!(shown(&status), None);
        status.fail(problem("504"));
        status.attempt(Action::Prune);
        assert_eq!(shown(&status), Some("504"));
    }

    #[test]
    fn a_missing_right_has_the_rule_that_gives_it() {
        let said =
            "User \"o\" cannot list resource \"quotas\" in API group \"a\" at the cluster scope";
        let problem = Problem::forbidden(&said);
        assert!(problem.stalled && problem.message.contains(said));
        let rule = "{apiGroups: [\"a\"], resources: [\"quotas\"], verbs: [\"list\"]}";
        assert!(problem.message.ends_with(rule), "{}", problem.message);
        let unknown = Problem::forbidden(&"cannot list CRDs").message;
        assert!(unknown.ends_with("ServiceAccount"), "{unknown}");
    }

    #[test]
    fn an_object_whose_writes_are_dropped_again_is_named_once() {
        let mut dropped = Dropped::default();
        let names =
            |range: std::ops::Range<usize>| range.map(|n| n.to_string()).collect::<Vec<_>>();
        dropped.add(&names(0..2));
        dropped.add(&names(1..2));
        assert_eq!((dropped.count, &dropped.names), (3, &names(0..2)));
        dropped.add(&names(1..21));
        assert_eq!((dropped.count, &dropped.names), (23, &names(0..NAMED)));
    }
}
