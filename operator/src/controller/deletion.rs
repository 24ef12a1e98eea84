//! Carries a deletion out; [`cleanup`] decides.

use std::time::Duration;

use crds::v1alpha1::{ReportsServer, reasons};
use kube::runtime::controller::Action;
use kube::runtime::events::{Event, EventType};
use kube::{Resource, ResourceExt};
use tracing::info;

use super::context::{is_control_available, owner};
use super::found::Dereferenced;
use super::report::report;
use super::status::{self, State};
use super::upkeep::{self, Kept};
use super::validate::{self, Validated};
use super::{Context, Error, apply, build, cleanup, dereference, finalizer};
use crate::events;
use crate::names::Names;

/// Time between two looks whether the groups are back.
const RESYNC: Duration = Duration::from_secs(15);
/// Time between two looks whether a switch has come to its end.
const FINISHING: Duration = Duration::from_secs(2);

/// Gives the groups back and lets the object go.
pub async fn delete(object: &ReportsServer, ctx: &Context) -> Result<Action, Error> {
    let name = object.name_any();
    let registered = dereference::registered(object, ctx);
    let groups = ctx.supervisor.status(&name);
    let plan = if finalizer::is_set(object) {
        let target = &object.spec.target_namespace;
        let namespace = dereference::state_of_namespace(&ctx.client, target).await?;
        cleanup::plan(object, namespace, &registered, &groups)
    } else {
        cleanup::Plan::LetGo
    };
    match plan {
        cleanup::Plan::Restore(restore) => {
            let (kept, failed) = Box::pin(keep_up(object, ctx)).await;
            let bundle = kept.as_ref().map(Kept::ca_bundle);
            let bundle = bundle.filter(|bundle| !bundle.is_empty());
            let control = is_control_available(ctx);
            let (client, registered) = (&ctx.client, &registered);
            let targets =
                cleanup::targets(client, object, &restore, registered, bundle, control).await;
            // The way back goes on, whatever could not be kept.
            ctx.supervisor.ensure(&owner(object), targets);
            if let Some(error) = failed {
                return Err(error);
            }
            let found = kept.as_ref().map(Kept::parts);
            report(object, ctx, &State::Deleting { found }).await?;
            return Ok(Action::requeue(RESYNC));
        }
        cleanup::Plan::Finish => {
            let (kept, failed) = Box::pin(keep_up(object, ctx)).await;
            if let Some(kept) = &kept {
                ctx.supervisor.ensure(&owner(object), kept.resting());
            }
            if let Some(error) = failed {
                return Err(error);
            }
            if let Some(kept) = &kept {
                // What the status tells of a group holds until this process has looked at it.
                if status::seen(&ctx.supervisor.status(&name)) {
                    let found = Some(kept.parts());
                    report(object, ctx, &State::Deleting { found }).await?;
                }
                return Ok(Action::requeue(FINISHING));
            }
            // Nothing is there that could hold a request.
            Box::pin(cut_loose(object, ctx)).await?;
        }
        cleanup::Plan::Orphan => {
            Box::pin(cut_loose(object, ctx)).await?;
            // Meanwhile a switch may have begun, and requests wait for it.
            if cleanup::is_busy(object, &ctx.supervisor.status(&name)) {
                return Ok(Action::requeue(FINISHING));
            }
        }
        cleanup::Plan::GiveUp => give_up(object, ctx).await?,
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

/// Keeps what the groups need on their way. Returns what could be kept, beside the error where not all
/// of it could.
async fn keep_up(object: &ReportsServer, ctx: &Context) -> (Option<Kept>, Option<Error>) {
    match Box::pin(upkeep::stay(object, ctx)).await {
        Ok(kept) => (kept, None),
        Err(error) => (Box::pin(upkeep::rescue(object, ctx)).await, Some(error)),
    }
}

/// Gives the APIs of a server that is gone for good back as they are, and tells what that means.
async fn give_up(object: &ReportsServer, ctx: &Context) -> Result<(), Error> {
    let name = object.name_any();
    // A task that still runs would wait for the server, and must not take an API back.
    ctx.supervisor.forget(&name);
    let namespace = &object.spec.target_namespace;
    let service = dereference::service_ref(namespace, Names::new(&name).server());
    let mut released = apply::release(&ctx.client, &service).await?;
    // Nobody but the operator asks the control API.
    released.retain(|name| *name != build::control_api_name());
    if released.is_empty() {
        return Ok(());
    }
    let note = given_up(namespace, &released);
    let event = Event {
        action: "GiveUp".to_owned(),
        ..events::event(EventType::Warning, reasons::TARGET_NAMESPACE_MISSING, &note)
    };
    events::publish(&ctx.publisher, &object.object_ref(&()), vec![event]).await;
    Ok(())
}

/// Returns what is told about APIs that were given back without their server.
fn given_up(namespace: &str, released: &[String]) -> String {
    format!(
        "namespace {namespace} was deleted, and the server with it: {} no longer lead to it; their \
         CRDs serve what etcd has. Reports written since the switch, and those pruned from etcd, are \
         only in the database or its backups, if these still exist (docs/install.md)",
        released.join(", ")
    )
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

/// Applies the children as they are. An upgrade of the database is given up: it would end after
/// the object.
async fn keep(found: &Dereferenced, spec: &Validated, ctx: &Context) -> Result<(), Error> {
    apply::prepare(&ctx.client, spec).await?;
    let children = build::build(spec, &found.inside.material, &ctx.operator);
    Box::pin(apply::apply(&ctx.client, Box::new(children))).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::given_up;

    #[test]
    fn what_is_given_up_is_named_with_what_it_costs() {
        let told = given_up(
            "target",
            &["v1.a.example".to_owned(), "v1.b.example".to_owned()],
        );
        assert!(told.starts_with("namespace target was deleted"), "{told}");
        assert!(told.contains("v1.a.example, v1.b.example"), "{told}");
        assert!(told.contains("only in the database"), "{told}");
    }
}
