//! Reconciles `ReportsServer`: dereference, validate, build, apply, status.
//!
//! The order of a reconciliation stands in [`reconcile`]; every decision is in a function without
//! a client, every request in one without decisions.

mod apply;
mod build;
mod cleanup;
mod deletion;
mod dereference;
mod error;
mod finalizer;
#[cfg(test)]
pub(crate) mod fixtures;
mod forward;
mod moving;
mod ownership;
mod postgres;
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

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use crds::v1alpha1::{ReportsServer, reasons, status::BackupResult};
use jiff::Timestamp;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::{
    Client, Resource, ResourceExt,
    core::DeserializeGuard,
    runtime::{controller::Action, events::EventType, reflector::Store},
};
use tokio::sync::{OnceCell, watch};
use tracing::warn;

use self::{
    dereference::Registered,
    forward::Outcome,
    status::{State, Written},
    validate::{Claim, Facts, Refusal},
    watches::Watches,
};
use crate::{
    database::check::Checks,
    events,
    metrics::Metrics,
    migration::{Owner, Supervisor},
};

#[cfg(test)]
pub(crate) use build::schema_reader_rules;
pub use build::{ServiceAccountRef, control_api_name};
pub use error::Error;
pub use run::{Settings, run};
pub use validate::Validated;

/// A complete look even when nothing seems to have changed.
const RESYNC: Duration = Duration::from_mins(5);

/// What reconciliations share.
pub struct Context {
    client: Client,
    operator: ServiceAccountRef,
    server_image: String,
    postgres_image: String,
    publisher: events::Publisher,
    metrics: Metrics,
    supervisor: Supervisor,
    objects: Store<DeserializeGuard<ReportsServer>>,
    api_services: Store<APIService>,
    /// Whether `api_services` holds what the cluster does.
    cached: watch::Receiver<bool>,
    watches: Watches,
    checks: Checks,
    /// uid of the namespace `kube-system`, once it is known: it never changes.
    cluster_uid: OnceCell<String>,
    /// Generation, by uid, for which leftovers were removed.
    swept: Mutex<HashMap<String, Option<i64>>>,
}

impl Context {
    /// Stops everything that is done on behalf of a `ReportsServer`.
    fn forget(&self, name: &str) {
        self.supervisor.forget(name);
        self.watches.forget(name);
        self.forget_database(name);
        self.metrics.forget(name);
    }

    /// Stops looking after the PostgreSQL of a `ReportsServer`.
    fn forget_database(&self, name: &str) {
        self.checks.forget(name);
        self.watches.leave(name);
        self.metrics.database.forget(name);
    }
}

/// One reconciliation. What goes wrong is told in the status before it is tried again.
async fn reconcile(
    object: Arc<DeserializeGuard<ReportsServer>>,
    ctx: Arc<Context>,
) -> Result<Action, Error> {
    // Which APIServices point to a server decides about trust and about letting go: an empty cache
    // must not be taken for an answer. It never fills when the process is about to end.
    if ctx.cached.clone().wait_for(|cached| *cached).await.is_err() {
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
    let result = Box::pin(attempt(object, &ctx)).await;
    if let Err(error) = &result
        && !error.is_conflict()
    {
        let message = error.to_string();
        let failed = State::Failed {
            message,
            forbidden: error.is_forbidden(),
        };
        report(object, &ctx, &failed).await?;
    }
    result
}

async fn attempt(object: &ReportsServer, ctx: &Context) -> Result<Action, Error> {
    if object.meta().deletion_timestamp.is_some() {
        return deletion::delete(object, ctx).await;
    }
    let spec = match resolve(object, ctx).await? {
        Ok(spec) => spec,
        Err(refusal) => return Box::pin(upkeep::refuse(object, &refusal, None, ctx)).await,
    };
    // Between two steps of an upgrade there is no database: it is brought to its end first.
    if object.spec.suspend == Some(true) && !upgrade::has_stopped(&ctx.client, &spec).await? {
        return Box::pin(upkeep::suspend(object, &spec, ctx)).await;
    }
    match Box::pin(forward::carry_out(object, &spec, None, ctx)).await? {
        Outcome::Done(resync) => Ok(Action::requeue(resync)),
        Outcome::Refused(refusal) => {
            Box::pin(upkeep::refuse(object, &refusal, Some(&spec), ctx)).await
        }
    }
}

/// Reads what decides whether the specification is possible, and decides.
async fn resolve(
    object: &ReportsServer,
    ctx: &Context,
) -> Result<Result<Validated, Refusal>, Error> {
    // dereference (client required)
    let namespace = dereference::namespace(&ctx.client, &object.spec.target_namespace).await?;
    let cluster_uid = ctx
        .cluster_uid
        .get_or_try_init(|| dereference::cluster_uid(&ctx.client))
        .await?;
    // validate (no client required)
    let groups = ctx.supervisor.status(&object.name_any());
    let facts = Facts {
        namespace,
        claims: &claims(&ctx.objects),
        default_image: &ctx.server_image,
        default_postgres_image: &ctx.postgres_image,
        cluster_uid,
        dropped: &targets::dropped(object, &registered(object, ctx), &groups),
    };
    Ok(validate::validate(object, &facts))
}

/// Whether the kube-apiserver reaches the server's control API.
fn is_control_available(ctx: &Context) -> bool {
    let found = ctx
        .api_services
        .find(|object| object.name_any() == control_api_name());
    found.is_some_and(|object| crate::apiservice::is_available(&object))
}

/// Computes the status, writes it if it changed, and tells what changed.
async fn report(object: &ReportsServer, ctx: &Context, state: &State<'_>) -> Result<(), Error> {
    let name = object.name_any();
    let groups = ctx.supervisor.status(&name);
    let status = status::compute(object, state, &groups, Timestamp::now());
    match status::write(&ctx.client, object, &status).await? {
        Written::Gone => {
            ctx.forget(&name);
            return Ok(());
        }
        Written::Changed => {
            let before = object.status.as_ref().map(|status| &status.conditions[..]);
            let changes = events::transitions(before.unwrap_or_default(), &status.conditions);
            events::publish(&ctx.publisher, &object.object_ref(&()), changes).await;
        }
        Written::Unchanged => {}
    }
    let expiry = status.tls.as_ref().and_then(|tls| tls.not_after.as_ref());
    let expiry = expiry.map(|time| time.0.as_second());
    ctx.metrics.observe(&name, &status.conditions, expiry);
    let backup = status
        .database
        .as_ref()
        .and_then(|database| database.last_backup.as_ref());
    if let Some(backup) = backup.filter(|backup| backup.result == BackupResult::Succeeded) {
        ctx.metrics.backed_up(&name, backup.time.0.as_second());
    }
    Ok(())
}

fn registered(object: &ReportsServer, ctx: &Context) -> Vec<Registered> {
    let server = crate::names::Names::new(object.name_any()).server();
    let service = dereference::service_ref(&object.spec.target_namespace, server);
    let all = ctx.api_services.state();
    dereference::registered(all.iter().map(AsRef::as_ref), &service)
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
        let (publisher, about) = (ctx.publisher.clone(), object.object_ref(&()));
        let event = events::event(
            EventType::Warning,
            reasons::INVALID_SPEC,
            &error.to_string(),
        );
        tokio::spawn(async move { events::publish(&publisher, &about, vec![event]).await });
        return Action::await_change();
    }
    Action::requeue(error.retry_after())
}
