//! Reconciles `ReportsServer`: dereference, validate, build, apply, status.
//!
//! The order of a reconciliation stands in [`reconcile`]; every decision is in a function without
//! a client, every request in one without decisions.

mod accepted;
mod apply;
mod build;
mod cached;
mod cleanup;
mod context;
mod deletion;
mod dereference;
mod error;
mod finalizer;
#[cfg(test)]
pub(crate) mod fixtures;
mod forward;
mod found;
mod lost;
mod ownership;
mod report;
mod run;
mod status;
mod targets;
#[cfg(test)]
mod tests;
mod upgrade;
mod upkeep;
mod validate;
mod watches;
mod workload;

use std::sync::Arc;

use crds::v1alpha1::{ReportsServer, reasons};
use kube::core::DeserializeGuard;
use kube::runtime::controller::Action;
use kube::runtime::events::EventType;
use kube::{Resource, ResourceExt};
use tracing::warn;

use self::cached::Cached;
use self::deletion::Failure;
use self::forward::Outcome;
use self::report::report;
use self::status::State;
use self::upkeep::Kept;
use self::validate::Refused;
use crate::refusals::Meaning;
use crate::{events, spans};

#[cfg(test)]
pub(crate) use build::config_reader_rules;
pub use build::{ServiceAccountRef, control_api_name, data_metadata};
pub use context::Context;
pub use error::Error;
pub use run::{Settings, run};
pub use validate::Validated;

/// One reconciliation. What goes wrong is told in the status before it is tried again.
async fn reconcile(
    object: Arc<DeserializeGuard<ReportsServer>>,
    ctx: Arc<Context>,
) -> Result<Action, Error> {
    // Neither is known when the process is about to end.
    let mut cached = ctx.cached.clone();
    if cached.wait_for(Cached::is_known).await.is_err() {
        return Ok(Action::await_change());
    }
    // A status is written as the CRD in the cluster takes it.
    let mut installed = ctx.installed.clone();
    if installed.wait_for(|crd| crd.is_known()).await.is_err() {
        return Ok(Action::await_change());
    }
    let _measurement = ctx.metrics.measure();
    let object = match &object.0 {
        Ok(object) => object,
        Err(invalid) => {
            let name = invalid.metadata.name.clone().unwrap_or_default();
            let error = invalid.error.clone();
            return Err(Error::Unreadable { name, error });
        }
    };
    spans::reconciliation(&object.name_any(), Box::pin(told(object, &ctx))).await
}

/// Tries to reconcile, and tells in the status what goes wrong.
async fn told(object: &ReportsServer, ctx: &Context) -> Result<Action, Error> {
    let (result, kept) = match Box::pin(attempt(object, ctx)).await {
        Ok(action) => (Ok(action), None),
        Err(failure) => {
            let Failure { error, kept } = *failure;
            (Err(error), kept)
        }
    };
    let refusal = refusal(object, &result, ctx);
    if let Err(error) = &result
        && !error.is_conflict()
    {
        let kept = if kept.is_none() && can_be_rescued(object, error, ctx) {
            Box::pin(upkeep::rescue(object, ctx)).await
        } else {
            kept
        };
        if let Some(kept) = &kept {
            let name = object.name_any();
            ctx.supervisor.trust(&name, &kept.ca_bundle());
        }
        let found = kept.as_ref().map(Kept::parts);
        let failed = State::failed(error.to_string(), refusal, found);
        report(object, ctx, &failed).await?;
    }
    result
}

/// Returns whether what clients depend on can be kept after an error: neither a child that cannot be
/// applied, nor something that cannot be read, nor a cache that is no longer kept up is a reason to let
/// certificates run out. A deletion has kept already what it can, once it has begun.
fn can_be_rescued(object: &ReportsServer, error: &Error, ctx: &Context) -> bool {
    let stays = object.meta().deletion_timestamp.is_none();
    match error {
        Error::Apply(_) | Error::Dereference(_) => stays,
        Error::ApiServices(_) => {
            (stays || finalizer::is_set(object)) && ctx.cached.borrow().is_filled()
        }
        _ => false,
    }
}

/// Returns the meaning of a refusal, where the reconciliation ended with one.
fn refusal(
    object: &ReportsServer,
    result: &Result<Action, Error>,
    ctx: &Context,
) -> Option<Meaning> {
    let name = object.name_any();
    if !result.as_ref().is_err_and(Error::is_forbidden) {
        ctx.ended(&name);
        return None;
    }
    let meaning = ctx.refused(&name);
    // An operator that has just started does not take back what another one has found.
    Some(if status::tells_forbidden(object) {
        Meaning::Missing
    } else {
        meaning
    })
}

async fn attempt(object: &ReportsServer, ctx: &Context) -> Result<Action, Box<Failure>> {
    let refused = ctx.cached.borrow().refusal().map(str::to_owned);
    if let Some(said) = refused {
        return Err(Error::ApiServices(said).into());
    }
    if object.meta().deletion_timestamp.is_some() {
        return Box::pin(deletion::delete(object, ctx)).await;
    }
    Ok(Box::pin(carry_out(object, ctx)).await?)
}

/// Carries the specification out, or keeps what can be kept of it.
async fn carry_out(object: &ReportsServer, ctx: &Context) -> Result<Action, Error> {
    // dereference (client required)
    let found = spans::part(
        "dereference",
        Box::pin(dereference::dereference(object, ctx)),
    )
    .await?;
    // validate (no client required)
    let valid = spans::pure_part("validate", || validate::validate(object, &found));
    let spec = match valid {
        Ok(spec) => spec,
        Err(refused) => return Box::pin(upkeep::refuse(object, &found, &refused, ctx)).await,
    };
    let (asked, in_force) = (object, found.in_force(object));
    let object = &*in_force;
    // Between two steps of an upgrade there is no database: it is brought to its end first.
    if object.spec.suspend == Some(true) && !found.inside.has_stopped_database() {
        return Box::pin(upkeep::suspend(object, &found, &spec, ctx)).await;
    }
    // build, apply, status
    match Box::pin(forward::carry_out(object, &found, &spec, None, ctx)).await? {
        Outcome::Done(resync) => Ok(Action::requeue(resync)),
        Outcome::Refused(refusal) => {
            let spec = Some(Box::new(spec));
            let refused = Refused { refusal, spec };
            Box::pin(upkeep::refuse(asked, &found, &refused, ctx)).await
        }
    }
}

/// Returns what follows an error: it is counted, logged and, except for an object that only its
/// author can mend, tried again.
#[allow(
    clippy::needless_pass_by_value,
    reason = "the signature that Controller::run asks for"
)]
fn error_policy(
    object: Arc<DeserializeGuard<ReportsServer>>,
    error: &Error,
    ctx: Arc<Context>,
) -> Action {
    let name = object.name_any();
    ctx.metrics.failed(error.category());
    warn!(name, category = error.category(), %error, "reconciliation failed");
    if let Error::Unreadable { .. } = error {
        let (publisher, about) = (ctx.publisher.clone(), object.object_ref(&()));
        let event = events::event(
            EventType::Warning,
            reasons::INVALID_SPEC,
            &error.to_string(),
        );
        tokio::spawn(async move { events::publish(&publisher, &about, vec![event]).await });
        return Action::await_change();
    }
    let pause = ctx.pause(&name).unwrap_or_else(|| error.retry_after());
    Action::requeue(pause)
}
