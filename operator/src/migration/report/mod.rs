//! The migration report of one API group: what was copied, compared, deleted and written back, when
//! each step ran, and what had to be tried again. Pure and bounded;
//! [`crate::migration::report::journal`] keeps it.
//!
//! One report is about one run: forward, and back again. The next run forward begins another.

pub mod journal;
pub mod metrics;
pub mod publisher;
pub mod status;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::migration::plan::step::StepName;
use crate::migration::report::status::{GroupStatus, Restart};
use crate::migration::steps::diff::NAMED;
use crate::migration::steps::import::note::Account;

/// The number of newest retries that are kept.
const RETRIES: usize = 20;
/// The number of restarts that are kept: as many as there can be workloads.
const RESTARTS: usize = 16;
/// Most characters of a reason or a name.
const MAX_TEXT: usize = 300;
/// Most bytes of the names of objects whose writes gave way: of some thousand objects.
const MAX_DROPPED: usize = 100_000;

/// The report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MigrationReport {
    /// API group.
    pub group: String,
    /// The phase at the time of the report.
    pub phase: String,
    /// See [`Counts`].
    pub counts: Counts,
    /// SHA-256 (hex) over the checksums of the resources, in the order of their names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// The longest time for which requests were held in this run, in milliseconds of the server's
    /// clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_hold_milliseconds: Option<u64>,
    /// The reason why the soak gave the group back, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given_back: Option<String>,
    /// One entry a step, in the order in which they first began.
    pub steps: Vec<StepRecord>,
    /// See [`Retries`].
    pub retries: Retries,
    /// One entry a resource.
    pub resources: Vec<ResourceRecord>,
    /// The first objects that were left in etcd, with the reasons.
    pub left: Vec<String>,
    /// The objects whose writes to etcd gave way to the server's own, as `resource/namespace/name`;
    /// all of them, up to [`MAX_DROPPED`].
    pub dropped: BTreeSet<String>,
    /// The first rows that were left in a predecessor's database, with the reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_imported: Vec<String>,
    /// Workloads that were due for a restart because watches were lost, each with the last time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub restarts: Vec<Restart>,
}

/// Numbers of objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Counts {
    /// Objects in etcd when they were listed.
    pub total: u64,
    /// Objects copied.
    pub copied: u64,
    /// Objects compared and found equal, or explained by the watch.
    pub verified: u64,
    /// Of these, those compared by checksum and found equal.
    pub checksummed: u64,
    /// Writes and deletions in etcd that were found after the switch, whatever became of them.
    pub stragglers: u64,
    /// Of these, those that gave way to the server's own writes.
    pub dropped: u64,
    /// Rows of a predecessor's database that were imported.
    pub imported: u64,
    /// Rows of that database for which the server had a report, or had deleted one.
    pub known: u64,
    /// Rows of that database that were left there.
    pub not_imported: u64,
    /// Copies that the server knew of when the prune began; the deleted are counted against it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_prune: Option<u64>,
    /// Copies deleted from etcd.
    pub pruned: u64,
    /// Objects left in etcd after the prune.
    pub left: Left,
    /// Objects created or updated in etcd on the way back; one that was written twice counts twice.
    pub written_back: u64,
    /// Copies deleted from etcd on the way back, because the server no longer has them.
    pub deleted_back: u64,
}

/// Objects left in etcd after the prune, by the reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Left {
    /// They have finalizers.
    pub finalizers: u64,
    /// They were changed after they were copied.
    pub changed: u64,
    /// They were never copied.
    pub not_copied: u64,
}

impl Left {
    /// Returns the sum of all of them.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.finalizers + self.changed + self.not_copied
    }
}

/// The record of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StepRecord {
    /// Name of the step.
    pub step: String,
    /// The time at which it first began.
    pub begun: Timestamp,
    /// The time at which it last came to its end; absent while it never has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// The duration of that run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub milliseconds: Option<u64>,
    /// The number of times that it began.
    pub runs: u64,
    /// The number of times that it failed.
    pub failures: u64,
}

/// Failures that led to another try.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Retries {
    /// The number of all failures.
    pub count: u64,
    /// The newest, at most [`RETRIES`]; the same reason in a row is one entry.
    pub newest: Vec<Retry>,
}

/// One failure, or the same several times in a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Retry {
    /// The time at which it happened last.
    pub at: Timestamp,
    /// The step of the failure; absent when no step had begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The error.
    pub reason: String,
    /// The number of times in a row.
    pub count: u64,
}

/// The record of one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceRecord {
    /// Plural name.
    pub resource: String,
    /// The version through which it was read.
    pub version: String,
    /// Objects in etcd when they were listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Objects copied.
    pub copied: u64,
    /// Objects compared.
    pub verified: u64,
    /// Of these, those compared by checksum and found equal.
    pub checksummed: u64,
    /// Checksum over the uid, resourceVersion and, as far as it was compared, content of the
    /// compared ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// Newest etcd version that the server has.
    pub source_resource_version: String,
}

impl MigrationReport {
    /// Notes that a step begins. The first of a run forward that follows a run back begins a new
    /// report.
    pub fn begin(&mut self, step: StepName, at: Timestamp) {
        let first = matches!(step, StepName::Preflight | StepName::Register);
        if first && self.is_back() {
            *self = Self::default();
        }
        let record = self.record(step, at);
        record.runs += 1;
    }

    /// Notes that a step has come to its end after `milliseconds`.
    pub fn end(&mut self, step: StepName, at: Timestamp, milliseconds: u64) {
        let record = self.record(step, at);
        record.ended = Some(at);
        record.milliseconds = Some(milliseconds);
    }

    /// Returns the duration of a step when it last came to its end, in milliseconds.
    #[must_use]
    pub fn took(&self, step: StepName) -> Option<u64> {
        let of = |record: &&StepRecord| record.step == step.as_str();
        self.steps.iter().find(of)?.milliseconds
    }

    /// Returns the seconds that the mirror and the verification took when they last ran.
    #[must_use]
    pub fn copy_took(&self) -> Option<u64> {
        let mirror = self.took(StepName::Mirror)?;
        let verify = self.took(StepName::Verify)?;
        Some(mirror.saturating_add(verify).div_ceil(1000))
    }

    /// Notes that a step has failed.
    pub fn fail(&mut self, step: StepName, at: Timestamp) {
        self.record(step, at).failures += 1;
    }

    /// Notes that something is tried again. Returns true when that is news: not the same as the
    /// last time.
    pub fn retry(&mut self, step: Option<StepName>, reason: &str, at: Timestamp) -> bool {
        let step = step.map(|step| step.as_str().to_owned());
        let reason = bounded(reason);
        self.retries.count += 1;
        let newest = &mut self.retries.newest;
        if let Some(last) = newest.last_mut()
            && last.step == step
            && last.reason == reason
        {
            last.at = at;
            last.count += 1;
            return false;
        }
        newest.push(Retry {
            at,
            step,
            reason,
            count: 1,
        });
        let beyond = newest.len().saturating_sub(RETRIES);
        newest.drain(..beyond);
        true
    }

    /// Notes that a prune begins with so many copies. One that continues an earlier prune is
    /// counted against the number with which that one began.
    pub fn prune_begins(&mut self, copies: u64) {
        let all = self.counts.pruned + copies;
        self.counts.to_prune = self.counts.to_prune.max(Some(all));
    }

    /// Notes that a prune has left `remaining` copies so far; returns the number that is deleted by
    /// now.
    pub fn prune_goes_on(&mut self, remaining: u64) -> u64 {
        let all = self.counts.to_prune.unwrap_or(remaining);
        self.counts.pruned = all.saturating_sub(remaining);
        self.counts.pruned
    }

    /// Notes that a prune has ended.
    pub fn prune_ends(&mut self, left: Left, names: &[String]) {
        self.counts.left = left;
        self.left = first(names);
    }

    /// Notes that so many stragglers were found, and those of the objects `dropped` gave way.
    pub fn settle(&mut self, found: u64, dropped: &[String]) {
        self.counts.stragglers += found;
        self.counts.dropped += dropped.len() as u64;
        self.name_dropped(dropped);
    }

    /// Names objects whose writes to etcd gave way, as far as there is room.
    pub fn name_dropped<'a>(&mut self, dropped: impl IntoIterator<Item = &'a String>) {
        let mut room = MAX_DROPPED.saturating_sub(self.dropped.iter().map(String::len).sum());
        for name in dropped {
            if name.len() <= room && self.dropped.insert(name.clone()) {
                room -= name.len();
            }
        }
    }

    /// Notes the outcome for the rows of a predecessor's database so far.
    pub fn imports(&mut self, sum: &Account) {
        self.counts.imported = sum.imported;
        self.counts.known = sum.present;
        self.counts.not_imported = sum.left();
        self.not_imported = first(&sum.names);
    }

    /// Notes the restart of a workload; the newest of each is kept.
    pub fn restart(&mut self, restart: Restart) {
        self.restarts
            .retain(|known| known.workload != restart.workload);
        self.restarts.push(restart);
        let beyond = self.restarts.len().saturating_sub(RESTARTS);
        self.restarts.drain(..beyond);
    }

    /// Takes over the facts of the status. Those that it does not have (after a restart of the
    /// operator) are left as they were.
    pub fn take_over(&mut self, status: &GroupStatus) {
        self.group.clone_from(&status.group);
        status.phase.as_str().clone_into(&mut self.phase);
        for progress in &status.resources {
            let compared = progress.set_checksum.is_some();
            let at = self
                .resources
                .iter()
                .position(|known| known.resource == progress.resource);
            let known = at.map(|at| &self.resources[at]);
            if known.is_some_and(|known| known.checksum.is_some()) && !compared {
                continue;
            }
            let copied = progress
                .total
                .map_or(progress.copied, |total| total.min(progress.copied));
            let record = ResourceRecord {
                resource: progress.resource.clone(),
                version: progress.version.clone(),
                total: progress.total,
                copied,
                verified: progress.verified,
                checksummed: progress.checksummed.unwrap_or_default(),
                checksum: progress.set_checksum.clone(),
                source_resource_version: progress.source_resource_version.clone(),
            };
            match at {
                Some(at) => self.resources[at] = record,
                None => self.resources.push(record),
            }
        }
        self.sum_up();
        if self.has_held() {
            self.longest_hold_milliseconds =
                self.longest_hold_milliseconds.max(status.held_milliseconds);
        }
    }

    /// Describes the report in one sentence for an event.
    #[must_use]
    pub fn describe(&self) -> String {
        let Counts {
            total: _,
            copied,
            verified,
            checksummed,
            stragglers,
            dropped,
            imported,
            known: _,
            not_imported,
            to_prune: _,
            pruned,
            left,
            written_back,
            deleted_back,
        } = &self.counts;
        format!(
            "{copied} copied, {verified} verified ({checksummed} by checksum), {stragglers} stragglers, {dropped} dropped, \
             {imported} imported from a database, {not_imported} left there, {pruned} pruned, {} left in etcd, {written_back} written back, {deleted_back} deleted \
             on the way back, {} retries",
            left.sum(),
            self.retries.count
        )
    }

    fn sum_up(&mut self) {
        let all = || self.resources.iter();
        self.counts.total = all().filter_map(|r| r.total).sum();
        self.counts.copied = all().map(|r| r.copied).sum();
        self.counts.verified = all().map(|r| r.verified).sum();
        self.counts.checksummed = all().map(|r| r.checksummed).sum();
        let sums: BTreeMap<&str, &str> = all()
            .filter_map(|r| Some((r.resource.as_str(), r.checksum.as_deref()?)))
            .collect();
        let whole = !sums.is_empty() && sums.len() == self.resources.len();
        self.checksum = whole.then(|| {
            let mut hasher = Sha256::new();
            for (resource, sum) in sums {
                hasher.update(format!("{resource}/{sum}\n"));
            }
            hex::encode(hasher.finalize())
        });
    }

    fn record(&mut self, step: StepName, at: Timestamp) -> &mut StepRecord {
        let name = step.as_str();
        let known = self.steps.iter().position(|record| record.step == name);
        let at = known.unwrap_or_else(|| {
            self.steps.push(StepRecord {
                step: name.to_owned(),
                begun: at,
                ..StepRecord::default()
            });
            self.steps.len() - 1
        });
        &mut self.steps[at]
    }

    fn any(&self, steps: &[StepName], is: fn(&StepRecord) -> bool) -> bool {
        let of = |record: &&StepRecord| steps.iter().any(|step| step.as_str() == record.step);
        self.steps.iter().filter(of).any(is)
    }

    /// Returns whether the group has gone back to its CRDs.
    fn is_back(&self) -> bool {
        let last = [StepName::BackRelease, StepName::BackClose];
        self.any(&last, |record| record.ended.is_some())
    }

    /// Returns whether the server's last hold is one of this run.
    fn has_held(&self) -> bool {
        let ends = [StepName::SwitchOpen, StepName::BackClose];
        self.any(&ends, |record| record.ended.is_some())
            || self.any(&[StepName::BackHold], |record| record.failures > 0)
    }
}

/// Returns the start of a text, of as many bytes as a reason has characters.
#[must_use]
pub fn start(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_TEXT)].to_owned()
}

fn bounded(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}

fn first(names: &[String]) -> Vec<String> {
    names.iter().take(NAMED).map(|name| bounded(name)).collect()
}

#[cfg(test)]
mod tests;
