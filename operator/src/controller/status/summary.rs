//! `Ready`, `Reconciling` and `Stalled`: the conditions that sum up the others.

use crds::v1alpha1::spec::ApiSpec;
use crds::v1alpha1::status::MigrationPhase;
use crds::v1alpha1::{ReportsServer, conditions as types, reasons};
use kube::Resource;

use super::conditions::{Conditions, Finding, Is};
use super::state::State;
use super::{between, components, migration};
use crate::certs;
use crate::controller::workload;
use crate::database::managed::Managed;
use crate::grant;
use crate::migration::GroupStatus;

/// `Ready`, and `Reconciling` and `Stalled` where they are true (kstatus).
pub(super) fn summarize(
    conditions: &mut Conditions,
    object: &ReportsServer,
    state: &State<'_>,
    groups: &[GroupStatus],
) {
    let stalled = stalled(state, groups);
    let ready = match (&stalled, state) {
        (Some((reason, message)), _) => Finding::no(reason, message.clone()),
        (
            None,
            State::Suspended {
                finishing, found, ..
            },
        ) => {
            let unhealthy = found.and_then(|_| unhealthy(conditions));
            suspended(conditions, object, groups, unhealthy, *finishing)
        }
        (None, State::Deleting { .. }) => {
            let message = "the API groups are given back to their CRDs".to_owned();
            let told = problem(groups).or_else(|| counted(groups));
            Finding::no(reasons::DELETING, told.unwrap_or(message))
        }
        (None, State::Failed { message, found, .. }) => {
            failed(conditions, object, groups, message, found.is_some())
        }
        (None, State::Applied { .. } | State::Refused { .. }) => ready(conditions, object, groups),
    };
    // Waiting for the user is neither progress nor failure.
    let resting = [reasons::SUSPENDED, reasons::AWAITING_APPROVAL].contains(&ready.reason);
    let failing = matches!(state, State::Failed { .. });
    // Served, and on its way: a rolling update, or a pod that has to find another node.
    let rolling = matches!(state, State::Applied { applied, .. }
        if !workload::is_ready(&applied.deployment));
    let busy = busy(conditions, state);
    let done = ready.is == Is::True && !failing && !rolling && busy.is_none();
    if let Some((reason, message)) = &stalled {
        conditions.set(types::STALLED, Finding::yes(reason, message.clone()));
    } else {
        conditions.remove(types::STALLED);
    }
    let unkept = state.unkept().filter(|_| !failing);
    if stalled.is_some() || (unkept.is_none() && (done || resting)) {
        conditions.remove(types::RECONCILING);
    } else {
        let finding = match unkept {
            Some(message) => Finding::yes(reasons::APPLY_FAILED, message),
            None => reconciling(state, &ready, busy),
        };
        conditions.set(types::RECONCILING, finding);
    }
    conditions.set(types::READY, ready);
}

/// Returns what is under way, in the order in which it matters to a user.
fn reconciling(
    state: &State<'_>,
    ready: &Finding,
    busy: Option<(&'static str, String)>,
) -> Finding {
    let (reason, message) = match state {
        State::Failed { message, .. } => (reasons::APPLY_FAILED, message.clone()),
        State::Applied { applied, .. } if !workload::is_ready(&applied.deployment) => {
            let why = (ready.is == Is::True)
                .then(|| workload::why_not_ready(&applied.deployment, &applied.pods));
            let why = why.unwrap_or_else(|| ready.message.clone());
            (reasons::PODS_NOT_READY, why)
        }
        _ => busy
            .filter(|_| ready.is == Is::True)
            .unwrap_or_else(|| (ready.reason, ready.message.clone())),
    };
    Finding::yes(reason, message)
}

/// Returns what goes on with the database, served or not.
fn busy(conditions: &Conditions, state: &State<'_>) -> Option<(&'static str, String)> {
    let State::Applied { spec, .. } = state else {
        return None;
    };
    let upgraded = spec.managed().filter(|managed| managed.upgrade.is_some());
    if let Some(between) = &spec.between
        && let Some(what) = between::busy(between)
    {
        let moved = conditions.get(types::DATABASE_MOVED);
        let told = moved.filter(|moved| moved.status != "True");
        let told = told.map_or(what, |told| told.message.as_str());
        return Some((reasons::MOVING, told.to_owned()));
    }
    let goes_on = [
        (
            spec.moving.is_some(),
            types::DATABASE_MOVED,
            reasons::MOVING,
        ),
        (
            upgraded.is_some_and(Managed::is_upgrading),
            types::DATABASE_UPGRADED,
            reasons::UPGRADE_CHECKING,
        ),
    ];
    goes_on.into_iter().find_map(|(goes_on, type_, reason)| {
        let condition = conditions.get(type_).filter(|_| goes_on)?;
        Some((reason, condition.message.clone()))
    })
}

/// Returns what trying again cannot mend.
fn stalled(state: &State<'_>, groups: &[GroupStatus]) -> Option<(&'static str, String)> {
    match state {
        State::Refused { refusal, .. } => {
            let told = &refusal.message;
            let unkept = state.unkept().filter(|unkept| !told.contains(unkept));
            let unkept = unkept.map_or_else(String::new, |unkept| format!("; {unkept}"));
            Some((refusal.reason, format!("{told}{unkept}")))
        }
        State::Applied {
            refusal: Some(refusal),
            ..
        } => {
            let message = format!(
                "{}; until then, the last accepted specification stays in force",
                refusal.message
            );
            Some((refusal.reason, message))
        }
        State::Applied { certs, .. } if needs_certificate(certs) => {
            let finding = components::certificates(certs);
            Some((finding.reason, finding.message))
        }
        State::Failed {
            message,
            forbidden: true,
            ..
        } => Some((reasons::FORBIDDEN, grant::with_rule(message))),
        _ => mistaken(state).or_else(|| stalled_group(groups)),
    }
}

/// Returns that the database is not the one with the reports, which nobody but the user can mend,
/// whether the rest is carried out or not.
fn mistaken(state: &State<'_>) -> Option<(&'static str, String)> {
    let problem = state.database()?.mistaken()?;
    let message = match state {
        State::Failed { message, .. } => format!("{}; {message}", problem.message),
        _ => problem.message.clone(),
    };
    Some((problem.reason, message))
}

fn stalled_group(groups: &[GroupStatus]) -> Option<(&'static str, String)> {
    let group = migration::leading(groups)?;
    let problem = group.problem.as_ref().filter(|problem| problem.stalled)?;
    let message = format!("{}: {}", group.group, problem.message);
    Some((problem.reason, message))
}

/// Returns whether nobody but the user can bring the certificate that is asked for.
fn needs_certificate(certs: &certs::Outcome) -> bool {
    let problem = certs.problem.as_ref();
    problem.is_some_and(|problem| !problem.waiting)
}

/// Returns what is in the way of the group to look at first, stalled or not.
fn problem(groups: &[GroupStatus]) -> Option<String> {
    let group = migration::leading(groups)?;
    let problem = group.problem.as_ref()?;
    Some(format!("{}: {}", group.group, problem.message))
}

/// Returns how far the group to look at first is, where its reports are counted.
fn counted(groups: &[GroupStatus]) -> Option<String> {
    let group = migration::leading(groups)?;
    let words = || format!("{}: {}", group.group, migration::words(group));
    group.progress.map(|_| words())
}

/// A step that is tried again says nothing about what is served, so a `Ready` that is true stays,
/// unless the look at the server (`looked`) says otherwise, or it is about to go.
fn failed(
    conditions: &Conditions,
    object: &ReportsServer,
    groups: &[GroupStatus],
    message: &str,
    looked: bool,
) -> Finding {
    if object.meta().deletion_timestamp.is_some() {
        return Finding::no(reasons::DELETING, message);
    }
    if let Some(why) = unhealthy(conditions).filter(|_| looked) {
        return Finding::no(reasons::DEPENDENCY_NOT_READY, why);
    }
    let serves = looked && ready(conditions, object, groups).is == Is::True;
    if serves || conditions.is_true(types::READY) {
        Finding::yes(
            reasons::SERVING,
            "served as before; see Reconciling for what has failed",
        )
    } else {
        Finding::no(reasons::APPLY_FAILED, message)
    }
}

/// Returns whether every group was looked at. An operator that has just started has not.
#[must_use]
pub fn seen(groups: &[GroupStatus]) -> bool {
    let mut phases = groups.iter().map(|group| group.phase);
    !groups.is_empty() && phases.all(|phase| phase != MigrationPhase::Pending)
}

/// Suspending changes nothing about what is served. Whether clients are served is told all the same,
/// and nothing is repaired where they are not.
fn suspended(
    conditions: &Conditions,
    object: &ReportsServer,
    groups: &[GroupStatus],
    unhealthy: Option<String>,
    finishing: bool,
) -> Finding {
    let message = if finishing {
        "spec.suspend is true: the running switch is completed, then nothing is changed"
    } else {
        "spec.suspend is true: changes are not carried out"
    };
    if let Some(why) = unhealthy {
        return Finding::no(reasons::SUSPENDED, format!("{why}; {message}"));
    }
    let ready = if seen(groups) {
        let ready = ready(conditions, object, groups);
        (ready.is == Is::True).then_some(()).ok_or(ready.message)
    } else {
        let before = conditions.is_true(types::READY);
        before.then_some(()).ok_or_else(String::new)
    };
    match ready {
        Ok(()) => Finding::yes(reasons::SUSPENDED, message),
        Err(why) if why.is_empty() => Finding::no(reasons::SUSPENDED, message),
        Err(why) => Finding::no(reasons::SUSPENDED, format!("{why}; {message}")),
    }
}

/// Returns why clients are not served, in the words of the part that they depend on.
fn unhealthy(conditions: &Conditions) -> Option<String> {
    let parts = [
        types::CERTIFICATES_READY,
        types::DATABASE_READY,
        types::SERVER_AVAILABLE,
    ];
    let part = parts.into_iter().find(|part| !conditions.is_true(part))?;
    let condition = conditions.get(part);
    Some(condition.map(|c| c.message.clone()).unwrap_or_default())
}

fn ready(conditions: &Conditions, object: &ReportsServer, groups: &[GroupStatus]) -> Finding {
    if let Some(message) = unhealthy(conditions) {
        return Finding::no(reasons::DEPENDENCY_NOT_READY, message);
    }
    let missing = |api: &&ApiSpec| !groups.iter().any(|group| group.group == api.group);
    if let Some(api) = object.spec.apis.iter().find(missing) {
        return Finding::no(reasons::PROGRESSING, format!("{}: Pending", api.group));
    }
    // The group that status.migration.phase tells of.
    if let Some(group) = migration::leading(groups) {
        let phase = group.phase;
        let (name, words) = (&group.group, migration::words(group));
        if phase == MigrationPhase::AwaitingApproval {
            return Finding::no(
                reasons::AWAITING_APPROVAL,
                format!(
                    "{name}: copied and verified; set spec.migration.approvedPlan to \
                     status.migration.planHash to switch"
                ),
            );
        }
        if group.problem.is_some() || !migration::rests(phase) {
            return Finding::no(reasons::PROGRESSING, format!("{name}: {phase}: {words}"));
        }
        if phase == MigrationPhase::DryRun {
            return Finding::yes(reasons::DRY_RUN, format!("{name}: {words}"));
        }
    }
    if !conditions.is_true(types::API_SERVICES_REGISTERED) {
        let registered = conditions.get(types::API_SERVICES_REGISTERED);
        let message = registered.map(|c| c.message.clone()).unwrap_or_default();
        return Finding::no(reasons::PROGRESSING, message);
    }
    let served = migration::served(&object.spec.apis, groups);
    if served == "0/0" && !object.spec.apis.is_empty() {
        return Finding::yes(reasons::ROLLED_BACK, "the CRDs serve every API group");
    }
    Finding::yes(
        reasons::SERVING,
        format!("{served} API groups served from the database"),
    )
}
