//! The condition of each part: certificates, database, APIServices, migration.

use crds::v1alpha1::reasons;
use crds::v1alpha1::spec::{ApiOwner, ApiSpec, DatabaseMode};
use crds::v1alpha1::status::{MigrationPhase, ServedBy};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;

use super::conditions::{Finding, Is};
use super::{backup, between, upgrade};
use crate::certs::{Outcome, Phase};
use crate::controller::apply::{Applied, Managed, Volume};
use crate::controller::found::{Found, Part};
use crate::controller::validate::{Backend, Reached, Validated};
use crate::controller::workload;
use crate::database::known::{Known, State};
use crate::database::moving;
use crate::images;
use crate::migration::{ApiServiceStatus, GroupStatus};

/// The field with the backup that an embedded database starts with.
const EMBEDDED_RECOVERY: &str = "spec.database.embedded.bootstrap.recovery";
/// The same of a managed one.
const MANAGED_RECOVERY: &str = "spec.database.managed.bootstrap.recovery";

/// Returns the certificates. They exist whenever this is reached: without them nothing is applied.
pub fn certificates(certs: &Outcome) -> Finding {
    let until = certs.material.leaf_not_after();
    let until = until.map_or_else(String::new, |time| format!(" until {time}"));
    let valid = format!("serving certificate valid{until}");
    if let Some(problem) = &certs.problem {
        let message = format!("{}; the one in use stays ({valid})", problem.message);
        return Finding::no(problem.reason, message);
    }
    if certs.expiring {
        let message = format!("{valid}; whoever issues it has to replace it before");
        let message = certs
            .note
            .iter()
            .fold(message, |all, note| format!("{all}; {note}"));
        return Finding::yes(reasons::CERTIFICATE_EXPIRING, message);
    }
    if let Some(note) = &certs.note {
        let message = format!("{valid}; {note}");
        return Finding::yes(reasons::CERTIFICATE_NOT_READY, message);
    }
    match certs.phase {
        Phase::Stable => Finding::yes(reasons::AS_EXPECTED, valid),
        Phase::Overlap | Phase::Retiring => Finding::yes(
            reasons::ROTATING,
            format!("{valid}; two certificate authorities are trusted"),
        ),
    }
}

/// Returns the database: its volume; its pod, where it has one of its own; and what the operator found
/// when it connected as the servers do. A server is not ready before it has opened an embedded
/// database, so that is judged by its server.
pub fn database(spec: &Validated, applied: &Applied, postgres: Option<&Known>) -> Finding {
    if spec.moving.is_some() {
        // The reports are served from where they were.
        return servers_database(&applied.deployment, &applied.pods);
    }
    wanted_database(spec, applied, postgres)
}

/// Returns the database that the specification asks for.
fn wanted_database(spec: &Validated, applied: &Applied, postgres: Option<&Known>) -> Finding {
    let managed = applied.managed.as_ref();
    // One to which the reports are only on their way says nothing of those that are served.
    let data = applied.data.as_ref().filter(|_| spec.home().is_none());
    let volume = managed.map(|managed| &managed.data).or(data);
    if let Some(finding) = blocked_restore(applied) {
        return finding;
    }
    let pending = volume.map(|volume| &volume.claim);
    if let Some(claim) = pending.filter(|claim| !is_bound(claim)) {
        return Finding::no(
            reasons::VOLUME_PENDING,
            format!(
                "PersistentVolumeClaim {} is not bound: see kubectl -n {} describe pvc {}",
                claim.name_any(),
                claim.namespace().unwrap_or_default(),
                claim.name_any()
            ),
        );
    }
    let finding = match (managed, postgres) {
        (Some(managed), known) => {
            stopped(spec, applied).unwrap_or_else(|| managed_database(spec, managed, known))
        }
        (None, Some(known)) => postgresql(known),
        (None, None) => embedded_database(applied),
    };
    let backups = applied.backups();
    let refused = |volume: &Volume| volume.refused.clone();
    match volume
        .and_then(refused)
        .or_else(|| backups.and_then(refused))
    {
        Some(why) if finding.is == Is::True => Finding::yes(
            reasons::VOLUME_CANNOT_GROW,
            format!("{}; the volume keeps its size: {why}", finding.message),
        ),
        _ => finding,
    }
}

/// Returns whether the reports are where the specification wants them; nothing where they were not
/// to be moved. `before` was said last, while they were in a database of the mode `was`.
pub fn moved(
    spec: &Validated,
    (before, was): (Option<&Condition>, Option<DatabaseMode>),
    applied: &Applied,
    postgres: Option<&Known>,
) -> Option<Finding> {
    if let Some(between) = &spec.between {
        return between::moved(spec, between);
    }
    let Some(moving) = &spec.moving else {
        // The last thing that was said of a move was that it is under way.
        before.filter(|before| before.status != "True")?;
        let stays = |place: &str| {
            Finding::no(
                reasons::MOVE_GIVEN_UP,
                format!("the reports stay in {place}"),
            )
        };
        let embedded = was.is_none_or(|was| was == DatabaseMode::Embedded);
        return Some(match spec.backend() {
            Backend::Pod(_) => stays("the embedded database"),
            Backend::Postgres(postgres) if !embedded => stays(&moving::target(postgres)),
            Backend::Postgres(postgres) => Finding::yes(
                reasons::MOVED,
                format!(
                    "the reports are in {}; the earlier volume, {}, is no longer used",
                    moving::target(postgres),
                    spec.names.data()
                ),
            ),
        });
    };
    let (phase, mut message) = moving::describe(moving.told.as_ref(), moving.waits_for.as_deref());
    let wanted = spec.database.postgres().is_some();
    if wanted && moving.told.is_none() && moving.secret.is_none() {
        let found = [
            Some(wanted_database(spec, applied, postgres)),
            postgres.map(postgresql),
        ];
        let trouble = found.into_iter().flatten().find(|f| f.is != Is::True);
        message.extend(trouble.map(|trouble| format!(": {}", trouble.message)));
    }
    let reason = match phase {
        _ if !wanted => reasons::MOVE_GIVEN_UP,
        phase => between::reason(phase),
    };
    Some(Finding::no(reason, message))
}

/// Of a database that is away for an upgrade.
fn stopped(spec: &Validated, applied: &Applied) -> Option<Finding> {
    upgrade::why_stopped(spec.managed()?, applied)
}

/// Returns its pod asks it itself, so that it answers is known without the network between.
fn managed_database(spec: &Validated, managed: &Managed, known: Option<&Known>) -> Finding {
    if !workload::is_database_ready(&managed.stateful_set) {
        let why = workload::why_database_not_ready(&managed.stateful_set, &managed.pods);
        return Finding::no(reasons::DATABASE_UNAVAILABLE, format!("PostgreSQL: {why}"));
    }
    if let Some(recovery) = &managed.recovery {
        return backup::restoring(recovery, MANAGED_RECOVERY);
    }
    if let Some(finding) = known.and_then(unusable) {
        return finding;
    }
    let wanted = spec.database.postgres().and_then(|p| p.managed.as_ref());
    let version = wanted.map_or_else(String::new, |wanted| {
        format!(" {}", images::version(&wanted.image()))
    });
    let message = format!("PostgreSQL{version} answers");
    Finding::yes(reasons::DATABASE_AVAILABLE, message)
}

/// Returns why a database whose pod is ready cannot be used all the same. That the operator does not
/// reach it says nothing about the servers.
fn unusable(known: &Known) -> Option<Finding> {
    let unusable = known.usable() == Some(false);
    let unusable = unusable && known.reason() != reasons::DATABASE_UNREACHABLE;
    unusable.then(|| postgresql(known))
}

/// Returns a database in the server's own pod: that of the server, once it has its backup.
fn embedded_database(applied: &Applied) -> Finding {
    let embedded = applied.embedded.as_ref();
    match embedded.and_then(|embedded| embedded.recovery.as_ref()) {
        Some(recovery) => backup::restoring(recovery, EMBEDDED_RECOVERY),
        None => servers_database(&applied.deployment, &applied.pods),
    }
}

/// Returns the finding about the restore of an embedded database whose pod cannot start. The volume may
/// wait for just this pod, and does not say why it does not come.
fn blocked_restore(applied: &Applied) -> Option<Finding> {
    let recovery = applied.embedded.as_ref()?.recovery.as_ref()?;
    workload::why_job_fails(&recovery.pods)?;
    Some(backup::restoring(recovery, EMBEDDED_RECOVERY))
}

fn servers_database(deployment: &Deployment, pods: &[Pod]) -> Finding {
    if workload::is_serving(deployment) {
        Finding::yes(
            reasons::DATABASE_AVAILABLE,
            "the server has opened the database",
        )
    } else {
        let why = workload::why_not_ready(deployment, pods);
        Finding::no(reasons::DATABASE_UNAVAILABLE, why)
    }
}

fn postgresql(known: &Known) -> Finding {
    match &known.state {
        State::Unknown => Finding::unknown("PostgreSQL has not been checked yet"),
        State::Usable => {
            let version = known.version.as_deref().unwrap_or("of an unknown version");
            let place = known.primary.as_deref().unwrap_or_default();
            Finding::yes(
                reasons::DATABASE_AVAILABLE,
                format!("PostgreSQL {version} at {place} can be used"),
            )
        }
        State::Unusable(problem) => Finding::no(problem.reason, problem.message.clone()),
    }
}

fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    let phase = claim
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    phase == Some("Bound")
}

/// Returns the certificates where the rest is not carried out. One that cannot be stored matters when
/// the one in use has ended.
pub fn certificates_as_found(spec: &Validated, found: &Found) -> Finding {
    let Some(unkept) = found.unkept(Part::Certificates) else {
        return certificates(&found.certs);
    };
    let end = found.certs.material.leaf_not_after();
    if unkept.foreign {
        Finding::no(reasons::FOREIGN_OBJECT, unkept.message.clone())
    } else if end.is_some_and(|end| spec.now < end) {
        certificates(&found.certs)
    } else {
        Finding::no(reasons::APPLY_FAILED, unkept.message.clone())
    }
}

/// Returns the database where nothing is repaired: what the operator found when it connected, since a
/// server on PostgreSQL stays ready without its database; nothing where it could not even be read how to
/// connect. One in the server's own pod is judged by the server, also where the specification wants the
/// reports elsewhere by now.
pub fn database_as_found(spec: &Validated, found: &Found) -> Option<Finding> {
    let deployment = found.deployment.as_ref();
    let in_pod = spec.moving.is_some()
        || spec.database.postgres().is_none()
        || deployment.is_some_and(workload::is_embedded);
    let known = spec.postgres.as_ref().map(Reached::known);
    match deployment {
        _ if !in_pod && spec.is_managed() => Some(managed_as_found(spec, found, known)),
        _ if !in_pod => known.map(postgresql),
        Some(deployment) => Some(servers_database(deployment, &found.pods)),
        None => {
            let why = missing("Deployment", &spec.names.server());
            Some(Finding::no(reasons::DATABASE_UNAVAILABLE, why))
        }
    }
}

fn managed_as_found(spec: &Validated, found: &Found, known: Option<&Known>) -> Finding {
    match &found.stateful_set {
        Some(set) if workload::is_database_ready(set) => known
            .and_then(unusable)
            .unwrap_or_else(|| Finding::yes(reasons::DATABASE_AVAILABLE, "PostgreSQL answers")),
        Some(set) => Finding::no(
            reasons::DATABASE_UNAVAILABLE,
            workload::why_database_not_ready(set, &[]),
        ),
        None => {
            let name = spec.names.postgres();
            Finding::no(reasons::DATABASE_UNAVAILABLE, missing("StatefulSet", &name))
        }
    }
}

/// Returns what is said of a child that is not there.
pub(super) fn missing(kind: &str, name: &str) -> String {
    format!("{kind} {name} is missing")
}

/// Returns whether every APIService points to where the specification wants it.
pub fn registered(apis: &[ApiSpec], groups: &[GroupStatus]) -> Finding {
    if apis.is_empty() {
        return Finding::yes(reasons::AS_EXPECTED, "spec.apis names no API group");
    }
    let open: Vec<&str> = apis
        .iter()
        .filter(|api| !is_where_wanted(api, groups))
        .map(|api| api.group.as_str())
        .collect();
    let dry = |group: &&GroupStatus| group.phase == MigrationPhase::DryRun;
    let dry: Vec<&str> = groups
        .iter()
        .filter(dry)
        .map(|g| g.group.as_str())
        .collect();
    if !open.is_empty() && open.iter().all(|group| dry.contains(group)) {
        let message = format!(
            "nothing is switched because spec.migration.dryRun is true: {}",
            open.join(", ")
        );
        return Finding::no(reasons::DRY_RUN, message);
    }
    if open.is_empty() {
        return Finding::yes(
            reasons::AS_EXPECTED,
            "every API group is served as spec.apis specifies",
        );
    }
    let message = format!("not yet served as spec.apis specifies: {}", open.join(", "));
    Finding::no(reasons::PROGRESSING, message)
}

fn is_where_wanted(api: &ApiSpec, groups: &[GroupStatus]) -> bool {
    let Some(group) = groups.iter().find(|group| group.group == api.group) else {
        return false;
    };
    let right = |service: &ApiServiceStatus| match api.owner {
        ApiOwner::Server => service.served_by == ServedBy::Server,
        ApiOwner::Crd => matches!(service.served_by, ServedBy::Crd | ServedBy::Absent),
    };
    let known = !group.api_services.is_empty() || api.owner == ApiOwner::Crd;
    known && group.api_services.iter().all(right)
}

/// Returns whether a group's reports are in the server, compared with etcd.
pub fn data_migrated(apis: &[ApiSpec], groups: &[GroupStatus]) -> Finding {
    let mut without_crd = Vec::new();
    for api in apis.iter().filter(|api| api.owner == ApiOwner::Server) {
        let group = groups.iter().find(|group| group.group == api.group);
        match group.map(|group| (group.phase, group)) {
            Some((phase, group)) if has_verified_copy(phase) => {
                if !group.crds_present {
                    without_crd.push(api.group.as_str());
                }
            }
            found => {
                let phase = found.map_or(MigrationPhase::Pending, |(phase, _)| phase);
                let message = format!("{}: {phase}", api.group);
                return match phase {
                    MigrationPhase::Mirroring | MigrationPhase::Verifying => {
                        Finding::no(reasons::COPYING, message)
                    }
                    _ => Finding::no(reasons::PROGRESSING, message),
                };
            }
        }
    }
    if groups
        .iter()
        .any(|group| group.phase == MigrationPhase::DryRun)
    {
        let message = "every report was copied and verified; with spec.migration.dryRun, not all \
                       groups are switched";
        return Finding::yes(reasons::DRY_RUN, message);
    }
    if without_crd.is_empty() {
        return Finding::yes(reasons::VERIFIED, "every report was copied and verified");
    }
    let message = format!("there was nothing to copy for {}", without_crd.join(", "));
    Finding::yes(reasons::SOURCE_CRD_MISSING, message)
}

fn has_verified_copy(phase: MigrationPhase) -> bool {
    use MigrationPhase as P;
    matches!(
        phase,
        P::DryRun
            | P::AwaitingApproval
            | P::Switching
            | P::Soaking
            | P::Retaining
            | P::Pruning
            | P::Completed
    )
}

/// Returns whether every group that the server serves could go back to its CRDs.
pub fn rollback(groups: &[GroupStatus]) -> Finding {
    let is_switched = |group: &&GroupStatus| {
        group
            .api_services
            .iter()
            .any(|service| service.served_by == ServedBy::Server)
    };
    let served: Vec<&GroupStatus> = groups.iter().filter(is_switched).collect();
    let names = |groups: Vec<&&GroupStatus>| {
        groups
            .iter()
            .map(|group| group.group.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let missing: Vec<_> = served.iter().filter(|group| !group.crds_present).collect();
    if !missing.is_empty() {
        let message = format!(
            "there is no CRD to go back to for {}; install it first",
            names(missing)
        );
        return Finding::no(reasons::CRD_MISSING, message);
    }
    let pruned: Vec<_> = served
        .iter()
        .filter(|group| group.pruned_at.is_some())
        .collect();
    if !pruned.is_empty() {
        let message = format!(
            "the way back writes all reports again for {}",
            names(pruned)
        );
        return Finding::yes(reasons::SOURCE_PRUNED, message);
    }
    if served.is_empty() {
        return Finding::yes(reasons::AS_EXPECTED, "no API group has been taken over");
    }
    Finding::yes(reasons::AS_EXPECTED, "set owner: CRD to go back")
}

/// Returns whether the operator can be replaced without anybody waiting for its successor.
pub fn upgradeable(spec: Option<&Validated>, groups: &[GroupStatus]) -> Finding {
    use MigrationPhase as P;
    if spec
        .and_then(Validated::managed)
        .is_some_and(|managed| managed.present.stopped)
    {
        let message = "the database is down for its upgrade to another major version";
        return Finding::no(reasons::PROGRESSING, message);
    }
    let busy = groups.iter().find(|group| {
        matches!(
            group.phase,
            P::Mirroring | P::Verifying | P::Switching | P::RollingBack
        )
    });
    match busy {
        None => Finding::yes(reasons::AS_EXPECTED, "no API group is being migrated"),
        Some(group) => {
            let message = format!("{} is being migrated: {}", group.group, group.phase);
            Finding::no(reasons::PROGRESSING, message)
        }
    }
}
