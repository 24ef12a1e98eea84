//! Step 6 of a reconciliation: the status, computed from what was found, and written once if it
//! differs from the present one.

mod admission;
mod backup;
mod between;
mod components;
mod conditions;
mod database;
mod describe;
mod migration;
mod monitoring;
mod server;
mod state;
mod summary;
#[cfg(test)]
mod tests;
mod upgrade;
mod write;

use crds::names::ANNOTATION_REQUEST;
use crds::v1alpha1::defaults::Effective;
use crds::v1alpha1::{ReportsServer, ReportsServerStatus, conditions as types, reasons};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use kube::{Resource, ResourceExt};

use self::conditions::{Conditions, Finding};
use self::describe::{describe, tls};
pub use self::state::State;
pub use self::summary::seen;
use self::summary::summarize;
pub use self::write::{Error, Written, write};
use super::found::Found;
use super::validate::{Refusal, Validated};
use crate::migration::GroupStatus;

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
    let kept = state.found();
    if let Some((spec, found)) = kept {
        observe(&mut status, &mut conditions, spec, found);
    }
    let is_deleting = matches!(state, State::Deleting { .. });
    let goes = is_deleting || object.meta().deletion_timestamp.is_some();
    if seen(groups) {
        match kept.map(|(spec, _)| spec) {
            spec if goes => leaving(&mut conditions, spec, groups),
            Some(spec) => migrated(&mut conditions, spec, groups),
            None => {}
        }
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
        if spec.backup().is_some() || applied.backups().is_some() {
            backups(&mut conditions, &before, applied.backup_jobs());
        } else {
            conditions.remove(types::LAST_BACKUP_SUCCEEDED);
        }
        let was = before.database.as_ref().and_then(|database| database.mode);
        let moved = conditions.get(types::DATABASE_MOVED);
        if between::is_void(spec, moved, was) {
            conditions.remove(types::DATABASE_MOVED);
        } else if let Some(finding) = components::moved(spec, (moved, was), applied, *database) {
            conditions.set(types::DATABASE_MOVED, finding);
        }
        describe(&mut status, &conditions, spec, applied, certs, *database);
        let server = server::as_applied(spec, applied);
        conditions.set(types::SERVER_AVAILABLE, server);
        migrated(&mut conditions, spec, groups);
        monitoring::tell(&mut conditions, spec, &applied.unmonitored);
    }
    summarize(&mut conditions, object, state, groups);
    status.conditions = conditions.into_list();
    status
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

/// Sets the conditions of the groups.
fn migrated(conditions: &mut Conditions, spec: &Validated, groups: &[GroupStatus]) {
    let apis = &spec.apis;
    conditions.set(
        types::API_SERVICES_REGISTERED,
        components::registered(apis, groups),
    );
    conditions.set(
        types::DATA_MIGRATED,
        components::data_migrated(apis, groups),
    );
    offered(conditions, Some(spec), groups);
}

/// Sets the conditions of the groups of a server that goes: what spec.apis says of them is not aimed at
/// any more.
fn leaving(conditions: &mut Conditions, spec: Option<&Validated>, groups: &[GroupStatus]) {
    for type_ in [types::API_SERVICES_REGISTERED, types::DATA_MIGRATED] {
        let finding = Finding::no(reasons::DELETING, "the ReportsServer is being deleted");
        conditions.set(type_, finding);
    }
    offered(conditions, spec, groups);
}

/// Sets the conditions of what a user may do while the groups are as they are: have them go back, or
/// replace the operator.
fn offered(conditions: &mut Conditions, spec: Option<&Validated>, groups: &[GroupStatus]) {
    conditions.set(types::ROLLBACK_AVAILABLE, components::rollback(groups));
    let upgradeable = components::upgradeable(spec, groups);
    conditions.set(types::UPGRADEABLE, upgradeable);
}

/// Sets the conditions of health, and of the certificates and backups that are made all the same.
fn observe(
    status: &mut ReportsServerStatus,
    conditions: &mut Conditions,
    spec: &Validated,
    found: &Found,
) {
    conditions.set(
        types::CERTIFICATES_READY,
        components::certificates_as_found(spec, found),
    );
    if let Some(database) = components::database_as_found(spec, found) {
        conditions.set(types::DATABASE_READY, database);
    }
    conditions.set(types::SERVER_AVAILABLE, server::as_found(spec, found));
    status.tls = Some(tls(spec, &found.certs));
    let deployment = found.deployment.as_ref();
    let counts = deployment.and_then(|deployment| deployment.status.clone());
    let counts = counts.unwrap_or_default();
    if let Some(server) = &mut status.server {
        server.replicas = Some(counts.replicas.unwrap_or(0));
        server.ready_replicas = Some(counts.ready_replicas.unwrap_or(0));
    }
    if spec.backup().is_some() {
        backups(conditions, status, &found.backup_jobs);
    }
    if let Some(database) = &mut status.database {
        let ready = conditions.get(types::DATABASE_READY);
        database.ready = ready.map(|condition| condition.status == "True");
        let last = backup::last(&found.backup_jobs).map(|(last, _)| last);
        database.last_backup = last.or(database.last_backup.take());
    }
}

/// `LastBackupSucceeded`. It stays when the Jobs that it is from are gone.
fn backups(conditions: &mut Conditions, before: &ReportsServerStatus, jobs: &[Job]) {
    let last = before
        .database
        .as_ref()
        .and_then(|database| database.last_backup.as_ref());
    if let Some(finding) = backup::finding(jobs, last) {
        conditions.set(types::LAST_BACKUP_SUCCEEDED, finding);
    }
}
