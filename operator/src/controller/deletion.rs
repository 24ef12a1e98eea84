//! Carries a deletion out; [`cleanup`] decides.

use std::time::Duration;

use crds::v1alpha1::ReportsServer;
use kube::ResourceExt;
use kube::runtime::controller::Action;
use tracing::info;

use super::context::{is_control_available, owner};
use super::found::Dereferenced;
use super::report::report;
use super::status::State;
use super::validate::{self, Validated};
use super::{Context, Error, apply, build, cleanup, dereference, finalizer};

/// How often it is looked whether the groups are back.
const RESYNC: Duration = Duration::from_secs(15);

/// Gives the groups back and lets the object go.
pub async fn delete(object: &ReportsServer, ctx: &Context) -> Result<Action, Error> {
    let name = object.name_any();
    let registered = dereference::registered(object, ctx);
    let groups = ctx.supervisor.status(&name);
    let plan = if finalizer::is_set(object) {
        cleanup::plan(object, &registered, &groups)
    } else {
        cleanup::Plan::LetGo
    };
    match plan {
        cleanup::Plan::Restore(restore) => {
            let control = is_control_available(ctx);
            let targets =
                cleanup::targets(&ctx.client, object, &restore, &registered, control).await;
            ctx.supervisor.ensure(&owner(object), targets);
            start_database(object, ctx).await?;
            report(object, ctx, &State::Deleting).await?;
            return Ok(Action::requeue(RESYNC));
        }
        cleanup::Plan::Orphan => Box::pin(cut_loose(object, ctx)).await?,
        cleanup::Plan::LetGo => {
            let uid = object.uid().unwrap_or_default();
            apply::remove_control_api(&ctx.client, &uid).await?;
        }
    }
    ctx.forget(&name);
    finalizer::set(&ctx.client, object, false).await?;
    info!(name, "removed the finalizer");
    Ok(Action::await_change())
}

/// Applies the children without an owner, so that they stay when the object is gone.
async fn cut_loose(object: &ReportsServer, ctx: &Context) -> Result<(), Error> {
    let found = dereference::dereference(object, ctx).await?;
    let spec = validate::validate(object, &found);
    let spec = spec.map_err(|refused| Error::Orphan(refused.refusal.message))?;
    let spec = Validated {
        owner: None,
        ..spec
    };
    Box::pin(keep(&found, &spec, ctx)).await?;
    if spec
        .managed()
        .is_some_and(|managed| managed.present.stopped)
    {
        // Nobody would start it.
        return Err(Error::Orphan(
            "the upgrade of the database is abandoned; the operator tries again when the old \
             database serves"
                .to_owned(),
        ));
    }
    Ok(())
}

/// The reports are read from the database on their way back: where an upgrade has stopped it, the
/// upgrade is given up.
async fn start_database(object: &ReportsServer, ctx: &Context) -> Result<(), Error> {
    let found = dereference::dereference(object, ctx).await?;
    if !found.inside.has_stopped_database() {
        return Ok(());
    }
    let spec = validate::validate(object, &found);
    let spec = spec.map_err(|refused| Error::GiveBack(refused.refusal.message))?;
    Box::pin(keep(&found, &spec, ctx)).await
}

/// Applies the children as they are. An upgrade of the database is given up: it would end after
/// the object.
async fn keep(found: &Dereferenced, spec: &Validated, ctx: &Context) -> Result<(), Error> {
    apply::prepare(&ctx.client, spec).await?;
    let children = build::build(spec, &found.inside.material, &ctx.operator);
    Box::pin(apply::apply(&ctx.client, children)).await?;
    Ok(())
}
