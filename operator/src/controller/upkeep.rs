//! The work that goes on where the specification is not carried out, because it is refused or
//! suspended. Clients depend on the server all the same: its certificates are renewed, what leads
//! to it is put right, and the status tells how it is.

use std::time::Duration;

use crds::v1alpha1::status::MigrationPhase;
use crds::v1alpha1::{ReportsServer, reasons};
use jiff::Timestamp;
use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};

use super::context::{RESYNC, owner};
use super::forward::{self, Outcome};
use super::found::{Dereferenced, Found};
use super::report::report;
use super::status::State;
use super::targets::{self, Serving};
use super::validate::{self, Refusal, Refused, Validated};
use super::{Context, Error, apply, build, dereference};
use crate::events;
use crate::migration::GroupStatus;

/// Time between two looks at a suspended switch until it has come to its end.
const FINISHING: Duration = Duration::from_secs(5);

/// Time between two looks whether what stands in the cluster against a specification has gone.
const STANDING: Duration = Duration::from_secs(15);

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

async fn renew(
    object: &ReportsServer,
    read: &Dereferenced,
    spec: &Validated,
    ctx: &Context,
) -> Result<Found, Error> {
    let certs = forward::certify(read, spec)?;
    let children = build::build(spec, &certs.material, &ctx.operator);
    let control_api = apply::keep(&ctx.client, spec, &children).await?;
    let about = object.object_ref(&());
    events::publish(&ctx.publisher, &about, events::certificates(&certs)).await;
    let deployment = read.inside.deployment.clone();
    let pods = match &deployment {
        Some(deployment) => apply::pods_in_trouble(&ctx.client, deployment).await?,
        None => Vec::new(),
    };
    Ok(Found {
        deployment,
        pods,
        stateful_set: read.inside.stateful_set.clone(),
        control_api,
        certs,
    })
}

fn serving(found: &Found) -> Serving {
    let (deployment, control_api) = (found.deployment.as_ref(), &found.control_api);
    Serving::of(deployment, control_api, &found.certs.material)
}

/// Returns when to look again at the latest.
fn due(found: Option<&Found>, resync: Duration) -> Duration {
    let next = found.map(|found| found.certs.next.duration_since(Timestamp::now()));
    let next = next.map(|next| Duration::try_from(next).unwrap_or_default());
    next.map_or(resync, |next| next.clamp(Duration::from_secs(1), resync))
}

/// Returns whether a group is between two steps of a switch; of one that this process has not
/// looked at yet the status tells.
fn is_under_way(object: &ReportsServer, group: &GroupStatus) -> bool {
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
