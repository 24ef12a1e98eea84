//! What goes on where the specification is not carried out, because it is refused or suspended.
//! Clients depend on the server all the same: its certificates are renewed, what leads to it is put
//! right, and the status tells how it is.

use std::time::Duration;

use crds::v1alpha1::ReportsServer;
use crds::v1alpha1::status::MigrationPhase;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};

use super::context::{RESYNC, owner, registered, report};
use super::forward::{self, Outcome};
use super::found::Found;
use super::resolve::resolve;
use super::status::State;
use super::targets::{self, Serving};
use super::validate::{Refusal, Validated};
use super::{Context, Error, apply, build, dereference, workload};
use crate::migration::{GroupStatus, Phase};
use crate::{certs, events};

/// How often a suspended switch is looked at until it has come to its end.
const FINISHING: Duration = Duration::from_secs(5);

/// How often it is looked whether what stands in the cluster against a specification has gone.
const STANDING: Duration = Duration::from_secs(15);

/// Leaves everything as it is but for what clients depend on. A switch under way is brought to its
/// end first, also where another operator began it: between two of its steps requests are held.
pub async fn suspend(
    object: &ReportsServer,
    spec: &Validated,
    ctx: &Context,
) -> Result<Action, Error> {
    let found = Box::pin(keep(object, spec, true, ctx)).await?;
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

/// Tells that the specification is refused, and carries the last one out that was not. `valid` is
/// what is refused, where only the cluster stands against it.
pub async fn refuse(
    object: &ReportsServer,
    refusal: &Refusal,
    valid: Option<&Validated>,
    ctx: &Context,
) -> Result<Action, Error> {
    let last = last_valid(object, ctx).await?;
    let again = if valid.is_some() { STANDING } else { RESYNC };
    if let Some((object, spec)) = &last
        && object.spec.suspend != Some(true)
    {
        let carried_out = Box::pin(forward::carry_out(object, spec, Some(refusal), ctx)).await?;
        if let Outcome::Done(resync) = carried_out {
            return Ok(Action::requeue(resync.min(again)));
        }
    }
    let spec = last.as_ref().map(|(_, spec)| spec).or(valid);
    let found = match spec {
        Some(spec) => Box::pin(keep(object, spec, object.spec.suspend == Some(true), ctx)).await?,
        None => None,
    };
    let state = State::Refused {
        refusal,
        found: spec.zip(found.as_ref()),
    };
    report(object, ctx, &state).await?;
    Ok(Action::requeue(due(found.as_ref(), again)))
}

/// Returns the object with the specification that was carried out last, where that is another one
/// and still possible.
async fn last_valid(
    object: &ReportsServer,
    ctx: &Context,
) -> Result<Option<(ReportsServer, Validated)>, Error> {
    let mut spec = match dereference::accepted(&ctx.client, object).await {
        Ok(Some(spec)) => spec,
        Ok(None) => return Ok(None),
        // Nothing was ever carried out in that namespace.
        Err(error) if error.is_forbidden() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    spec.suspend = object.spec.suspend;
    if spec == object.spec {
        return Ok(None);
    }
    let last = ReportsServer {
        spec,
        ..object.clone()
    };
    let valid = resolve(&last, ctx).await?.ok();
    Ok(valid.map(|valid| (last, valid)))
}

/// Keeps what clients depend on, and looks how the server is; nothing where there is none yet.
async fn keep(
    object: &ReportsServer,
    spec: &Validated,
    suspended: bool,
    ctx: &Context,
) -> Result<Option<Found>, Error> {
    ctx.watches.ensure(&spec.names, &spec.namespace);
    let registered = registered(object, ctx);
    let deployment = dereference::deployment(&ctx.client, spec).await?;
    let found = if deployment.is_none() && registered.is_empty() {
        None
    } else {
        let published: Vec<Vec<u8>> = registered.into_iter().map(|r| r.ca_bundle).collect();
        Some(Box::pin(renew(object, spec, deployment, &published, ctx)).await?)
    };
    let server = found.as_ref().map(serving).unwrap_or_default();
    let targets = targets::targets(spec, &server, suspended);
    ctx.supervisor.ensure(&owner(object), targets);
    Ok(found)
}

async fn renew(
    object: &ReportsServer,
    spec: &Validated,
    deployment: Option<Deployment>,
    published: &[Vec<u8>],
    ctx: &Context,
) -> Result<Found, Error> {
    let material = dereference::material(&ctx.client, spec).await?;
    let name = spec.names.instance();
    let certs = certs::reconcile(name, Timestamp::now(), material, published, &spec.certs)?;
    let children = build::build(spec, &certs.material, &ctx.operator);
    let control_api = apply::keep(&ctx.client, &children).await?;
    let about = object.object_ref(&());
    events::publish(&ctx.publisher, &about, events::certificates(&certs.moves)).await;
    let pods = match &deployment {
        Some(deployment) => apply::pods_in_trouble(&ctx.client, deployment).await?,
        None => Vec::new(),
    };
    let stateful_set = if spec.is_managed() {
        dereference::stateful_set(&ctx.client, spec).await?
    } else {
        None
    };
    Ok(Found {
        deployment,
        pods,
        stateful_set,
        control_api,
        certs,
    })
}

fn serving(found: &Found) -> Serving {
    Serving {
        ready: found.deployment.as_ref().is_some_and(workload::is_serving),
        control_available: crate::apiservice::is_available(&found.control_api),
        ca_bundle: found.certs.material.bundle().into_bytes(),
    }
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
        Phase::Switching | Phase::RollingBack => true,
        Phase::Pending => matches!(
            told(),
            Some(MigrationPhase::Switching | MigrationPhase::RollingBack)
        ),
        _ => false,
    }
}
