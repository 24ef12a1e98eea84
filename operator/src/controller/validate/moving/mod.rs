//! The move of a database: what the server is told, and what stays as it is meanwhile.

mod between;
mod held;

use crds::v1alpha1::{ReportsServer, reasons};
use kube::Resource;
use tracing::{debug, info};

use super::postgres::Reached;
use super::refusal::Refusal;
use super::validated::{MoveProgress, Validated};
use crate::controller::build::DATA_VOLUME;
use crate::controller::found::Dereferenced;
use crate::database::between::Step as StepBetween;
use crate::database::files::{self, Objects, Values};
use crate::database::known::Known;
use crate::database::moving::{self, Moving, Step};
use crate::database::place::{Database, Postgres};

pub use between::kept;

/// Returns the specification with what is to be done about a move. `object` is as it was asked for.
///
/// # Errors
/// If something else is asked for than what the server has done.
pub fn decide(
    object: &ReportsServer,
    spec: Validated,
    found: &Dereferenced,
) -> Result<Validated, Refusal> {
    if found.between.step != StepBetween::None {
        return between::decide(object, spec, found);
    }
    let seen = &found.inside.moving;
    let wanted = spec.database.postgres().map(moving::target);
    let step = moving::step(wanted.as_deref(), seen);
    debug!(?step, "the move of the embedded database");
    Ok(match step {
        Step::None => spec,
        Step::Moved => Validated {
            move_progress: MoveProgress::UnderWay,
            ..spec
        },
        Step::Forget => Validated {
            move_progress: MoveProgress::Over,
            ..spec
        },
        Step::Refuse(message) => {
            return Err(Refusal {
                reason: reasons::NOT_SUPPORTED,
                message,
            });
        }
        Step::GiveUp => {
            let secret = seen.secret.clone().map(moving::given_up);
            held_back(spec, found, secret, None)
        }
        Step::Tell => {
            let (secret, waits_for) = told(object, &spec, found);
            held_back(spec, found, secret, waits_for)
        }
    })
}

/// Returns the specification with the server and its pod as they are, and with what the server is
/// told.
fn held_back(
    spec: Validated,
    found: &Dereferenced,
    secret: Option<Values>,
    waits_for: Option<String>,
) -> Validated {
    let present = found.inside.deployment.as_ref();
    let template = present.and_then(|present| held::template(present, found.now));
    let pod = template.map_or_else(|| spec.pod.clone(), |template| held::pod(&spec, template));
    let server = found.inside.moving.server.clone();
    Validated {
        pod,
        moving: Some(Moving {
            template: template.cloned(),
            storage: moving::storage(present, DATA_VOLUME),
            secret,
            told: server.and_then(|server| server.move_),
            waits_for,
        }),
        move_progress: MoveProgress::UnderWay,
        ..spec
    }
}

/// Returns what the server is told, nothing before the database can be used, and from then on
/// whatever leads there; and what keeps it from being told.
fn told(
    object: &ReportsServer,
    spec: &Validated,
    found: &Dereferenced,
) -> (Option<Values>, Option<String>) {
    let before = found.inside.moving.secret.clone();
    let Database::Postgres(postgres) = &spec.database else {
        return (before, None);
    };
    if before.is_none() && !may_begin(object, spec) {
        let why = "PostgreSQL has to be ready first";
        return (None, Some(why.to_owned()));
    }
    let objects = &found.inside.connection;
    match connection_files(&spec.namespace, postgres, objects) {
        Ok(files) => {
            if before.is_none() {
                info!(
                    name = spec.names.instance(),
                    generation = object.metadata.generation,
                    "the server is told to move its reports"
                );
            }
            (Some(moving::secret(postgres, files)), None)
        }
        // What it was told stays until it can be told better.
        Err(problem) => (before, Some(problem)),
    }
}

/// Returns whether reports may be moved: into a database that can be used, of an object that stays.
fn may_begin(object: &ReportsServer, spec: &Validated) -> bool {
    let known = spec.postgres.as_ref().map(Reached::known);
    let leaves = object.meta().deletion_timestamp.is_some();
    !leaves && known.and_then(Known::usable) == Some(true)
}

fn connection_files(
    namespace: &str,
    postgres: &Postgres,
    objects: &Objects,
) -> Result<Values, String> {
    let files = files::files(namespace, &postgres.connection, objects);
    files.map_err(|problem| problem.message)
}
