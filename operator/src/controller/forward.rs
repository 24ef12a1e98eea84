//! Carries a valid specification out.

use std::sync::PoisonError;
use std::time::Duration;

use crds::v1alpha1::ReportsServer;
use jiff::Timestamp;
use kube::{Client, Resource};
use tracing::info;

use super::apply::{self, Applied};
use super::build::{self, Children, Kept};
use super::context::{RESYNC, owner, registered, report};
use super::moving::{self, Reconciled};
use super::status::State;
use super::targets::{self, Serving};
use super::validate::{Refusal, Validated};
use super::{Context, Error, dereference, finalizer, postgres, upgrade, workload};
use crate::database::managed::Managed;
use crate::migration::{self, Phase};
use crate::{certs, events};

/// How often pods are looked at while they start, or bring a database to another major version.
const STARTING_RESYNC: Duration = Duration::from_secs(5);

/// How far a specification was carried out.
pub enum Outcome {
    /// Wholly; when to look again at the latest.
    Done(Duration),
    /// The cluster stands against it.
    Refused(Refusal),
}

/// Builds and applies the children, hands the groups to the migration, writes the status. `refusal`
/// tells that it is done in place of a later specification, and why.
pub async fn carry_out(
    object: &ReportsServer,
    spec: &Validated,
    refusal: Option<&Refusal>,
    ctx: &Context,
) -> Result<Outcome, Error> {
    let now = Timestamp::now();
    // dereference what lies in the target namespace (client required)
    let material = match dereference::material(&ctx.client, spec).await {
        Err(error) if error.is_forbidden() => {
            apply::gain_access(&ctx.client, spec, &ctx.operator).await?;
            dereference::material(&ctx.client, spec).await?
        }
        read => read?,
    };
    let spec = match with_database(spec, &ctx.client).await? {
        Ok(spec) => spec,
        Err(refusal) => return Ok(Outcome::Refused(refusal)),
    };
    let spec = &spec;
    upgrade::clear(&ctx.client, spec).await?;
    // Before the new volume takes its first write.
    upgrade::retire(&ctx.client, spec).await?;
    ctx.watches.ensure(&spec.names, &spec.namespace);
    let mut spec = spec.clone();
    let database = postgres::reconcile(object, &mut spec, ctx).await?;
    let moved = moving::reconcile(&ctx.client, object, &mut spec, database.as_ref()).await?;
    let busy = match moved {
        Reconciled::GoOn { busy } => busy,
        Reconciled::Refused(refusal) => return Ok(Outcome::Refused(refusal)),
    };
    let spec = &spec;
    // build (no client required)
    let registered = registered(object, ctx);
    let published: Vec<Vec<u8>> = registered.iter().map(|r| r.ca_bundle.clone()).collect();
    let name = spec.names.instance();
    let certs = certs::reconcile(name, now, material, &published, &spec.certs)?;
    let children = build::build(spec, &certs.material, &ctx.operator);
    let kept = children.kept();
    // apply (client required)
    let applied = match Box::pin(try_apply(object, children, ctx)).await {
        Ok(applied) => applied,
        Err(error) => match error.refused() {
            Some(refusal) => return Ok(Outcome::Refused(refusal)),
            None => return Err(error),
        },
    };
    sweep(object, spec, &kept, ctx).await?;
    let about = object.object_ref(&());
    events::publish(&ctx.publisher, &about, events::certificates(&certs.moves)).await;
    // The finalizer comes before the first group is touched, and goes after the last is back.
    let server = Serving {
        ready: workload::is_serving(&applied.deployment),
        control_available: crate::apiservice::is_available(&applied.control_api),
        ca_bundle: certs.material.bundle().into_bytes(),
    };
    let groups = ctx.supervisor.status(name);
    let targets = targets::targets(spec, &server, false);
    let held = targets
        .iter()
        .any(|target| target.owner == migration::ApiOwner::Server)
        || registered
            .iter()
            .any(|registered| registered.group != crds::control::GROUP)
        || groups.iter().any(|group| group.phase == Phase::RollingBack);
    finalizer::set(&ctx.client, object, held).await?;
    ctx.supervisor.ensure(&owner(object), targets);
    // status (client required)
    report(
        object,
        ctx,
        &State::Applied {
            spec,
            refusal,
            applied: &applied,
            certs: &certs,
            database: database.as_ref(),
        },
    )
    .await?;
    let due = certs.next.duration_since(now);
    let due = Duration::try_from(due).unwrap_or_default();
    let database = applied.managed.as_ref();
    let database = database.is_none_or(|m| workload::is_database_ready(&m.stateful_set));
    let upgrading = spec.managed().is_some_and(Managed::is_upgrading);
    let resync = if busy {
        moving::RESYNC
    } else if database && !upgrading && workload::is_ready(&applied.deployment) {
        RESYNC
    } else {
        STARTING_RESYNC
    };
    Ok(Outcome::Done(due.clamp(Duration::from_secs(1), resync)))
}

/// Applies the children. Those of a specification that was not carried out yet are tried before, so
/// that all of them are applied or none.
async fn try_apply(
    object: &ReportsServer,
    children: Children,
    ctx: &Context,
) -> Result<Applied, Error> {
    let accepted = dereference::accepted(&ctx.client, object).await?;
    if accepted.as_ref() != Some(&object.spec) {
        apply::probe(&ctx.client, &children).await?;
    }
    Ok(Box::pin(apply::apply(&ctx.client, children)).await?)
}

/// Returns what is wanted, with what the namespace holds of a managed database.
pub async fn with_database(
    spec: &Validated,
    client: &Client,
) -> Result<Result<Validated, Refusal>, Error> {
    if !spec.is_managed() {
        return Ok(Ok(spec.clone()));
    }
    let known = dereference::known(client, spec).await?;
    let met = spec.clone().reconciled_with(known);
    if let Ok(copied) = &met
        && upgrade::commit(client, copied).await?
    {
        let known = dereference::known(client, spec).await?;
        return Ok(spec.clone().reconciled_with(known));
    }
    Ok(met)
}

/// Removes leftovers once a generation.
async fn sweep(
    object: &ReportsServer,
    spec: &Validated,
    kept: &Kept,
    ctx: &Context,
) -> Result<(), Error> {
    let generation = object.meta().generation;
    let swept = |ctx: &Context| {
        let swept = ctx.swept.lock().unwrap_or_else(PoisonError::into_inner);
        swept.get(&spec.uid) == Some(&generation)
    };
    if swept(ctx) {
        return Ok(());
    }
    let gone = apply::remove_orphans(&ctx.client, spec, kept).await?;
    if !gone.is_empty() {
        info!(
            name = spec.names.instance(),
            ?gone,
            "removed what is no longer needed"
        );
    }
    let mut swept = ctx.swept.lock().unwrap_or_else(PoisonError::into_inner);
    swept.insert(spec.uid.clone(), generation);
    Ok(())
}
