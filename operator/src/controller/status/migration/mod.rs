//! `status.migration`, `status.apis` and `status.served` from what the migrations report.

use crds::v1alpha1::reasons;
use crds::v1alpha1::spec::{ApiOwner, ApiSpec};
use crds::v1alpha1::status::{
    ApiStatus, GroupMigrationStatus, MigrationPhase, MigrationReportStatus, MigrationStatus,
    PlanStatus, ResourceMigrationStatus, RestartStatus, RollbackStatus, ServedBy, SideDoor,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::migration::{self, GroupStatus};

/// Most characters in a message of the status.
const MAX_MESSAGE: usize = 2048;

/// Returns the group that a person should look at first: one that trying again cannot help, then
/// one that is on its way or in trouble, then any; among them the least advanced.
pub fn leading(groups: &[GroupStatus]) -> Option<&GroupStatus> {
    let urgency = |group: &GroupStatus| match &group.problem {
        Some(problem) if problem.stalled => 0,
        None if rests(group.phase) => 2,
        Some(_) | None => 1,
    };
    groups
        .iter()
        .min_by_key(|group| (urgency(group), group.phase.rank()))
}

/// Returns whether a group is where the specification wants it.
pub fn rests(phase: MigrationPhase) -> bool {
    phase.is_settled() || phase == MigrationPhase::DryRun
}

/// One sentence about a group: what is in its way, or what goes on and how far it is.
pub fn words(group: &GroupStatus) -> String {
    match (&group.problem, group.progress) {
        (Some(problem), _) => problem.message.clone(),
        (None, Some(progress)) => format!("{}: {progress}", group.message),
        (None, None) => group.message.clone(),
    }
}

/// Returns the progress of a group with its reports, such as `1,234/10,000`.
fn progress(group: &GroupStatus) -> Option<String> {
    group.progress.map(|progress| progress.to_string())
}

/// API groups that the server serves, of those it is asked to: `2/3`.
pub fn served(apis: &[ApiSpec], groups: &[GroupStatus]) -> String {
    let wanted: Vec<&ApiSpec> = apis
        .iter()
        .filter(|api| api.owner == ApiOwner::Server)
        .collect();
    let serves = |api: &&&ApiSpec| {
        let group = groups.iter().find(|group| group.group == api.group);
        group.is_some_and(|group| {
            !group.api_services.is_empty()
                && group
                    .api_services
                    .iter()
                    .all(|s| s.served_by == ServedBy::Server)
        })
    };
    format!("{}/{}", wanted.iter().filter(serves).count(), wanted.len())
}

/// One entry an APIService; `since` is kept while nobody else took over.
pub fn apis(before: &[ApiStatus], groups: &[GroupStatus], now: Timestamp) -> Vec<ApiStatus> {
    let entries = groups.iter().flat_map(|group| {
        group.api_services.iter().map(move |service| {
            let (version, _) = service.name.split_once('.').unwrap_or((&service.name, ""));
            let served_by = service.served_by;
            let known = before
                .iter()
                .find(|b| b.name == service.name && b.served_by == served_by);
            let original = service.original.clone().or_else(|| {
                let before = before.iter().find(|b| b.name == service.name);
                before.and_then(|before| before.original.clone())
            });
            let switched = group.switched_at.filter(|_| served_by == ServedBy::Server);
            ApiStatus {
                name: service.name.clone(),
                group: group.group.clone(),
                version: version.to_owned(),
                served_by,
                since: known
                    .and_then(|known| known.since.clone())
                    .or_else(|| Some(time(switched.unwrap_or(now)))),
                uid: service.uid.clone(),
                original,
            }
        })
    });
    entries.collect()
}

/// Returns the whole of `status.migration`.
pub fn migration(
    before: Option<&MigrationStatus>,
    groups: &[GroupStatus],
    now: Timestamp,
) -> MigrationStatus {
    let known = |name: &str| {
        before.and_then(|before| before.groups.iter().find(|group| group.group == name))
    };
    let entries: Vec<GroupMigrationStatus> = groups
        .iter()
        .map(|group| entry(known(&group.group), group, now))
        .collect();
    let asked = groups
        .iter()
        .find(|group| group.phase == MigrationPhase::AwaitingApproval);
    let plan_hash = asked
        .and_then(|group| group.plan_hash.clone())
        .or_else(|| groups.iter().find_map(|group| group.plan_hash.clone()));
    let leading = leading(groups);
    let all_done = entries.iter().all(|entry| entry.completed_at.is_some());
    MigrationStatus {
        phase: leading.map(|group| group.phase),
        plan_hash,
        progress: leading.and_then(progress),
        message: leading
            .filter(|group| !words(group).is_empty())
            .map(|group| bounded(&format!("{}: {}", group.group, words(group)))),
        started_at: earliest(entries.iter().filter_map(|entry| entry.started_at.clone())),
        switched_at: latest(entries.iter().filter_map(|entry| entry.switched_at.clone())),
        completed_at: latest(
            entries
                .iter()
                .filter_map(|entry| entry.completed_at.clone()),
        )
        .filter(|_| all_done),
        resources: groups
            .iter()
            .flat_map(|group| resources(before, group))
            .collect(),
        groups: entries,
    }
}

fn entry(
    before: Option<&GroupMigrationStatus>,
    group: &GroupStatus,
    now: Timestamp,
) -> GroupMigrationStatus {
    let phase = group.phase;
    let started = before.and_then(|before| before.started_at.clone());
    let under_way = phase != MigrationPhase::Pending;
    let ended = matches!(
        phase,
        MigrationPhase::Completed | MigrationPhase::RolledBack
    );
    let same = before.filter(|before| before.phase == phase);
    // What the operator cannot read again is kept, but not beyond the switch it belongs to.
    let known = before.filter(|before| before.switched_at == group.switched_at.map(time));
    let sum = |of: fn(&migration::ResourceProgress) -> Option<u64>| -> Option<i64> {
        let parts: Vec<u64> = group.resources.iter().filter_map(of).collect();
        (!parts.is_empty()).then(|| count(parts.iter().sum()))
    };
    let message = words(group);
    let imported = group.imported.as_ref();
    GroupMigrationStatus {
        group: group.group.clone(),
        phase,
        step: group.step.map(|step| step.as_str().to_owned()),
        message: (!message.is_empty()).then(|| bounded(&message)),
        progress: progress(group),
        plan: group.plan.as_ref().map(plan),
        total: sum(|resource| resource.total),
        copied: sum(|resource| Some(copied(resource))),
        verified: sum(|resource| Some(resource.verified)),
        checksummed: sum(|resource| resource.checksummed)
            .or_else(|| known.and_then(|known| known.checksummed)),
        pruned: group
            .pruned
            .as_ref()
            .map(|pruned| count(pruned.objects))
            .or_else(|| known.and_then(|known| known.pruned)),
        left_in_etcd: group
            .pruned
            .as_ref()
            .map(|pruned| count(pruned.left))
            .or_else(|| known.and_then(|known| known.left_in_etcd)),
        dropped_writes: Some(count(group.dropped.count))
            .filter(|dropped| *dropped > 0)
            .or_else(|| known.and_then(|known| known.dropped_writes)),
        dropped_names: if group.dropped.names.is_empty() {
            known
                .map(|known| known.dropped_names.clone())
                .unwrap_or_default()
        } else {
            group.dropped.names.clone()
        },
        imported: imported.map(|imported| count(imported.objects)),
        not_imported: imported.map(|imported| count(imported.left)),
        not_imported_names: imported
            .map(|imported| imported.left_names.clone())
            .unwrap_or_default(),
        started_at: started.or_else(|| under_way.then(|| time(now))),
        switched_at: group.switched_at.map(time),
        held_milliseconds: group
            .held_milliseconds
            .map(count)
            .or_else(|| known.and_then(|known| known.held_milliseconds)),
        prune_after: group.prune_due.map(time),
        pruned_at: group.pruned_at.map(time),
        completed_at: same
            .and_then(|same| same.completed_at.clone())
            .or_else(|| Some(time(now)))
            .filter(|_| ended),
        side_door: Some(if group.door_open {
            SideDoor::Open
        } else {
            SideDoor::Closed
        }),
        rollback: (phase != MigrationPhase::Pending).then(|| RollbackStatus {
            available: group.crds_present,
            reason: (!group.crds_present).then(|| reasons::CRD_MISSING.to_owned()),
            stale_since: group.switched_at.map(time),
        }),
        report: group
            .report
            .as_ref()
            .map(report)
            .or_else(|| before.and_then(|before| before.report.clone())),
        restarts: if group.report.is_some() || !group.restarts.is_empty() {
            group.restarts.iter().map(restart).collect()
        } else {
            // The report has them, and is not read yet.
            before
                .map(|before| before.restarts.clone())
                .unwrap_or_default()
        },
    }
}

fn restart(restart: &migration::Restart) -> RestartStatus {
    let migration::Restart {
        workload,
        result,
        at,
        message,
    } = restart;
    RestartStatus {
        kind: workload.kind,
        namespace: workload.namespace.clone(),
        name: workload.name.clone(),
        result: *result,
        time: time(*at),
        message: message.clone(),
    }
}

fn plan(plan: &migration::Plan) -> PlanStatus {
    let migration::Plan {
        hash,
        reports,
        bytes,
        copy_seconds,
        switch_seconds,
        prune_seconds,
    } = plan;
    PlanStatus {
        hash: hash.clone(),
        reports: count(*reports),
        bytes: count(*bytes),
        copy_seconds: copy_seconds.map(count),
        switch_seconds: count(*switch_seconds),
        prune_seconds: prune_seconds.map(count),
    }
}

fn report(summary: &migration::ReportSummary) -> MigrationReportStatus {
    let migration::ReportSummary {
        config_map,
        checksum,
        stragglers,
        written_back,
        retries,
        last_retry,
        longest_hold_milliseconds,
    } = summary;
    MigrationReportStatus {
        config_map: config_map.clone(),
        checksum: checksum.clone(),
        stragglers: count(*stragglers),
        written_back: count(*written_back),
        retries: count(*retries),
        last_retry: last_retry.clone(),
        longest_hold_milliseconds: longest_hold_milliseconds.map(count),
    }
}

fn resources(
    before: Option<&MigrationStatus>,
    group: &GroupStatus,
) -> impl Iterator<Item = ResourceMigrationStatus> {
    // What only the process that compared both sides knows is kept through the switch.
    let same_switch = before.filter(|before| {
        let known = before
            .groups
            .iter()
            .find(|known| known.group == group.group);
        known.is_some_and(|known| known.switched_at == group.switched_at.map(time))
    });
    group.resources.iter().map(move |resource| {
        let known = same_switch.and_then(|before| {
            before
                .resources
                .iter()
                .find(|known| known.group == group.group && known.resource == resource.resource)
        });
        ResourceMigrationStatus {
            group: group.group.clone(),
            resource: resource.resource.clone(),
            version: resource.version.clone(),
            total: resource.total.map(count),
            copied: Some(count(copied(resource))),
            verified: Some(count(resource.verified)),
            checksummed: resource
                .checksummed
                .map(count)
                .or_else(|| known.and_then(|known| known.checksummed)),
            failed: resource
                .failed
                .map(count)
                .or_else(|| known.and_then(|known| known.failed)),
            skipped: resource
                .skipped
                .map(count)
                .or_else(|| known.and_then(|known| known.skipped)),
            set_checksum: resource
                .set_checksum
                .clone()
                .or_else(|| known.and_then(|known| known.set_checksum.clone())),
            source_resource_version: (!resource.source_resource_version.is_empty())
                .then(|| resource.source_resource_version.clone()),
            ..ResourceMigrationStatus::default()
        }
    })
}

/// Reports in the copy. The migration counts events too, of which one report may have several.
fn copied(resource: &migration::ResourceProgress) -> u64 {
    resource
        .total
        .map_or(resource.copied, |total| total.min(resource.copied))
}

pub(super) fn count(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Returns the API knows whole seconds; more would look like a change at every comparison.
fn time(time: Timestamp) -> Time {
    Time(Timestamp::from_second(time.as_second()).unwrap_or(time))
}

fn bounded(text: &str) -> String {
    text.chars().take(MAX_MESSAGE).collect()
}

fn earliest(times: impl Iterator<Item = Time>) -> Option<Time> {
    times.min_by_key(|time| time.0)
}

fn latest(times: impl Iterator<Item = Time>) -> Option<Time> {
    times.max_by_key(|time| time.0)
}

#[cfg(test)]
mod tests;
