//! Carries a deletion out; [`cleanup`] decides.

use std::time::Duration;

use crds::v1alpha1::ReportsServer;
use kube::{ResourceExt, runtime::controller::Action};
use tracing::info;

use super::{
    Context, Error, apply, build, cleanup, control_api_name, dereference, finalizer, forward,
    moving::{self, Attended},
    owner, postgres, registered, report,
    status::State,
    upgrade,
    validate::{self, Facts, Validated},
};
use crate::database::managed::Managed;

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
            let control = control_available(ctx);
            let targets =
                cleanup::targets(&ctx.client, object, &restore, &registered, control).await;
            ctx.supervisor.ensure(&owner(object), targets);
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
    let namespace = dereference::namespace(&ctx.client, &object.spec.target_namespace).await?;
    let cluster_uid = dereference::cluster_uid(&ctx.client).await?;
    let facts = Facts {
        namespace,
        claims: &[],
        default_image: &ctx.server_image,
        default_postgres_image: &ctx.postgres_image,
        cluster_uid: &cluster_uid,
    };
    let spec =
        validate::validate(object, &facts).map_err(|refusal| Error::Orphan(refusal.message))?;
    let spec = forward::meet(&spec, &ctx.client)
        .await?
        .map_err(|refusal| Error::Orphan(refusal.message))?;
    upgrade::clear(&ctx.client, &spec).await?;
    // Nobody would bring it to its end.
    let upgrading = |managed: &Managed| managed.upgrade.is_some() || managed.present.stopped;
    if spec.managed().is_some_and(upgrading) {
        return Err(Error::Orphan(
            "the database is being brought to another major version; set \
             spec.database.managed.version back to have it serve as before"
                .to_owned(),
        ));
    }
    let material = dereference::material(&ctx.client, &spec).await?;
    let mut spec = Validated {
        owner: None,
        ..spec
    };
    postgres::reach(&ctx.client, object, &mut spec).await?;
    // A server that has the reports in its pod still keeps them there.
    if let Attended::Refused(refusal) = moving::attend(&ctx.client, object, &mut spec, None).await?
    {
        return Err(Error::Orphan(refusal.message));
    }
    let children = build::build(&spec, &material, &ctx.operator);
    Box::pin(apply::apply(&ctx.client, children)).await?;
    Ok(())
}

fn control_available(ctx: &Context) -> bool {
    let found = ctx
        .api_services
        .find(|object| object.name_any() == control_api_name());
    found.is_some_and(|object| crate::apiservice::is_available(&object))
}
