//! Reconciles `ReportsServer`: dereference, validate, build, apply, status.
//!
//! The order of a reconciliation stands in [`reconcile`]; every decision is in a function without
//! a client, every request in one without decisions.

mod apply;
mod build;
mod cleanup;
mod dereference;
mod error;
mod finalizer;
#[cfg(test)]
mod fixtures;
mod image;
mod run;
mod status;
mod validate;
mod watches;
mod workload;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use crds::v1alpha1::{ReportsServer, reasons};
use jiff::Timestamp;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::{
    Client, Resource, ResourceExt,
    core::DeserializeGuard,
    runtime::{
        controller::Action,
        events::{EventType, Recorder},
        reflector::Store,
    },
};
use tracing::{info, warn};

use self::{
    dereference::Registered,
    status::State,
    validate::{Claim, Facts, Validated},
    watches::Watches,
};
use crate::{
    certs, events,
    metrics::Metrics,
    migration::{self, GroupTarget, Owner, Phase, Supervisor},
};

#[cfg(test)]
pub(crate) use build::schema_reader_rules;
pub use build::{ServiceAccountRef, control_api_name};
pub use error::Error;
pub use run::{Settings, run};

/// A complete look even when nothing seems to have changed.
const RESYNC: Duration = Duration::from_mins(5);
/// How often the server's pods are looked at while they start.
const STARTING_RESYNC: Duration = Duration::from_secs(5);
/// How often a deletion looks whether the groups are back.
const DELETION_RESYNC: Duration = Duration::from_secs(15);

/// What reconciliations share.
pub struct Context {
    client: Client,
    operator: ServiceAccountRef,
    server_image: String,
    recorder: Recorder,
    metrics: Metrics,
    supervisor: Supervisor,
    objects: Store<DeserializeGuard<ReportsServer>>,
    api_services: Store<APIService>,
    watches: Watches,
    /// Generation, by uid, for which leftovers were removed.
    swept: Mutex<HashMap<String, Option<i64>>>,
}

impl Context {
    /// Stops everything that is done on behalf of a `ReportsServer`.
    fn forget(&self, name: &str) {
        self.supervisor.forget(name);
        self.watches.forget(name);
        self.metrics.forget(name);
    }
}

/// One reconciliation.
async fn reconcile(
    object: Arc<DeserializeGuard<ReportsServer>>,
    ctx: Arc<Context>,
) -> Result<Action, Error> {
    // Which APIServices point to a server decides about trust and about letting go: an empty cache
    // must not be taken for an answer. It never fills when the process is about to end.
    if ctx.api_services.wait_until_ready().await.is_err() {
        return Ok(Action::await_change());
    }
    let _measurement = ctx.metrics.measure();
    let object = match &object.0 {
        Ok(object) => object,
        Err(invalid) => {
            let name = invalid.metadata.name.clone().unwrap_or_default();
            return Err(Error::Unreadable {
                name,
                error: invalid.error.clone(),
            });
        }
    };
    if object.meta().deletion_timestamp.is_some() {
        return delete(object, &ctx).await;
    }
    // dereference, validate (client required for the first)
    let namespace = dereference::namespace(&ctx.client, &object.spec.target_namespace).await?;
    let claims = claims(&ctx.objects);
    let facts = Facts {
        namespace,
        claims: &claims,
        default_image: &ctx.server_image,
    };
    let spec = match validate::validate(object, &facts) {
        Ok(spec) => spec,
        Err(refusal) => {
            report(object, &ctx, &State::Refused(&refusal)).await?;
            return Ok(Action::requeue(RESYNC));
        }
    };
    if object.spec.suspend == Some(true) {
        return suspend(object, &ctx).await;
    }
    match carry_out(object, &spec, &ctx).await {
        Ok(next) => Ok(Action::requeue(next)),
        Err(error) if error.is_conflict() => Err(error),
        Err(error) => {
            let failed = State::Failed {
                message: error.to_string(),
                forbidden: error.is_forbidden(),
            };
            report(object, &ctx, &failed).await?;
            Err(error)
        }
    }
}

/// Builds and applies the children, hands the groups to the migration, writes the status. Returns
/// when to look again at the latest.
async fn carry_out(
    object: &ReportsServer,
    spec: &Validated,
    ctx: &Context,
) -> Result<Duration, Error> {
    let now = Timestamp::now();
    // dereference what lies in the target namespace (client required)
    let material = match dereference::material(&ctx.client, spec).await {
        Err(error) if error.is_forbidden() => {
            apply::gain_access(&ctx.client, spec, &ctx.operator).await?;
            dereference::material(&ctx.client, spec).await?
        }
        read => read?,
    };
    ctx.watches.ensure(&spec.names, &spec.namespace);
    // build (no client required)
    let registered = registered(object, ctx);
    let published: Vec<Vec<u8>> = registered.iter().map(|r| r.ca_bundle.clone()).collect();
    let name = spec.names.instance();
    let certs = certs::reconcile(name, now, material, &published, &spec.certs)?;
    let children = build::build(spec, &certs.material, &ctx.operator);
    // apply (client required)
    let applied = Box::pin(apply::apply(&ctx.client, children)).await?;
    sweep(object, spec, ctx).await?;
    let about = object.object_ref(&());
    events::publish(&ctx.recorder, &about, events::certificates(&certs.moves)).await;
    // The finalizer comes before the first group is touched, and goes after the last is back.
    let targets = targets(spec, &applied, &certs.material.bundle());
    let held = targets
        .iter()
        .any(|target| target.owner == migration::ApiOwner::Server)
        || registered
            .iter()
            .any(|registered| registered.group != crds::control::GROUP)
        || ctx
            .supervisor
            .status(name)
            .iter()
            .any(|group| group.phase == Phase::RollingBack);
    finalizer::set(&ctx.client, object, held).await?;
    ctx.supervisor.ensure(&owner(object), targets);
    // status (client required)
    report(
        object,
        ctx,
        &State::Applied {
            spec,
            applied: &applied,
            certs: &certs,
        },
    )
    .await?;
    let due = certs.next.duration_since(now);
    let due = Duration::try_from(due).unwrap_or_default();
    let resync = if workload::is_ready(&applied.deployment) {
        RESYNC
    } else {
        STARTING_RESYNC
    };
    Ok(due.clamp(Duration::from_secs(1), resync))
}

/// Leaves everything as it is. A switch under way is brought to its end first: between two of its
/// steps requests are held.
async fn suspend(object: &ReportsServer, ctx: &Context) -> Result<Action, Error> {
    let name = object.name_any();
    let groups = ctx.supervisor.status(&name);
    let finishing = groups
        .iter()
        .any(|group| matches!(group.phase, Phase::Switching | Phase::RollingBack));
    report(object, ctx, &State::Suspended { finishing }).await?;
    if !finishing {
        ctx.supervisor.forget(&name);
    }
    Ok(Action::requeue(RESYNC))
}

/// Gives the groups back and lets the object go.
async fn delete(object: &ReportsServer, ctx: &Context) -> Result<Action, Error> {
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
            return Ok(Action::requeue(DELETION_RESYNC));
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
    let facts = Facts {
        namespace,
        claims: &[],
        default_image: &ctx.server_image,
    };
    let spec =
        validate::validate(object, &facts).map_err(|refusal| Error::Orphan(refusal.message))?;
    let material = dereference::material(&ctx.client, &spec).await?;
    let spec = Validated {
        owner: None,
        ..spec
    };
    let children = build::build(&spec, &material, &ctx.operator);
    Box::pin(apply::apply(&ctx.client, children)).await?;
    Ok(())
}

/// Computes the status, writes it if it changed, and tells what changed.
async fn report(object: &ReportsServer, ctx: &Context, state: &State<'_>) -> Result<(), Error> {
    let groups = ctx.supervisor.status(&object.name_any());
    let status = status::compute(object, state, &groups, Timestamp::now());
    let expiry = status.tls.as_ref().and_then(|tls| tls.not_after.as_ref());
    let expiry = expiry.map(|time| time.0.as_second());
    ctx.metrics
        .observe(&object.name_any(), &status.conditions, expiry);
    if status::write(&ctx.client, object, &status).await? {
        let before = object
            .status
            .as_ref()
            .map(|status| status.conditions.as_slice());
        let changes = events::transitions(before.unwrap_or_default(), &status.conditions);
        events::publish(&ctx.recorder, &object.object_ref(&()), changes).await;
    }
    Ok(())
}

/// Removes leftovers once a generation.
async fn sweep(object: &ReportsServer, spec: &Validated, ctx: &Context) -> Result<(), Error> {
    let generation = object.meta().generation;
    let swept = |ctx: &Context| {
        let swept = ctx.swept.lock().unwrap_or_else(PoisonError::into_inner);
        swept.get(&spec.uid) == Some(&generation)
    };
    if swept(ctx) {
        return Ok(());
    }
    let gone = apply::remove_orphans(&ctx.client, spec).await?;
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

/// What each group of the specification should reach.
fn targets(spec: &Validated, applied: &apply::Applied, ca_bundle: &str) -> Vec<GroupTarget> {
    let server_ready = workload::is_ready(&applied.deployment);
    let control_available = dereference::is_available(&applied.control_api);
    let target = |api: &crds::v1alpha1::spec::ApiSpec| GroupTarget {
        group: api.group.clone(),
        owner: match api.owner {
            crds::v1alpha1::spec::ApiOwner::Server => migration::ApiOwner::Server,
            crds::v1alpha1::spec::ApiOwner::Crd => migration::ApiOwner::Crd,
        },
        service: dereference::service_ref(&spec.namespace, spec.names.server()),
        ca_bundle: ca_bundle.as_bytes().to_vec(),
        server_ready,
        control_available,
        persistent: matches!(spec.storage, validate::Storage::Claim { .. }),
        settings: spec.migration.clone(),
    };
    spec.apis.iter().map(target).collect()
}

fn registered(object: &ReportsServer, ctx: &Context) -> Vec<Registered> {
    let server = crate::names::Names::new(object.name_any()).server();
    let service = dereference::service_ref(&object.spec.target_namespace, server);
    let all = ctx.api_services.state();
    dereference::registered(all.iter().map(AsRef::as_ref), &service)
}

fn control_available(ctx: &Context) -> bool {
    let found = ctx
        .api_services
        .find(|object| object.name_any() == control_api_name());
    found.is_some_and(|object| dereference::is_available(&object))
}

fn claims(objects: &Store<DeserializeGuard<ReportsServer>>) -> Vec<Claim> {
    objects
        .state()
        .iter()
        .filter_map(|object| object.0.as_ref().ok().map(Claim::of))
        .collect()
}

fn owner(object: &ReportsServer) -> Owner {
    Owner {
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
        api_version: ReportsServer::api_version(&()).into_owned(),
        kind: ReportsServer::kind(&()).into_owned(),
    }
}

/// What follows an error: it is counted, logged and, except for an object that only its author can
/// mend, tried again.
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
        let (recorder, about) = (ctx.recorder.clone(), object.object_ref(&()));
        let event = events::event(
            EventType::Warning,
            reasons::INVALID_SPEC,
            &error.to_string(),
        );
        tokio::spawn(async move { events::publish(&recorder, &about, vec![event]).await });
        return Action::await_change();
    }
    Action::requeue(error.retry_after())
}
