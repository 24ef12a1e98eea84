//! Carries a deletion out; [`cleanup`] decides.

use std::time::Duration;

use crds::v1alpha1::ReportsServer;
use kube::ResourceExt;
use kube::runtime::controller::Action;
use tracing::info;

use super::context::{is_control_available, owner, registered, report};
use super::moving::{self, Reconciled};
use super::status::State;
use super::validate::{self, Facts, Refusal, Validated};
use super::{
    Context, Error, apply, build, cleanup, dereference, finalizer, forward, postgres, targets,
    upgrade,
};

/// How often it is looked whether the groups are back.
const RESYNC: Duration = Duration::from_secs(15);

/// Gives the groups back and lets the object go.
pub async fn delete(object: &ReportsServer, ctx: &Context) -> Result<Action, Error> {
    let name = object.name_any();
    let registered = registered(object, ctx);
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
        cleanup::Plan::Orphan => cut_loose(object, ctx).await?,
        cleanup::Plan::LetGo => {
            let uid = object.uid().unwrap_or_default();
            apply::remove_control_api(&ctx.client, &uid).await?;
        }
    }
    ctx.forget(&name);
    finalizer::set(&ctx.client, object, false).await?;
    info!(name, "let go");
    Ok(Action::await_change())
}

/// Applies the children without an owner, so that they stay when the object is gone.
async fn cut_loose(object: &ReportsServer, ctx: &Context) -> Result<(), Error> {
    let spec = resolve(object, ctx).await?;
    let spec = spec.map_err(|refusal| Error::Orphan(refusal.message))?;
    let spec = Validated {
        owner: None,
        ..spec
    };
    let kept = Box::pin(keep(object, spec, ctx)).await?;
    match kept.map_err(|refusal| Error::Orphan(refusal.message))? {
        Kept::Whole => Ok(()),
        // Nobody would start it.
        Kept::Stopped => Err(Error::Orphan(
            "the upgrade of the database is given up; it is tried again when the database serves \
             as before"
                .to_owned(),
        )),
    }
}

/// The reports are read from the database on their way back: where an upgrade has stopped it, the
/// upgrade is given up.
async fn start_database(object: &ReportsServer, ctx: &Context) -> Result<(), Error> {
    // What cannot be carried out has not stopped a database.
    let Ok(spec) = resolve(object, ctx).await? else {
        return Ok(());
    };
    if upgrade::has_stopped(&ctx.client, &spec).await? {
        let kept = Box::pin(keep(object, spec, ctx)).await?;
        kept.map_err(|refusal| Error::GiveBack(refusal.message))?;
    }
    Ok(())
}

async fn resolve(
    object: &ReportsServer,
    ctx: &Context,
) -> Result<Result<Validated, Refusal>, Error> {
    let namespace = dereference::namespace(&ctx.client, &object.spec.target_namespace).await?;
    let cluster_uid = dereference::cluster_uid(&ctx.client).await?;
    let groups = ctx.supervisor.status(&object.name_any());
    let facts = Facts {
        namespace,
        claims: &[],
        default_image: &ctx.server_image,
        default_postgres_image: &ctx.postgres_image,
        cluster_uid: &cluster_uid,
        dropped: &targets::dropped(object, &registered(object, ctx), &groups),
    };
    Ok(validate::validate(object, &facts))
}

/// How the children are left behind.
enum Kept {
    /// They serve.
    Whole,
    /// The database waits for what is left of an upgrade.
    Stopped,
}

/// Applies the children as they are. An upgrade of the database is given up: it would end after
/// the object.
async fn keep(
    object: &ReportsServer,
    spec: Validated,
    ctx: &Context,
) -> Result<Result<Kept, Refusal>, Error> {
    let mut spec = match forward::with_database(&spec.staying(), &ctx.client).await? {
        Ok(spec) => spec,
        Err(refusal) => return Ok(Err(refusal)),
    };
    upgrade::clear(&ctx.client, &spec).await?;
    let material = dereference::material(&ctx.client, &spec).await?;
    postgres::reach(&ctx.client, object, &mut spec).await?;
    // A server that has the reports in its pod still keeps them there.
    if let Reconciled::Refused(refusal) =
        moving::reconcile(&ctx.client, object, &mut spec, None).await?
    {
        return Ok(Err(refusal));
    }
    let children = build::build(&spec, &material, &ctx.operator);
    Box::pin(apply::apply(&ctx.client, children)).await?;
    let managed = spec.managed();
    let stopped = managed.is_some_and(|managed| managed.present.stopped);
    Ok(Ok(if stopped { Kept::Stopped } else { Kept::Whole }))
}
