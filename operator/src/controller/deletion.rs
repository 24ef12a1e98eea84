//! Carries a deletion out; [`cleanup`] decides.

use std::collections::BTreeSet;
use std::time::Duration;

use crds::v1alpha1::{ReportsServer, reasons};
use kube::runtime::controller::Action;
use kube::runtime::events::{Event, EventType};
use kube::{Resource, ResourceExt};
use tracing::info;

use super::context::{is_control_available, owner};
use super::found::{Dereferenced, Registered};
use super::report::report;
use super::status::{self, State};
use super::upkeep::{self, Kept};
use super::validate::{self, Refusal, Validated};
use super::{Context, Error, accepted, apply, build, cleanup, dereference, finalizer};
use crate::events;
use crate::names::Names;

/// Time between two looks whether the groups are back.
const RESYNC: Duration = Duration::from_secs(15);
/// Time between two looks whether a switch has come to its end.
const FINISHING: Duration = Duration::from_secs(2);

/// A deletion that did not go on.
pub struct Failure {
    /// The reason.
    pub error: Error,
    /// The parts that are kept for clients all the same.
    pub kept: Option<Kept>,
}

impl From<Error> for Box<Failure> {
    fn from(error: Error) -> Self {
        Self::new(Failure { error, kept: None })
    }
}

/// Gives the groups back and lets the object go.
///
/// # Errors
/// If a step fails; what clients depend on is kept then.
pub async fn delete(object: &ReportsServer, ctx: &Context) -> Result<Action, Box<Failure>> {
    if ctx.is_gone(object) {
        return Ok(Action::await_change());
    }
    let registered = dereference::registered(object, ctx);
    let waits = match plan(object, &registered, ctx).await? {
        cleanup::Plan::Restore(restore) => {
            Some(Box::pin(give_back(object, &restore, &registered, ctx)).await?)
        }
        cleanup::Plan::Finish => Box::pin(finish(object, ctx)).await?,
        cleanup::Plan::Orphan => {
            Box::pin(orphan(object, ctx)).await?;
            // Meanwhile a switch may have begun, and requests wait for it.
            let groups = ctx.supervisor.status(&object.name_any());
            cleanup::is_busy(object, &groups).then_some(FINISHING)
        }
        cleanup::Plan::GiveUp => {
            give_up(object, ctx).await?;
            None
        }
        cleanup::Plan::LetGo => {
            let uid = object.uid().unwrap_or_default();
            let removed = apply::remove_control_api(&ctx.client, &uid).await;
            removed.map_err(Error::from)?;
            None
        }
    };
    if let Some(pause) = waits {
        return Ok(Action::requeue(pause));
    }
    let_go(object, ctx).await?;
    Ok(Action::await_change())
}

async fn plan(
    object: &ReportsServer,
    registered: &[Registered],
    ctx: &Context,
) -> Result<cleanup::Plan, Error> {
    if !finalizer::is_set(object) {
        return Ok(cleanup::Plan::LetGo);
    }
    let target = &object.spec.target_namespace;
    let namespace = dereference::state_of_namespace(&ctx.client, target).await?;
    let groups = ctx.supervisor.status(&object.name_any());
    Ok(cleanup::plan(object, namespace, registered, &groups))
}

/// Removes the finalizer, and whatever is remembered of the object.
async fn let_go(object: &ReportsServer, ctx: &Context) -> Result<(), Error> {
    let name = object.name_any();
    ctx.forget(&name);
    accepted::forget(&name, ctx).await;
    finalizer::set(&ctx.client, object, false).await?;
    ctx.note_end(object);
    info!(name, "removed the finalizer");
    Ok(())
}

/// Gives groups back to their CRDs. Returns when to look again.
async fn give_back(
    object: &ReportsServer,
    restore: &BTreeSet<String>,
    registered: &[Registered],
    ctx: &Context,
) -> Result<Duration, Box<Failure>> {
    let (kept, failed) = Box::pin(keep_up(object, ctx)).await;
    let bundle = kept.as_ref().map(Kept::ca_bundle);
    let bundle = bundle.filter(|bundle| !bundle.is_empty());
    let control = is_control_available(ctx);
    let client = &ctx.client;
    let targets = cleanup::targets(client, object, restore, registered, bundle, control).await;
    // The way back goes on, whatever could not be kept.
    ctx.supervisor.ensure(&owner(object), targets);
    if let Some(error) = failed {
        return Err(Box::new(Failure { error, kept }));
    }
    let found = kept.as_ref().map(Kept::parts);
    report(object, ctx, &State::Deleting { found }).await?;
    Ok(RESYNC)
}

/// Has a switch come to its end. Returns when to look again; nothing where there is no server any more.
async fn finish(object: &ReportsServer, ctx: &Context) -> Result<Option<Duration>, Box<Failure>> {
    let (kept, failed) = Box::pin(keep_up(object, ctx)).await;
    if let Some(kept) = &kept {
        ctx.supervisor.ensure(&owner(object), kept.resting());
    }
    if let Some(error) = failed {
        return Err(Box::new(Failure { error, kept }));
    }
    let Some(kept) = kept else {
        // Nothing is there that could hold a request.
        Box::pin(orphan(object, ctx)).await?;
        return Ok(None);
    };
    // What the status tells of a group holds until this process has looked at it.
    if status::seen(&ctx.supervisor.status(&object.name_any())) {
        let found = Some(kept.parts());
        report(object, ctx, &State::Deleting { found }).await?;
    }
    Ok(Some(FINISHING))
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

/// Cuts the children loose. Until that is done, the object stays and clients are served.
async fn orphan(object: &ReportsServer, ctx: &Context) -> Result<(), Box<Failure>> {
    match Box::pin(cut_loose(object, ctx)).await {
        Ok(()) => Ok(()),
        Err(error) => {
            let kept = Box::pin(upkeep::rescue(object, ctx)).await;
            Err(Box::new(Failure { error, kept }))
        }
    }
}

/// Applies the children without an owner, so that they stay when the object is gone: those of the last
/// specification that was carried out, where the present one is refused.
async fn cut_loose(object: &ReportsServer, ctx: &Context) -> Result<(), Error> {
    let found = dereference::dereference(object, ctx).await?;
    let Err(refusal) = Box::pin(loosened(object, &found, ctx)).await? else {
        return Ok(());
    };
    let last = Box::pin(upkeep::last_in_force(object, &found, &refusal, ctx)).await?;
    let Some((last, found)) = last else {
        return Err(Error::Orphan(refusal.message));
    };
    let loosened = Box::pin(loosened(&last, &found, ctx)).await?;
    loosened.map_err(|refusal| Error::Orphan(refusal.message))
}

/// Applies the children of a specification without an owner, unless it or a child is refused.
async fn loosened(
    object: &ReportsServer,
    found: &Dereferenced,
    ctx: &Context,
) -> Result<Result<(), Refusal>, Error> {
    let spec = match validate::validate(object, found) {
        Ok(spec) => spec,
        Err(refused) => return Ok(Err(refused.refusal)),
    };
    let spec = Validated {
        owner: None,
        ..spec
    };
    let in_force = found.in_force(object);
    if let Err(error) = Box::pin(keep(&in_force, found, &spec, ctx)).await {
        return error.refused().map(Err).ok_or(error);
    }
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
    Ok(Ok(()))
}

/// Applies the children as they are, all of them or none. Gives up an upgrade of the database, because
/// the object would be gone before the upgrade has ended.
async fn keep(
    object: &ReportsServer,
    found: &Dereferenced,
    spec: &Validated,
    ctx: &Context,
) -> Result<(), Error> {
    let children = Box::new(build::build(spec, &found.inside.material, &ctx.operator));
    if found.accepted.as_ref() != Some(&object.spec) {
        Box::pin(apply::probe(&ctx.client, &children)).await?;
    }
    apply::prepare(&ctx.client, spec).await?;
    Box::pin(apply::apply(&ctx.client, children)).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use crds::names::{FIELD_MANAGER, FINALIZER, LABEL_APP_MANAGED_BY, LABEL_OWNER};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::{Value, json};

    use super::*;
    use crate::controller::fixtures;
    use crate::names::ACCEPTED_KEY;
    use crate::testing::pair;

    /// Cuts the children of an object loose whose account does not exist. Returns the outcome, and the
    /// metadata of the Deployment.
    async fn cut_loose_with(accepted: Option<Value>) -> (Result<(), Error>, Option<Value>) {
        let object = fixtures::object(json!({"deletionPolicy": {"apis": "Orphan"},
            "server": {"serviceAccount": {"name": "missing"}}}));
        let (client, server) = pair();
        let path = "/configmaps/simple-server-accepted";
        let present = accepted.into_iter().map(|map| (path, map)).collect();
        let taken = fixtures::played(server, present, &[]);
        let outcome = Box::pin(cut_loose(&object, &fixtures::context(&client))).await;
        let taken = taken.lock().unwrap();
        let is_deployment = |(path, _): &&(String, Value)| path.contains("/deployments/");
        let deployment = taken.iter().find(is_deployment);
        let metadata = deployment.map(|(_, body)| body["metadata"].clone());
        (outcome, metadata)
    }

    #[tokio::test]
    async fn what_was_carried_out_last_stays_where_the_present_is_refused() {
        let accepted = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "simple-server-accepted", "namespace": "target",
                "labels": {LABEL_APP_MANAGED_BY: FIELD_MANAGER, LABEL_OWNER: "simple"},
                "ownerReferences": [{"apiVersion": "x/v1", "kind": "X", "name": "simple",
                    "uid": "uid-1"}]},
            "data": {ACCEPTED_KEY: json!({"targetNamespace": "target"}).to_string()}});
        let (outcome, metadata) = Box::pin(cut_loose_with(Some(accepted))).await;
        outcome.unwrap();
        let metadata = metadata.unwrap();
        assert_eq!(metadata["name"], "simple-server");
        assert_eq!(metadata["ownerReferences"], Value::Null);
        let (outcome, metadata) = Box::pin(cut_loose_with(None)).await;
        assert!(matches!(outcome, Err(Error::Orphan(_))), "{outcome:?}");
        assert_eq!(metadata, None);
    }

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

    /// Returns an object that is being deleted.
    fn leaving() -> ReportsServer {
        let mut object = fixtures::object(json!({}));
        object.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::now()));
        object.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
        object
    }

    /// The cache shows it with its finalizer for a moment, and it may be made again meanwhile.
    #[tokio::test]
    async fn nothing_is_made_for_an_object_that_was_let_go() {
        let (client, mut server) = pair();
        let ctx = fixtures::context(&client);
        let object = leaving();
        let mut next = leaving();
        next.metadata.uid = Some("uid-2".to_owned());
        assert!(!ctx.is_gone(&object));
        ctx.note_end(&object);
        let left = Box::pin(delete(&object, &ctx)).await;
        assert!(left.is_ok_and(|action| action == Action::await_change()));
        assert!(!ctx.is_gone(&next), "another one of its name");
        drop((client, ctx));
        assert!(server.next_if_any().await.is_none());
    }
}
