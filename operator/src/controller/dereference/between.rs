//! The move from one PostgreSQL to another: what is read before it is known which specification is
//! carried out.

use crds::control::DatabaseMove;
use crds::names::ANNOTATION_BEGIN_ANEW;
use crds::v1alpha1::spec::DatabaseMode;
use crds::v1alpha1::{ReportsServer, ReportsServerSpec};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Resource, ResourceExt};

use super::{Error, inside};
use crate::controller::validate::{Route, Validated};
use crate::controller::{Context, workload};
use crate::database::between::{self, Found, Pods, Seen, Step};
use crate::database::check::Verdict;
use crate::database::files::{self, Objects};
use crate::database::history;

/// Reads how far such a move is, and decides what follows. `accepted` was carried out last, as far
/// as that is known; `spec` is what `object` asks for.
///
/// # Errors
/// If something cannot be read; that it is missing is an answer.
pub async fn read(
    object: &ReportsServer,
    accepted: Option<&ReportsServerSpec>,
    spec: &Validated,
    ctx: &Context,
) -> Result<Found, Error> {
    // An order is never forgotten, whatever somebody has deleted.
    let accepted = accepted.unwrap_or(&object.spec);
    if between::mode(accepted) == DatabaseMode::Embedded {
        return Ok(Found::default());
    }
    let client = &ctx.client;
    let secret = inside::move_secret(client, spec).await?;
    let ordered = secret.as_ref().is_some_and(between::is_order);
    if !ordered && between::is_same_place(accepted, &object.spec) {
        return Ok(Found::default());
    }
    let deployment = inside::deployment(client, spec).await?;
    let (objects, destination) = destination(object, spec, ctx).await?;
    let server = match &deployment {
        Some(_) => inside::database(client).await,
        None => None,
    };
    let status = object.status.as_ref();
    let status = status.and_then(|status| status.database.as_ref());
    let postgres = spec.database.postgres();
    let seen = Seen {
        accepted,
        wanted: &object.spec,
        identity: postgres.map_or("", |postgres| postgres.cluster_identity.as_str()),
        secret: secret.as_ref(),
        server: server.as_ref(),
        noted: status.and_then(|status| status.history.as_deref()),
        abandoned: object
            .annotations()
            .get(ANNOTATION_BEGIN_ANEW)
            .map(String::as_str),
        destination: destination.as_ref(),
        pods: pods(deployment.as_ref()),
        leaves: object.meta().deletion_timestamp.is_some(),
    };
    let step = between::step(&seen);
    let in_force = between::in_force(&step, &seen);
    let name = spec.names.instance();
    match &step {
        // It is examined anew before it is the one in use: the reports were not there yet.
        Step::Note(_) => ctx.checks.ensure_destination(name, None),
        Step::Switch(history) => {
            let identity = seen.identity;
            let is_other = |found: &Verdict| history::is_other(identity, history, Some(found));
            ctx.checks.arrive(name, is_other);
        }
        _ => {}
    }
    let told = server.and_then(|server| server.move_);
    let about = |told: &DatabaseMove| {
        let secret = secret.as_ref();
        secret.is_some_and(|secret| between::is_about(told, secret))
    };
    let told = told.filter(about);
    Ok(Found {
        step,
        told,
        secret,
        in_force,
        objects,
    })
}

/// Returns the Secrets that lead to the database that is asked for, and what is known of that.
async fn destination(
    object: &ReportsServer,
    spec: &Validated,
    ctx: &Context,
) -> Result<(Objects, Option<Verdict>), Error> {
    let external = between::mode(&object.spec) == DatabaseMode::External;
    let Some(route) = Route::of(object, spec, None).filter(|_| external) else {
        return Ok((Objects::default(), None));
    };
    let objects = files::objects(&ctx.client, &spec.namespace, &route.connection).await?;
    let verdict = match route.target(&spec.namespace, &objects) {
        Ok(target) => ctx
            .checks
            .destination_verdict(spec.names.instance(), &target),
        Err(problem) => Some(Verdict::Unusable(problem)),
    };
    Ok((objects, verdict))
}

fn pods(deployment: Option<&Deployment>) -> Pods {
    let Some(deployment) = deployment else {
        return Pods::default();
    };
    let template = deployment.spec.as_ref().map(|spec| &spec.template);
    Pods {
        embedded: workload::is_embedded(deployment),
        serve: workload::is_serving(deployment),
        rolled_out: workload::is_rolled_out(deployment),
        hear: template.is_some_and(workload::hears_of_moves),
        away: workload::is_away(deployment),
    }
}
