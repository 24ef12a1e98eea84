//! The journal, which keeps the migration report of a group and writes it to a `ConfigMap` in the
//! target namespace, where it outlives the operator's process.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crds::names::{APP_NAME, FIELD_MANAGER, LABEL_APP_COMPONENT, LABEL_APP_NAME};
use crds::v1alpha1::reasons;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Api;
use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::runtime::events::EventType;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::MigrationReport;
use super::status::{GroupStatus, ReportSummary};
use crate::migration::context::Cx;
use crate::migration::plan::step::StepName;
use crate::migration::plan::target::Owner;

/// Key of the `ConfigMap` with the report as JSON.
pub const KEY: &str = "report.json";
/// Longest name of an object.
const MAX_NAME: usize = 253;
/// The time between two writes of a report in which only the same failure was counted again.
const SELDOM: Duration = Duration::from_mins(1);
/// The time for which a write or read of a report is tried; the migration never waits for longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The reason why a report was not written or read.
#[derive(Debug, thiserror::Error)]
enum JournalError {
    /// The kube-apiserver refuses.
    #[error(transparent)]
    Kube(#[from] kube::Error),
    /// It does not answer.
    #[error("no answer within {} s", PATIENCE.as_secs())]
    Late(#[from] tokio::time::error::Elapsed),
    /// The report is not JSON.
    #[error("it is not JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// The report that is being kept.
#[derive(Default)]
pub struct Journal(Mutex<State>);

#[derive(Default)]
struct State {
    report: MigrationReport,
    /// True when the report of an earlier process has been read.
    loaded: bool,
    changed: Changed,
    /// True when a step has ended that people look for in the report.
    milestone: bool,
    written: Option<Instant>,
}

/// The changes since the report was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Changed {
    #[default]
    Nothing,
    /// The same failure was counted again.
    Count,
    /// A change that has to be written at once.
    Something,
}

impl Journal {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the report.
    pub fn note<T>(&self, change: impl FnOnce(&mut MigrationReport) -> T) -> T {
        let mut state = self.lock();
        state.changed = Changed::Something;
        change(&mut state.report)
    }

    /// Reads something from the report.
    pub fn read<T>(&self, read: impl FnOnce(&MigrationReport) -> T) -> T {
        read(&self.lock().report)
    }

    /// Notes the end of a step.
    pub fn end(&self, step: StepName, took: Duration) {
        let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        self.note(|report| report.end(step, jiff::Timestamp::now(), milliseconds));
        self.lock().milestone |= is_milestone(step);
    }

    /// Notes a failure.
    pub fn retry(&self, step: Option<StepName>, reason: &str) {
        let mut state = self.lock();
        let news = state.report.retry(step, reason, jiff::Timestamp::now());
        let changed = if news {
            Changed::Something
        } else {
            Changed::Count
        };
        state.changed = state.changed.max(changed);
    }

    /// Returns the report when it is due to be written, with the facts of the status, and true
    /// where it has a milestone.
    fn due(&self, status: &GroupStatus) -> Option<(MigrationReport, bool)> {
        let mut state = self.lock();
        let rested = state.written.is_none_or(|at| at.elapsed() > SELDOM);
        let due = match state.changed {
            Changed::Nothing => false,
            Changed::Count => rested,
            Changed::Something => true,
        };
        if !due || !state.loaded {
            return None;
        }
        state.report.take_over(status);
        Some((state.report.clone(), state.milestone))
    }

    /// Puts off the report, which could not be written; it is tried again after a while.
    fn put_off(&self) {
        let mut state = self.lock();
        state.written = Some(Instant::now());
        state.changed = Changed::Count;
    }

    /// Notes that the report `written` is written.
    fn written(&self, written: &MigrationReport) {
        let mut state = self.lock();
        state.written = Some(Instant::now());
        if state.report == *written {
            state.changed = Changed::Nothing;
            state.milestone = false;
        }
    }

    /// Continues the report of an earlier process. Where this one has begun a step before that
    /// report could be read, its own report is kept instead, with the names that nobody else has.
    fn resume(&self, earlier: Option<MigrationReport>) -> MigrationReport {
        let mut state = self.lock();
        state.loaded = true;
        let Some(earlier) = earlier else {
            return state.report.clone();
        };
        if state.report.steps.is_empty() {
            let retries = std::mem::take(&mut state.report.retries);
            state.report = earlier;
            for retry in retries.newest {
                let step = retry.step.as_deref().and_then(StepName::parse);
                state.report.retry(step, &retry.reason, retry.at);
            }
        } else {
            state.report.name_dropped(&earlier.dropped);
        }
        state.report.clone()
    }
}

/// Returns whether people look for this step's outcome: the end of a switch, of a prune, of a way
/// back.
fn is_milestone(step: StepName) -> bool {
    matches!(
        step,
        StepName::Register
            | StepName::SwitchSettle
            | StepName::ImportDatabase
            | StepName::Prune
            | StepName::BackClose
    )
}

/// Reads the report of an earlier process, once.
pub async fn load(cx: &Cx) {
    if cx.journal.lock().loaded {
        return;
    }
    let name = name(&cx.owner.name, &cx.target.group);
    match read(&api(cx), &name).await {
        Ok(earlier) => {
            let report = cx.journal.resume(earlier);
            if !report.steps.is_empty() {
                show(cx, &report);
            }
        }
        Err(error) => {
            let place = place(cx);
            let group = &cx.target.group;
            tracing::warn!(group, %error, "the migration report cannot be read");
            let note = format!(
                "{group}: the migration report cannot be read from ConfigMap {place}: {error}; the \
                 migration continues, and the operator tries again"
            );
            cx.event(EventType::Warning, reasons::REPORT_NOT_WRITTEN, &note);
        }
    }
}

async fn read(api: &Api<ConfigMap>, name: &str) -> Result<Option<MigrationReport>, JournalError> {
    let map = tokio::time::timeout(PATIENCE, api.get_opt(name)).await??;
    let text = map
        .and_then(|map| map.data)
        .and_then(|mut data| data.remove(KEY));
    let Some(text) = text else { return Ok(None) };
    match serde_json::from_str(&text) {
        Ok(report) => Ok(Some(report)),
        Err(error) => {
            // Somebody has edited it. It is written anew.
            tracing::warn!(name, %error, "the migration report is invalid; starting a new one");
            Ok(None)
        }
    }
}

/// Writes the report if anything has changed. A failure is told by an event, and stops nothing: the
/// report is written in the next turn.
pub async fn save(cx: &Cx) {
    let status = cx.report.status();
    let Some((report, milestone)) = cx.journal.due(&status) else {
        return;
    };
    let place = place(cx);
    let map = config_map(&cx.owner, &cx.target.group, &report);
    match write(&api(cx), map).await {
        Ok(()) => {
            cx.journal.written(&report);
            show(cx, &report);
            if milestone {
                let note = format!(
                    "{}: {}; the whole report is in ConfigMap {place}",
                    cx.target.group,
                    report.describe()
                );
                cx.event(EventType::Normal, reasons::MIGRATION_REPORTED, &note);
            }
        }
        Err(error) => {
            let group = &cx.target.group;
            cx.journal.put_off();
            tracing::warn!(group, %error, "the migration report is not written");
            let note = format!(
                "{group}: the migration report cannot be written to ConfigMap {place}: {error}; the \
                 migration continues, and the operator tries again"
            );
            cx.event(EventType::Warning, reasons::REPORT_NOT_WRITTEN, &note);
        }
    }
}

async fn write(
    api: &Api<ConfigMap>,
    map: Result<ConfigMap, serde_json::Error>,
) -> Result<(), JournalError> {
    let map = map?;
    let name = map.metadata.name.clone().unwrap_or_default();
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let patch = Patch::Apply(&map);
    let applied = api.patch(&name, &params, &patch);
    tokio::time::timeout(PATIENCE, applied).await??;
    Ok(())
}

fn api(cx: &Cx) -> Api<ConfigMap> {
    Api::namespaced(cx.client.clone(), &cx.target.service.namespace)
}

/// Returns the `ConfigMap` of the report, as `namespace/name`.
pub fn place(cx: &Cx) -> String {
    let name = name(&cx.owner.name, &cx.target.group);
    format!("{}/{name}", cx.target.service.namespace)
}

/// Shows the short form in the status.
fn show(cx: &Cx, report: &MigrationReport) {
    let summary = ReportSummary {
        config_map: name(&cx.owner.name, &cx.target.group),
        checksum: report.checksum.clone(),
        stragglers: report.counts.stragglers,
        written_back: report.counts.written_back,
        retries: report.retries.count,
        last_retry: report.retries.newest.last().map(|retry| {
            let step = retry.step.as_deref().unwrap_or("before any step");
            format!("{step}: {}", retry.reason)
        }),
        longest_hold_milliseconds: report.longest_hold_milliseconds,
    };
    cx.report.update(|status| {
        status.report = Some(summary);
        status.restarts.clone_from(&report.restarts);
    });
}

/// Returns the name of the `ConfigMap`: of `instance`, one for each group.
fn name(instance: &str, group: &str) -> String {
    let name = format!("{instance}-migration-{group}");
    if name.len() <= MAX_NAME {
        return name;
    }
    let hash = hex::encode(Sha256::digest(group.as_bytes()));
    let (hash, start) = (&hash[..16], &name[..MAX_NAME - 17]);
    // A name may not have a dot before a hyphen.
    format!("{}-{hash}", start.trim_end_matches(['.', '-']))
}

/// Returns the `ConfigMap`, without the labels by which the operator finds children: an object that
/// is not in its children's specification is swept away.
fn config_map(
    owner: &Owner,
    group: &str,
    report: &MigrationReport,
) -> Result<ConfigMap, serde_json::Error> {
    let labels = [
        (LABEL_APP_NAME, APP_NAME),
        (LABEL_APP_COMPONENT, "migration-report"),
    ];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    Ok(ConfigMap {
        metadata: ObjectMeta {
            name: Some(name(&owner.name, group)),
            labels: Some(labels.into()),
            owner_references: Some(vec![OwnerReference {
                api_version: owner.api_version.clone(),
                kind: owner.kind.clone(),
                name: owner.name.clone(),
                uid: owner.uid.clone(),
                ..OwnerReference::default()
            }]),
            ..ObjectMeta::default()
        },
        data: Some([(KEY.to_owned(), serde_json::to_string_pretty(report)?)].into()),
        ..ConfigMap::default()
    })
}

#[cfg(test)]
mod tests;
