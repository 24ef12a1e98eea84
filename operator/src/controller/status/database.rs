//! The findings about the database.

use crds::v1alpha1::conditions as types;
use crds::v1alpha1::status::DatabaseStatus;
use kube::ResourceExt;

use super::conditions::Conditions;
use super::{backup, between};
use crate::controller::apply::Applied;
use crate::controller::validate::{Backend, Validated};
use crate::controller::workload;
use crate::database::known::Known;
use crate::database::managed::{self, Managed};
use crate::database::place::Storage;

/// Returns the database that serves, which while the reports are moved is the embedded one. `before` is
/// what was said last; `known` was found out about the database that the specification asks for.
pub fn status(
    before: Option<DatabaseStatus>,
    conditions: &Conditions,
    spec: &Validated,
    applied: &Applied,
    known: Option<&Known>,
) -> DatabaseStatus {
    let managed = applied.managed.as_ref();
    let last_backup = backup::last(applied.backup_jobs());
    let before = before.and_then(|before| before.last_backup);
    let serves = spec.moving.is_none();
    let (managed, known) = (managed.filter(|_| serves), known.filter(|_| serves));
    DatabaseStatus {
        mode: Some(spec.backend().mode()),
        cluster_identity: identity(spec),
        history: spec.history.clone().filter(|_| serves),
        ready: conditions
            .get(types::DATABASE_READY)
            .filter(|condition| condition.status != "Unknown")
            .map(|condition| condition.status == "True"),
        host: known
            .and_then(|known| known.host.clone())
            .or_else(|| host(spec)),
        primary: managed
            .filter(|managed| workload::is_database_ready(&managed.stateful_set))
            .map(|managed| format!("{}-0", managed.stateful_set.name_any()))
            .or_else(|| known.and_then(|known| known.primary.clone())),
        volume_claim: volume_claim(spec),
        size_bytes: known.and_then(|known| known.bytes),
        last_backup: last_backup.map(|(backup, _)| backup).or(before),
        schema_version: known.and_then(|known| known.schema_version.clone()),
        move_: between::progress(spec),
    }
}

/// Returns the key of the reports that are served.
fn identity(spec: &Validated) -> Option<String> {
    match spec.backend() {
        Backend::Postgres(postgres) => Some(postgres.cluster_identity.clone()),
        Backend::Pod(_) => None,
    }
}

/// Returns the host and port of a database that the operator runs.
fn host(spec: &Validated) -> Option<String> {
    let Backend::Postgres(postgres) = spec.backend() else {
        return None;
    };
    postgres.managed.as_ref()?;
    let host = spec.names.postgres_host(&spec.namespace);
    Some(format!("{host}:{}", managed::PORT))
}

/// Returns the volume with the reports.
fn volume_claim(spec: &Validated) -> Option<String> {
    match spec.backend() {
        Backend::Pod(Storage::Claim { .. }) => Some(spec.names.data()),
        Backend::Pod(Storage::EmptyDir { .. }) => None,
        Backend::Postgres(postgres) => postgres.managed.as_ref().map(Managed::claim),
    }
}
