//! The move of an embedded database, in a reconciliation: looks how far it is, and has the server
//! told what is to be done.

mod held;

use std::time::Duration;

use crds::control::{self, DATABASE_NAME, DATABASES};
use crds::v1alpha1::{ReportsServer, reasons};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use kube::api::DeleteParams;
use kube::{Api, Client};
use tokio::time::timeout;
use tracing::{debug, info};

use super::build::DATA_VOLUME;
use super::validate::{Refusal, Validated};
use super::{Error, dereference, workload};
use crate::database::files::{self, Values};
use crate::database::known::Known;
use crate::database::moving::{self, Moving, Seen, Step};
use crate::database::place::{Database, Postgres};

/// How long the server may take to say how far it is.
const ANSWER: Duration = Duration::from_secs(5);
/// How often it is asked.
pub const RESYNC: Duration = Duration::from_secs(2);

/// What was found.
#[derive(Debug)]
pub enum Reconciled {
    /// Go on, and look again soon where something is under way.
    GoOn {
        /// Whether it is.
        busy: bool,
    },
    /// What is asked for is not done.
    Refused(Refusal),
}

/// Looks how far a move is, and settles in `spec` what the server is to be told. `known` is what
/// was found out about the database that the reports are moved to.
///
/// # Errors
/// If the cluster refuses to be read, or the Secret to be deleted.
pub async fn reconcile(
    client: &Client,
    object: &ReportsServer,
    spec: &mut Validated,
    known: Option<&Known>,
) -> Result<Reconciled, Error> {
    let present = dereference::deployment(client, spec).await?;
    let secret = dereference::move_secret(client, spec).await?;
    let embedded = present.as_ref().map(workload::is_embedded);
    let asked = embedded == Some(true) && (secret.is_some() || spec.database.postgres().is_some());
    let status = object.status.as_ref();
    let recorded = present.is_none() && status.is_some_and(moving::is_on_claim);
    let seen = Seen {
        embedded,
        left: recorded && dereference::has_data_claim(client, spec).await?,
        rolled_out: present.as_ref().is_some_and(workload::is_rolled_out),
        secret,
        server: if asked { server(client).await } else { None },
    };
    let wanted = spec.database.postgres().map(moving::target);
    let step = moving::step(wanted.as_deref(), &seen);
    debug!(?step, "the move of the embedded database");
    match step {
        Step::None => Ok(Reconciled::GoOn { busy: false }),
        Step::Moved => Ok(Reconciled::GoOn { busy: true }),
        Step::Forget => {
            forget(client, spec).await?;
            Ok(Reconciled::GoOn { busy: false })
        }
        Step::Refuse(message) => Ok(Reconciled::Refused(Refusal {
            reason: reasons::NOT_SUPPORTED,
            message,
        })),
        Step::GiveUp => {
            let secret = seen.secret.clone().map(moving::given_up);
            begin(spec, present.as_ref(), seen, secret, None);
            Ok(Reconciled::GoOn { busy: true })
        }
        Step::Tell => {
            let (secret, waits_for) = tell(client, object, spec, known, &seen).await?;
            begin(spec, present.as_ref(), seen, secret, waits_for);
            Ok(Reconciled::GoOn { busy: true })
        }
    }
}

/// Keeps the server and its pod as they are, with what the server is told.
fn begin(
    spec: &mut Validated,
    present: Option<&Deployment>,
    seen: Seen,
    secret: Option<Values>,
    waits_for: Option<String>,
) {
    let template = present.and_then(|present| held::template(present, Timestamp::now()));
    if let Some(template) = template {
        held::keep(spec, template);
    }
    spec.moving = Some(Moving {
        template: template.cloned(),
        storage: moving::storage(present, DATA_VOLUME),
        secret,
        told: seen.server.and_then(|server| server.move_),
        waits_for,
    });
}

/// Returns what the server is told: nothing before the database can be used, and from then on whatever
/// leads there.
async fn tell(
    client: &Client,
    object: &ReportsServer,
    spec: &Validated,
    known: Option<&Known>,
    seen: &Seen,
) -> Result<(Option<Values>, Option<String>), Error> {
    let Database::Postgres(postgres) = &spec.database else {
        return Ok((seen.secret.clone(), None));
    };
    let told = seen.secret.is_some();
    let usable = known.and_then(Known::usable) == Some(true);
    if !told && !usable {
        let why = "PostgreSQL has to be ready first";
        return Ok((None, Some(why.to_owned())));
    }
    match files(client, spec, postgres).await? {
        Ok(files) => {
            if !told {
                info!(
                    name = spec.names.instance(),
                    generation = object.metadata.generation,
                    "the server is told to move its reports"
                );
            }
            Ok((Some(moving::secret(postgres, files)), None))
        }
        // What it was told stays until it can be told better.
        Err(problem) => Ok((seen.secret.clone(), Some(problem))),
    }
}

async fn files(
    client: &Client,
    spec: &Validated,
    postgres: &Postgres,
) -> Result<Result<Values, String>, Error> {
    let connection = &postgres.connection;
    let objects = files::objects(client, &spec.namespace, connection).await?;
    let files = files::files(&spec.namespace, connection, &objects);
    Ok(files.map_err(|problem| problem.message))
}

/// Returns what the server says of its database; nothing where it does not answer.
async fn server(client: &Client) -> Option<control::DatabaseStatus> {
    let path = format!("/apis/{}/{DATABASES}/{DATABASE_NAME}", control::API_VERSION);
    let request = http::Request::get(path).body(Vec::new()).ok()?;
    let answer = timeout(ANSWER, client.request::<control::Database>(request)).await;
    match answer {
        Ok(Ok(database)) => Some(database.status),
        Ok(Err(error)) => {
            debug!(%error, "the server does not say how far it is");
            None
        }
        Err(_) => None,
    }
}

async fn forget(client: &Client, spec: &Validated) -> Result<(), Error> {
    let api = Api::<Secret>::namespaced(client.clone(), &spec.namespace);
    let name = spec.names.database_move();
    match api.delete(&name, &DeleteParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(source) => Err(dereference::Error::Secret {
            namespace: spec.namespace.clone(),
            name,
            source,
        }
        .into()),
    }
}
