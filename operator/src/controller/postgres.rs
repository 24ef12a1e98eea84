//! The PostgreSQL database of a `ReportsServer`, in a reconciliation: how it is reached, and what
//! is known about it. Nothing here waits for a database.

use crds::v1alpha1::ReportsServer;
use crds::v1alpha1::spec::DatabaseMode;
use kube::Client;

use super::build::data_metadata;
use super::validate::Validated;
use super::watches::Watched;
use super::{Context, Error};
use crate::database::check::Target;
use crate::database::cloudnativepg::{self, Plan};
use crate::database::files::{self, Problem};
use crate::database::known::Known;
use crate::database::place::{Connection, Database, Source};
use crate::names::Names;

/// How the database is reached, and what who runs it says about it.
#[derive(Default)]
struct Reached {
    primary: Option<String>,
    problem: Option<Problem>,
    watched: Vec<Watched>,
}

/// Settles in `spec` how the database is reached, where that takes a look into the cluster.
///
/// # Errors
/// If the cluster refuses the look.
pub async fn reach(
    client: &Client,
    object: &ReportsServer,
    spec: &mut Validated,
) -> Result<(), Error> {
    settle(client, object, spec).await.map(|_| ())
}

/// Settles how the database is reached, has it examined, and says what is known about it; nothing
/// where it is not PostgreSQL.
///
/// # Errors
/// If the cluster refuses to be read.
pub async fn reconcile(
    object: &ReportsServer,
    spec: &mut Validated,
    ctx: &Context,
) -> Result<Option<Known>, Error> {
    let name = spec.names.instance().to_owned();
    let reached = settle(&ctx.client, object, spec).await?;
    let Some(postgres) = spec.database.postgres() else {
        ctx.forget_database(&name);
        return Ok(None);
    };
    let connection = &postgres.connection;
    let watched = sources(connection).chain(reached.watched).collect();
    ctx.watches.follow(&spec.names, &spec.namespace, watched);
    let known = known(spec, connection, reached.primary, reached.problem, ctx).await?;
    ctx.metrics.database.observe(&name, &known);
    Ok(Some(known))
}

async fn settle(
    client: &Client,
    object: &ReportsServer,
    spec: &mut Validated,
) -> Result<Reached, Error> {
    let Some(plan) = plan(object, &spec.names) else {
        return Ok(Reached::default());
    };
    let metadata = data_metadata(spec, plan.name.clone());
    let reconciled = cloudnativepg::reconcile(client, &metadata, &plan).await?;
    if let Database::Postgres(postgres) = &mut spec.database {
        postgres.connection = reconciled.connection;
    }
    Ok(Reached {
        primary: reconciled.primary,
        problem: reconciled.problem,
        watched: vec![
            Watched::Crd(cloudnativepg::CRD.to_owned()),
            Watched::Cluster(plan.name),
        ],
    })
}

/// Returns what is wanted of `CloudNativePG`, in its mode.
fn plan(object: &ReportsServer, names: &Names) -> Option<Plan> {
    let database = object.spec.database.as_ref()?;
    let wanted = database.cloud_native_pg.as_ref();
    let wanted = wanted.filter(|_| database.mode == Some(DatabaseMode::CloudNativePg))?;
    Some(Plan::of(wanted, names.postgres_cluster()))
}

fn sources(connection: &Connection) -> impl Iterator<Item = Watched> {
    connection.sources.iter().map(|source| match source {
        Source::Secret { name, .. } => Watched::Secret(name.clone()),
        Source::ConfigMap { name, .. } => Watched::ConfigMap(name.clone()),
    })
}

async fn known(
    spec: &Validated,
    connection: &Connection,
    primary: Option<String>,
    problem: Option<Problem>,
    ctx: &Context,
) -> Result<Known, Error> {
    let name = spec.names.instance();
    let objects = files::objects(&ctx.client, &spec.namespace, connection).await?;
    let parameters = match files::parameters(&spec.namespace, connection, &objects) {
        Ok(parameters) => parameters,
        Err(missing) => {
            ctx.checks.forget(name);
            // Secrets come with the database: that it is not there yet says more.
            return Ok(Known::problem(problem.unwrap_or(missing), primary));
        }
    };
    let target = Target {
        parameters,
        primary: primary.clone(),
    };
    // While it is away for an upgrade there is nothing to see, and what was seen is of another version.
    let stopped = spec
        .managed()
        .is_some_and(|managed| managed.present.stopped);
    let verdict = if stopped {
        ctx.checks.forget(name);
        None
    } else {
        ctx.checks.ensure(name, &target)
    };
    Ok(Known::found(&target.parameters, verdict, primary, problem))
}
