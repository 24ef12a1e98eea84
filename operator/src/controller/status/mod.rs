//! Step 6 of a reconciliation: the status, computed from what was found, and written once if it
//! differs from the present one.

mod admission;
mod backup;
mod components;
mod conditions;
mod database;
mod migration;
mod monitoring;
#[cfg(test)]
mod tests;
mod upgrade;

use crds::names::{ANNOTATION_REQUEST, STATUS_FIELD_MANAGER};
use crds::v1alpha1::defaults::Effective;
use crds::v1alpha1::spec::{ApiSpec, TlsMode};
use crds::v1alpha1::status::{MigrationPhase, ServerStatus, TlsPhase, TlsStatus, VersionsStatus};
use crds::v1alpha1::{ReportsServer, ReportsServerStatus, conditions as types, reasons};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams};
use kube::core::Selector;
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;

use self::conditions::{Conditions, Finding, Is};
use super::apply::Applied;
use super::found::Found;
use super::validate::{Refusal, Validated};
use super::workload;
use crate::database::known::Known;
use crate::database::managed::Managed;
use crate::migration::GroupStatus;
use crate::refusals::{Meaning, passing};
use crate::said::said;
use crate::{certs, images};

/// The state that a reconciliation has reached.
pub enum State<'a> {
    /// Everything was applied.
    Applied {
        /// The specification that was asked for.
        spec: &'a Validated,
        /// The reason why it is not what is asked for by now, where that cannot be carried out.
        refusal: Option<&'a Refusal>,
        /// The children as the kube-apiserver returned them.
        applied: &'a Applied,
        /// The certificates.
        certs: &'a certs::Outcome,
        /// The facts about its PostgreSQL, where it has one.
        database: Option<&'a Known>,
    },
    /// The specification cannot be carried out.
    Refused {
        /// The reason.
        refusal: &'a Refusal,
        /// The specification that is kept for clients, and how it was found.
        found: Option<(&'a Validated, &'a Found)>,
    },
    /// A step failed; it is tried again.
    Failed {
        /// The error, in one sentence.
        message: String,
        /// True when the operator lacks a right, which trying again does not give.
        forbidden: bool,
    },
    /// `spec.suspend` is set.
    Suspended {
        /// An API group is in the middle of its switch, which is brought to its end first.
        finishing: bool,
        /// The specification that was asked for.
        spec: &'a Validated,
        /// The state in which the specification that is kept for clients was found.
        found: Option<&'a Found>,
    },
    /// The object is being deleted.
    Deleting,
}

impl State<'_> {
    /// Returns the state after an error; `refusal` is the meaning where a right was refused.
    #[must_use]
    pub fn failed(message: String, refusal: Option<Meaning>) -> Self {
        let forbidden = refusal == Some(Meaning::Missing);
        let message = match refusal {
            Some(Meaning::Passing(_)) => passing(&message),
            _ => message,
        };
        Self::Failed { message, forbidden }
    }
}

/// Returns whether the status tells that the operator lacks a right.
#[must_use]
pub fn tells_forbidden(object: &ReportsServer) -> bool {
    let conditions = object.status.iter().flat_map(|status| &status.conditions);
    let mut stalled = conditions.filter(|condition| condition.type_ == types::STALLED);
    stalled.any(|stalled| stalled.status == "True" && stalled.reason == reasons::FORBIDDEN)
}

/// Returns the status after a reconciliation. Parts that it did not reach stay as they were.
#[must_use]
pub fn compute(
    object: &ReportsServer,
    state: &State<'_>,
    groups: &[GroupStatus],
    now: Timestamp,
) -> ReportsServerStatus {
    let before = object.status.clone().unwrap_or_default();
    let generation = object.meta().generation;
    let mut conditions = Conditions::new(&before.conditions, generation, now);
    let mut status = ReportsServerStatus {
        observed_generation: generation,
        effective: Some(Effective::of(&object.spec)),
        last_handled_request: object.annotations().get(ANNOTATION_REQUEST).cloned(),
        ..before.clone()
    };
    let mode = Effective::of(&object.spec).database_mode;
    status
        .database
        .get_or_insert_default()
        .mode
        .get_or_insert(mode);
    if !groups.is_empty() || object.spec.apis.is_empty() {
        status.served = Some(migration::served(&object.spec.apis, groups));
        status.apis = migration::apis(&before.apis, groups, now);
        status.migration = (!groups.is_empty())
            .then(|| migration::migration(before.migration.as_ref(), groups, now));
        admission::tell(&mut conditions, groups);
    }
    if let Some((spec, found)) = found(state) {
        observe(&mut status, &mut conditions, spec, found);
    }
    if let Some(refusal) = homeless(state) {
        let away = Finding::no(refusal.reason, refusal.message.clone());
        conditions.set(types::SERVER_AVAILABLE, away);
    }
    if let State::Applied {
        spec,
        refusal: _,
        applied,
        certs,
        database,
    } = state
    {
        conditions.set(types::CERTIFICATES_READY, components::certificates(certs));
        conditions.set(
            types::DATABASE_READY,
            components::database(spec, applied, *database),
        );
        let told = conditions.get(types::DATABASE_UPGRADED);
        match upgrade::finding(spec, applied, told) {
            Some(finding) => conditions.set(types::DATABASE_UPGRADED, finding),
            None => conditions.remove(types::DATABASE_UPGRADED),
        }
        backups(&mut conditions, &before, applied);
        let moved = conditions.get(types::DATABASE_MOVED);
        if let Some(finding) = components::moved(spec, moved, applied, *database) {
            conditions.set(types::DATABASE_MOVED, finding);
        }
        describe(&mut status, &conditions, spec, applied, certs, *database);
        let (deployment, pods) = (&applied.deployment, &applied.pods[..]);
        let server = components::server(deployment, pods, &applied.control_api);
        conditions.set(types::SERVER_AVAILABLE, server);
        let apis = &spec.apis;
        conditions.set(
            types::API_SERVICES_REGISTERED,
            components::registered(apis, groups),
        );
        conditions.set(
            types::DATA_MIGRATED,
            components::data_migrated(apis, groups),
        );
        conditions.set(types::ROLLBACK_AVAILABLE, components::rollback(groups));
        conditions.set(types::UPGRADEABLE, components::upgradeable(spec, groups));
        monitoring::tell(&mut conditions, spec, &applied.unmonitored);
    }
    summarize(&mut conditions, object, state, groups);
    status.conditions = conditions.into_list();
    status
}

/// Returns what was looked at without being carried out.
fn found<'a>(state: &'a State<'a>) -> Option<(&'a Validated, &'a Found)> {
    match state {
        State::Refused { found, .. } => *found,
        State::Suspended { spec, found, .. } => found.map(|found| (*spec, found)),
        State::Applied { .. } | State::Failed { .. } | State::Deleting => None,
    }
}

/// Returns the refusal of a specification whose namespace is gone: no server can be there.
fn homeless<'a>(state: &'a State<'_>) -> Option<&'a Refusal> {
    match state {
        State::Refused { refusal, .. } if refusal.reason == reasons::TARGET_NAMESPACE_MISSING => {
            Some(refusal)
        }
        _ => None,
    }
}

/// Health, and the certificates that are renewed all the same.
fn observe(
    status: &mut ReportsServerStatus,
    conditions: &mut Conditions,
    spec: &Validated,
    found: &Found,
) {
    conditions.set(
        types::CERTIFICATES_READY,
        components::certificates(&found.certs),
    );
    conditions.set(
        types::DATABASE_READY,
        components::database_as_found(spec, found),
    );
    conditions.set(
        types::SERVER_AVAILABLE,
        components::server_as_found(spec, found),
    );
    status.tls = Some(tls(spec, &found.certs));
    let deployment = found.deployment.as_ref();
    let counts = deployment.and_then(|deployment| deployment.status.clone());
    let counts = counts.unwrap_or_default();
    if let Some(server) = &mut status.server {
        server.replicas = Some(counts.replicas.unwrap_or(0));
        server.ready_replicas = Some(counts.ready_replicas.unwrap_or(0));
    }
    if let Some(database) = &mut status.database {
        let ready = conditions.get(types::DATABASE_READY);
        database.ready = ready.map(|condition| condition.status == "True");
    }
}

/// `LastBackupSucceeded`, where backups are made. It stays when the Jobs that it is from are gone.
fn backups(conditions: &mut Conditions, before: &ReportsServerStatus, applied: &Applied) {
    let managed = applied.managed.as_ref();
    let Some(managed) = managed.filter(|managed| managed.backups.is_some()) else {
        conditions.remove(types::LAST_BACKUP_SUCCEEDED);
        return;
    };
    let last = before
        .database
        .as_ref()
        .and_then(|database| database.last_backup.as_ref());
    if let Some(finding) = backup::finding(managed, last) {
        conditions.set(types::LAST_BACKUP_SUCCEEDED, finding);
    }
}

/// `Ready`, and `Reconciling` and `Stalled` where they are true (kstatus).
fn summarize(
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
        (None, State::Deleting) => {
            let message = "the API groups are given back to their CRDs".to_owned();
            let told = problem(groups).or_else(|| counted(groups));
            Finding::no(reasons::DELETING, told.unwrap_or(message))
        }
        (None, State::Failed { message, .. }) => failed(conditions, message),
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
    if done || resting || stalled.is_some() {
        conditions.remove(types::RECONCILING);
    } else {
        let finding = reconciling(state, &ready, busy);
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
        State::Refused { refusal, .. } => Some((refusal.reason, refusal.message.clone())),
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
        } => Some((reasons::FORBIDDEN, message.clone())),
        State::Applied {
            database: Some(known),
            ..
        } if known.mistaken().is_some() => {
            let problem = known.mistaken()?;
            Some((problem.reason, problem.message.clone()))
        }
        _ => migration::leading(groups).and_then(|group| {
            let problem = group.problem.as_ref().filter(|problem| problem.stalled)?;
            Some((
                problem.reason,
                format!("{}: {}", group.group, problem.message),
            ))
        }),
    }
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

/// A step that is tried again says nothing about what is served, so a `Ready` that is true stays.
fn failed(conditions: &Conditions, message: &str) -> Finding {
    if conditions.is_true(types::READY) {
        Finding::yes(
            reasons::SERVING,
            "served as before; see Reconciling for what has failed",
        )
    } else {
        Finding::no(reasons::APPLY_FAILED, message)
    }
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
    // An operator that has just started has not looked at the groups yet.
    let seen = groups
        .iter()
        .all(|group| group.phase != MigrationPhase::Pending)
        && !groups.is_empty();
    let ready = if seen {
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

/// The parts of the status that explain the conditions.
fn describe(
    status: &mut ReportsServerStatus,
    conditions: &Conditions,
    spec: &Validated,
    applied: &Applied,
    certs: &certs::Outcome,
    database: Option<&Known>,
) {
    let deployment = applied.deployment.status.clone().unwrap_or_default();
    let ready = workload::is_serving(&applied.deployment);
    let version = images::version(&spec.pod.image);
    status.versions = Some(VersionsStatus {
        operator: Some(env!("CARGO_PKG_VERSION").to_owned()),
        server: (ready && !version.is_empty()).then(|| version.to_owned()),
        schema: database.and_then(|known| known.schema_version.clone()),
        postgres: database
            .and_then(|known| known.version.clone())
            .or_else(|| postgres_version(spec)),
    });
    status.server = Some(ServerStatus {
        replicas: Some(deployment.replicas.unwrap_or(0)),
        ready_replicas: Some(deployment.ready_replicas.unwrap_or(0)),
        selector: Some(selector(spec)),
        image: Some(spec.pod.image.clone()),
    });
    let before = status.database.take();
    status.database = Some(database::status(
        before, conditions, spec, applied, database,
    ));
    status.tls = Some(tls(spec, certs));
}

fn tls(spec: &Validated, certs: &certs::Outcome) -> TlsStatus {
    let phase = match certs.phase {
        certs::Phase::Stable => TlsPhase::Stable,
        certs::Phase::Overlap => TlsPhase::Overlap,
        certs::Phase::Retiring => TlsPhase::Retiring,
    };
    let issuer = match &certs.material.trusted {
        Some(_) => spec.origin.mode(),
        None => TlsMode::Operator,
    };
    let whole = |time: Timestamp| Timestamp::from_second(time.as_second()).map(Time).ok();
    TlsStatus {
        issuer: Some(issuer),
        ca_fingerprints: certs.material.ca_fingerprints(),
        not_after: certs.material.leaf_not_after().and_then(whole),
        next_rotation: whole(certs.next),
        phase: Some(phase),
    }
}

/// Returns the version that the image of a managed database names.
fn postgres_version(spec: &Validated) -> Option<String> {
    let image = spec.managed()?.image();
    let version = images::version(&image);
    (!version.is_empty()).then(|| version.chars().take(64).collect())
}

fn selector(spec: &Validated) -> String {
    let labels: Selector = spec.names.selector().into_iter().collect();
    labels.to_string()
}

/// The error of writing the status.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the status: {}", said(.0))]
pub struct Error(#[from] pub kube::Error);

/// The result of writing a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is as it was.
    Unchanged,
    /// It was written.
    Changed,
    /// The object is gone.
    Gone,
}

/// Writes the status if it differs from the one that was read.
///
/// # Errors
/// If the kube-apiserver refuses it.
pub async fn write(
    client: &Client,
    object: &ReportsServer,
    status: &ReportsServerStatus,
) -> Result<Written, Error> {
    if object.status.as_ref() == Some(status) {
        return Ok(Written::Unchanged);
    }
    // The uid keeps this from reaching a new object of the same name.
    let body = json!({
        "apiVersion": ReportsServer::api_version(&()),
        "kind": ReportsServer::kind(&()),
        "metadata": {"name": object.name_any(), "uid": object.meta().uid},
        "status": status,
    });
    let params = PatchParams::apply(STATUS_FIELD_MANAGER).force();
    let api = Api::<ReportsServer>::all(client.clone());
    let name = object.name_any();
    match api.patch_status(&name, &params, &Patch::Apply(&body)).await {
        Ok(_) => Ok(Written::Changed),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Written::Gone),
        Err(error) => Err(error.into()),
    }
}
