//! The work that goes on where the specification is not carried out, because it is refused or
//! suspended, a step fails, or a deletion waits. Clients depend on the server all the same: its
//! certificates are renewed, what leads to it is put right, and the status tells how it is.

use std::time::Duration;

use crds::v1alpha1::status::MigrationPhase;
use crds::v1alpha1::{ReportsServer, reasons};
use jiff::Timestamp;
use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};
use tracing::warn;

use super::apply::Applied;
use super::build::control_api_name;
use super::context::{RESYNC, owner};
use super::forward::{self, Outcome};
use super::found::{Dereferenced, Found, Part};
use super::report::report;
use super::status::State;
use super::targets::{self, Serving};
use super::validate::{self, Refusal, Refused, Validated};
use super::{Context, Error, apply, build, dereference};
use crate::migration::{GroupStatus, GroupTarget};
use crate::{certs, events};

/// Time between two looks at a suspended switch until it has come to its end.
const FINISHING: Duration = Duration::from_secs(5);

/// Time between two looks whether what stands in the cluster against a specification has gone.
const STANDING: Duration = Duration::from_secs(15);

/// The specification that is kept for clients, and how its children were found.
pub struct Kept {
    spec: Validated,
    found: Found,
}

impl Kept {
    /// Returns both.
    #[must_use]
    pub fn parts(&self) -> (&Validated, &Found) {
        (&self.spec, &self.found)
    }

    /// Returns what the migrations are asked for where switches that are under way come to their end,
    /// and none begins.
    #[must_use]
    pub fn resting(&self) -> Vec<GroupTarget> {
        targets::targets(&self.spec, &serving(&self.found), true)
    }

    /// Returns the authorities with which the server's certificate is verified (PEM).
    #[must_use]
    pub fn ca_bundle(&self) -> Vec<u8> {
        self.found.certs.material.bundle().into_bytes()
    }
}

/// Leaves everything as it is but for what clients depend on. A switch under way is brought to its
/// end first, also where another operator began it: between two of its steps requests are held.
pub async fn suspend(
    object: &ReportsServer,
    read: &Dereferenced,
    spec: &Validated,
    ctx: &Context,
) -> Result<Action, Error> {
    let found = Box::pin(keep(object, read, spec, true, ctx)).await?;
    let groups = ctx.supervisor.status(&object.name_any());
    let finishing = groups.iter().any(|group| is_under_way(object, group));
    let state = State::Suspended {
        finishing,
        spec,
        found: found.as_ref(),
    };
    report(object, ctx, &state).await?;
    let resync = if finishing { FINISHING } else { RESYNC };
    Ok(Action::requeue(due(found.as_ref(), resync)))
}

/// Tells that the specification is refused, and carries the last one out that was not.
pub async fn refuse(
    object: &ReportsServer,
    read: &Dereferenced,
    refused: &Refused,
    ctx: &Context,
) -> Result<Action, Error> {
    let Refused { refusal, spec } = refused;
    let again = if spec.is_some() { STANDING } else { RESYNC };
    let last = match last_accepted(object, read, refusal) {
        Some(last) => {
            let read = Box::pin(dereference::dereference(&last, ctx)).await?;
            let last = read.in_force(&last).into_owned();
            Some((last, Dereferenced { kept: true, ..read }))
        }
        None => None,
    };
    let valid = last
        .as_ref()
        .map(|(last, read)| validate::validate(last, read));
    if let (Some((last, read)), Some(Ok(spec))) = (&last, &valid)
        && last.spec.suspend != Some(true)
    {
        let done = Box::pin(forward::carry_out(last, read, spec, Some(refusal), ctx)).await?;
        if let Outcome::Done(resync) = done {
            return Ok(Action::requeue(resync.min(again)));
        }
    }
    // Neither can be carried out: what clients depend on is kept by the last one that is valid.
    let kept = match (&last, &valid) {
        (Some((last, read)), Some(Ok(spec))) => Some((last, read, spec)),
        (Some((last, read)), Some(Err(refused))) => {
            refused.spec.as_deref().map(|spec| (last, read, spec))
        }
        _ => spec.as_deref().map(|spec| (object, read, spec)),
    };
    let found = match kept {
        Some((object, read, spec)) => {
            let suspended = object.spec.suspend == Some(true);
            Box::pin(keep(object, read, spec, suspended, ctx)).await?
        }
        None => None,
    };
    let state = State::Refused {
        refusal,
        found: kept.map(|(_, _, spec)| spec).zip(found.as_ref()),
    };
    report(object, ctx, &state).await?;
    Ok(Action::requeue(due(found.as_ref(), again)))
}

/// Returns the object with the specification that was carried out last, where that is another one, or
/// is the same and was in force until its namespace was closed.
fn last_accepted(
    object: &ReportsServer,
    read: &Dereferenced,
    refusal: &Refusal,
) -> Option<ReportsServer> {
    let mut spec = read.accepted.clone()?;
    spec.suspend = object.spec.suspend;
    let closed = refusal.reason == reasons::TARGET_NAMESPACE_CLOSED;
    (closed || spec != object.spec).then(|| ReportsServer {
        spec,
        ..object.clone()
    })
}

/// Keeps what clients depend on, and looks how the server is; nothing where there is none yet.
async fn keep(
    object: &ReportsServer,
    read: &Dereferenced,
    spec: &Validated,
    suspended: bool,
    ctx: &Context,
) -> Result<Option<Found>, Error> {
    ctx.watch(spec);
    let found = if read.inside.deployment.is_none() && read.registered.is_empty() {
        None
    } else {
        Some(Box::pin(renew(object, read, spec, ctx)).await?)
    };
    let server = found.as_ref().map(serving).unwrap_or_default();
    let targets = targets::targets(spec, &server, suspended);
    ctx.supervisor.ensure(&owner(object), targets);
    Ok(found)
}

/// Keeps what clients depend on after a step has failed, by the specification that it belonged to, and
/// looks how the server is; nothing where there is none, or it cannot be looked at.
pub async fn rescue(object: &ReportsServer, ctx: &Context) -> Option<Kept> {
    let kept = Box::pin(try_rescue(object, ctx)).await;
    kept.unwrap_or_else(|error| {
        warn!(name = object.name_any(), %error, "cannot keep what clients depend on");
        None
    })
}

async fn try_rescue(object: &ReportsServer, ctx: &Context) -> Result<Option<Kept>, Error> {
    let read = dereference::dereference(object, ctx).await?;
    // What failed is the present specification, unless that is refused.
    let refused = validate::validate(object, &read).is_err();
    let (object, read) = match read.accepted.clone() {
        Some(spec) if refused && spec != object.spec => {
            let last = ReportsServer {
                spec,
                ..object.clone()
            };
            let read = dereference::dereference(&last, ctx).await?;
            (last, Dereferenced { kept: true, ..read })
        }
        _ => (object.clone(), read),
    };
    let spec = match validate::validate(&object, &read) {
        Ok(spec) => Some(Box::new(spec)),
        Err(refused) => refused.spec,
    };
    let there = read.inside.deployment.is_some() || !read.registered.is_empty();
    let Some(spec) = spec.filter(|_| there) else {
        return Ok(None);
    };
    let found = Box::pin(renew(&object, &read, &spec, ctx)).await?;
    Ok(Some(Kept { spec: *spec, found }))
}

/// Applies the children of an object whose deletion waits, by the last specification that can be
/// carried out; nothing where none can, or nothing is there.
///
/// # Errors
/// If a child cannot be applied, or no specification says how to start a database that an upgrade has
/// stopped.
pub async fn stay(object: &ReportsServer, ctx: &Context) -> Result<Option<Kept>, Error> {
    let read = dereference::dereference(object, ctx).await?;
    let refused = match Box::pin(settle(object, &read, ctx)).await? {
        Ok(kept) => return Ok(Some(kept)),
        Err(refused) => refused,
    };
    let (read, refused) = match last_accepted(object, &read, &refused.refusal) {
        Some(last) => {
            let read = dereference::dereference(&last, ctx).await?;
            let read = Dereferenced { kept: true, ..read };
            match Box::pin(settle(&last, &read, ctx)).await? {
                Ok(kept) => return Ok(Some(kept)),
                Err(refused) => (read, refused),
            }
        }
        None => (read, refused),
    };
    // The reports are read from the database on their way back.
    if read.inside.has_stopped_database() {
        return Err(Error::GiveBack(refused.refusal.message));
    }
    let there = read.inside.deployment.is_some() || !read.registered.is_empty();
    let Some(spec) = refused.spec.filter(|_| there) else {
        return Ok(None);
    };
    let found = Box::pin(renew(object, &read, &spec, ctx)).await?;
    Ok(Some(Kept { spec: *spec, found }))
}

/// Applies all children, or what clients depend on where it is suspended, and renews the certificates,
/// unless the specification or a child is refused.
async fn settle(
    object: &ReportsServer,
    read: &Dereferenced,
    ctx: &Context,
) -> Result<Result<Kept, Refused>, Error> {
    let spec = match validate::validate(object, read) {
        Ok(spec) => spec,
        Err(refused) => return Ok(Err(refused)),
    };
    ctx.watch(&spec);
    // The way back needs the server, and whoever has deleted it does not make it again.
    let whole = read.inside.deployment.is_some()
        && (spec.managed().is_none() || read.inside.stateful_set.is_some());
    if object.spec.suspend == Some(true) && whole && !read.inside.has_stopped_database() {
        let found = Box::pin(renew(object, read, &spec, ctx)).await?;
        return Ok(Ok(Kept { spec, found }));
    }
    let certs = forward::certify(read, &spec)?;
    let children = Box::new(build::build(&spec, &certs.material, &ctx.operator));
    let in_force = read.in_force(object);
    let applied = Box::pin(forward::apply_all(&in_force, read, &spec, children, ctx)).await;
    let applied = match applied {
        Ok(applied) => applied,
        Err(error) => {
            let refusal = error.refused().ok_or(error)?;
            let spec = Some(Box::new(spec));
            return Ok(Err(Refused { refusal, spec }));
        }
    };
    let about = object.object_ref(&());
    events::publish(&ctx.publisher, &about, events::certificates(&certs)).await;
    let found = as_found(*applied, certs);
    Ok(Ok(Kept { spec, found }))
}

fn as_found(applied: Applied, certs: certs::Outcome) -> Found {
    Found {
        backup_jobs: applied.backup_jobs().to_vec(),
        deployment: Some(applied.deployment),
        pods: applied.pods,
        stateful_set: applied.managed.map(|managed| managed.stateful_set),
        control_api: applied.control_api,
        certs,
        unkept: Vec::new(),
    }
}

async fn renew(
    object: &ReportsServer,
    read: &Dereferenced,
    spec: &Validated,
    ctx: &Context,
) -> Result<Found, Error> {
    let certs = forward::certify(read, spec)?;
    let children = Box::new(build::build(spec, &certs.material, &ctx.operator));
    let stored = Box::new(build::build(spec, &read.inside.material, &ctx.operator));
    let standing = Box::pin(apply::keep(&ctx.client, spec, &children, &stored)).await;
    for unkept in &standing.unkept {
        warn!(
            name = object.name_any(),
            error = unkept.message,
            "cannot keep what clients depend on"
        );
    }
    let certs = if standing.is_certified() {
        certs
    } else {
        certs.unstored(read.inside.material.clone())
    };
    let about = object.object_ref(&());
    events::publish(&ctx.publisher, &about, events::certificates(&certs)).await;
    let deployment = read.inside.deployment.clone();
    let pods = match &deployment {
        Some(deployment) => apply::pods_in_trouble(&ctx.client, deployment).await?,
        None => Vec::new(),
    };
    let backup_jobs = apply::backup_jobs(&ctx.client, &children).await;
    let backup_jobs = backup_jobs.unwrap_or_else(|error| {
        warn!(name = object.name_any(), %error, "cannot look at the backups");
        Vec::new()
    });
    let present = || {
        ctx.api_services
            .find(|api| api.name_any() == control_api_name())
    };
    let mut unkept = standing.unkept.iter();
    let foreign = unkept.any(|unkept| unkept.foreign && unkept.part == Part::Server);
    let present = || present().filter(|_| !foreign).map(|api| (*api).clone());
    let control_api = standing.control_api.or_else(present);
    Ok(Found {
        deployment,
        pods,
        stateful_set: read.inside.stateful_set.clone(),
        backup_jobs,
        control_api: control_api.unwrap_or_default(),
        certs,
        unkept: standing.unkept,
    })
}

fn serving(found: &Found) -> Serving {
    let (deployment, control_api) = (found.deployment.as_ref(), &found.control_api);
    Serving::of(deployment, control_api, &found.certs.material)
}

/// Returns when to look again at the latest.
fn due(found: Option<&Found>, resync: Duration) -> Duration {
    let unkept = found.is_some_and(|found| !found.unkept.is_empty());
    let resync = if unkept { resync.min(STANDING) } else { resync };
    let next = found.map(|found| found.certs.next.duration_since(Timestamp::now()));
    let next = next.map(|next| Duration::try_from(next).unwrap_or_default());
    next.map_or(resync, |next| next.clamp(Duration::from_secs(1), resync))
}

/// Returns whether a group is between two steps of a switch; of one that this process has not
/// looked at yet the status tells.
pub fn is_under_way(object: &ReportsServer, group: &GroupStatus) -> bool {
    let told = || {
        let migration = object.status.as_ref()?.migration.as_ref()?;
        let told = migration.groups.iter().find(|g| g.group == group.group)?;
        Some(told.phase)
    };
    match group.phase {
        MigrationPhase::Switching | MigrationPhase::RollingBack => true,
        MigrationPhase::Pending => matches!(
            told(),
            Some(MigrationPhase::Switching | MigrationPhase::RollingBack)
        ),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::controller::fixtures;

    #[test]
    fn the_same_specification_stays_in_force_when_its_namespace_is_closed() {
        let object = fixtures::object(json!({}));
        let read = Dereferenced {
            accepted: Some(object.spec.clone()),
            ..fixtures::read()
        };
        let last = |reason| {
            let message = String::new();
            last_accepted(&object, &read, &Refusal { reason, message }).map(|last| last.spec)
        };
        assert_eq!(
            last(reasons::TARGET_NAMESPACE_CLOSED),
            Some(object.spec.clone())
        );
        assert_eq!(last(reasons::INVALID_SPEC), None);
    }
}
