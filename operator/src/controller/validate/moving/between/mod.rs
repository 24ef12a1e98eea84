//! The move from a PostgreSQL. The specification at hand is the one that is carried out meanwhile; here
//! it gets what belongs to the other database.

mod volume;

use std::collections::BTreeSet;

use crds::v1alpha1::spec::DatabaseMode;
use crds::v1alpha1::{ReportsServer, reasons};
use tracing::{debug, info};

use super::connection_files;
use crate::controller::found::Dereferenced;
use crate::controller::validate::postgres::Route;
use crate::controller::validate::refusal::{Refusal, refuse};
use crate::controller::validate::specification::specification;
use crate::controller::validate::validated::{MoveProgress, Validated};
use crate::controller::validate::{Between, Home, Stage};
use crate::controller::watches::Watched;
use crate::database::between::{self, Asked, Egress, Notes, Source, Step, home};
use crate::database::check::Target;
use crate::database::files::Values;
use crate::database::managed::{self, Managed};
use crate::database::place::{Database, Postgres};
use crate::database::{cloudnativepg, moving};

/// Said where nobody knows any more what the order leads to.
const UNREADABLE: &str = "the notes in the Secret of the move cannot be read: either a newer \
                          operator has written them, and has to end the move, or somebody has \
                          changed them; then delete the Secret while spec.database names the new \
                          database, and the servers are told again";

/// Said where something else is asked for since the reports have moved.
const FIRST: &str = "later changes are carried out when the last old pod is gone";

/// Returns the specification with what is to be done about the move. `asked` is what is asked for.
///
/// # Errors
/// If something is asked for that cannot be done.
pub fn decide(
    asked: &ReportsServer,
    spec: Validated,
    found: &Dereferenced,
) -> Result<Validated, Refusal> {
    let step = &found.between.step;
    debug!(?step, "the move to another PostgreSQL");
    let stays = || standing(found);
    let between = match step {
        Step::None => return Ok(spec),
        Step::Refuse(message) => return refuse(reasons::NOT_SUPPORTED, message.clone()),
        Step::Over(_) => {
            let other = found.between.in_force.is_some();
            let between = Between {
                stage: Stage::Over,
                waits_for: other.then(|| FIRST.to_owned()),
                secret: None,
                egress: None,
                home: None,
                ..stays()
            };
            return Ok(Validated {
                between: Some(between),
                move_progress: MoveProgress::Over,
                ..spec
            });
        }
        Step::GivenUp => {
            // What is asked for is carried out only when the Secret is gone.
            let between = Between {
                stage: Stage::Looking,
                secret: None,
                home: None,
                ..stays()
            };
            return Ok(Validated {
                between: found.between.in_force.is_some().then_some(between),
                move_progress: MoveProgress::Over,
                ..spec
            });
        }
        Step::Look | Step::Clear => Between {
            stage: Stage::Looking,
            ..Destination::of(asked, found)?.waiting(&spec)
        },
        Step::Wait(why) => Between {
            waits_for: Some(why.clone()),
            ..Destination::of(asked, found)?.waiting(&spec)
        },
        Step::Prepare(why) => {
            let destination = Destination::of(asked, found)?;
            Between {
                waits_for: Some(why.clone()),
                home: destination.home(found),
                ..destination.waiting(&spec)
            }
        }
        Step::Tell | Step::TellAgain => tell(asked, &spec, found)?,
        // A specification that is only kept does not take an order back.
        Step::GiveUp if !found.kept => {
            let between = stays();
            Between {
                stage: Stage::GivingUp,
                secret: between.secret.map(moving::given_up),
                ..between
            }
        }
        Step::Keep | Step::GiveUp => stays(),
        Step::Note(history) => {
            let name = spec.names.instance();
            info!(name, history, "the reports are in another database");
            let between = stays();
            let noted = |secret| between::noted(secret, history);
            let (target, watched) = ordered(asked, found).unwrap_or_default();
            Between {
                secret: between.secret.map(noted),
                target,
                watched,
                ..between
            }
        }
        Step::Switch(_) | Step::Finish(_) => moved(asked, &spec, found),
    };
    let move_progress = match step {
        Step::Clear if found.inside.moving.rolled_out => MoveProgress::Over,
        // Whatever it waits for tells when it changes.
        Step::Wait(_) => MoveProgress::None,
        _ => MoveProgress::UnderWay,
    };
    Ok(Validated {
        between: Some(between),
        move_progress,
        ..spec
    })
}

/// Returns a specification that is refused, where the reports have moved with the order by which old
/// pods find them.
pub fn kept(asked: &ReportsServer, spec: Validated, found: &Dereferenced) -> Validated {
    let between = match found.between.step {
        Step::Switch(_) | Step::Finish(_) => Some(moved(asked, &spec, found)),
        Step::TellAgain => tell(asked, &spec, found).ok(),
        _ => None,
    };
    Validated { between, ..spec }
}

/// Returns the move of reports that are in the database of `spec`.
fn moved(asked: &ReportsServer, spec: &Validated, found: &Dereferenced) -> Between {
    let between = standing(found);
    let renewed = |before| renewed(asked, spec, found, before);
    let other = found.between.in_force.is_some();
    Between {
        stage: Stage::Moved,
        waits_for: other.then(|| FIRST.to_owned()),
        secret: between.secret.map(renewed),
        egress: Some(between.source.egress.clone()),
        home: None,
        ..between
    }
}

/// Returns the move with the order as it is.
fn standing(found: &Dereferenced) -> Between {
    let seen = &found.between;
    let notes = seen.secret.as_ref().and_then(Notes::read);
    let unreadable = seen.secret.is_some() && notes.is_none();
    let to_file = |notes: &&Notes| home::leads_there(&notes.specification);
    // A volume has no address.
    let home = notes
        .as_ref()
        .filter(to_file)
        .map(|_| volume::of(None, found));
    let destination = notes.as_ref().filter(|notes| !to_file(notes));
    let destination = destination.map(|notes| notes.destination.clone());
    let source = notes.map(|notes| notes.source);
    Between {
        stage: Stage::Moving,
        secret: seen.secret.clone(),
        told: seen.told.clone(),
        waits_for: unreadable.then(|| UNREADABLE.to_owned()),
        target: None,
        watched: BTreeSet::new(),
        egress: destination,
        source: source.unwrap_or_default(),
        home,
    }
}

/// Returns the database to which the reports have moved, to be examined before it is the one in
/// use, and what it depends on; nothing where another one is asked for by now.
fn ordered(
    asked: &ReportsServer,
    found: &Dereferenced,
) -> Option<(Option<Target>, BTreeSet<Watched>)> {
    let notes = Notes::read(found.between.secret.as_ref()?)?;
    if !between::is_same_place(&asked.spec, &notes.specification) {
        return None;
    }
    let Destination {
        target, watched, ..
    } = Destination::of(asked, found).ok()?;
    Some((target, watched))
}

/// The database that is asked for.
struct Destination {
    spec: Validated,
    target: Option<Target>,
    watched: BTreeSet<Watched>,
}

impl Destination {
    fn of(asked: &ReportsServer, found: &Dereferenced) -> Result<Self, Refusal> {
        let spec = specification(asked, found)?;
        let route = Route::of(asked, &spec, None);
        let objects = &found.between.objects;
        let target = |route: &Route| route.target(&spec.namespace, objects).ok();
        let (target, watched) = (
            route.as_ref().and_then(target),
            route.as_ref().map(Route::watched).unwrap_or_default(),
        );
        Ok(Self {
            spec,
            target,
            watched,
        })
    }

    fn egress(&self) -> Egress {
        egress(&self.spec, self.target.as_ref())
    }

    /// Returns the volume, where the server is to have one for the reports.
    fn home(&self, found: &Dereferenced) -> Option<Home> {
        match &self.spec.database {
            Database::Embedded(storage) => Some(volume::of(Some(storage.clone()), found)),
            Database::Postgres(_) => None,
        }
    }

    /// Returns a move from the database of `spec` that has not begun.
    fn waiting(self, spec: &Validated) -> Between {
        Between {
            stage: Stage::Waiting,
            secret: None,
            told: None,
            waits_for: None,
            egress: None,
            target: self.target,
            watched: self.watched,
            source: source(spec),
            home: None,
        }
    }
}

/// Returns the move whose order names the destination that is asked for, with the parameters as
/// they are by now.
fn tell(asked: &ReportsServer, spec: &Validated, found: &Dereferenced) -> Result<Between, Refusal> {
    let destination = Destination::of(asked, found)?;
    let before = found.between.secret.as_ref();
    let notes = Notes {
        specification: asked.spec.clone(),
        before: spec.source.clone(),
        source: source(spec),
        destination: destination.egress(),
        moved_to: None,
    };
    let Some(postgres) = destination.spec.database.postgres() else {
        return Ok(tell_home(asked, spec, found, destination, &notes));
    };
    let objects = &found.between.objects;
    let files = connection_files(&spec.namespace, postgres, objects);
    let (secret, waits_for) = match files {
        Ok(files) => (Some(order(asked, postgres, before, files, &notes)), None),
        // What they were told stays until they can be told better.
        Err(problem) => (before.cloned(), Some(problem)),
    };
    Ok(Between {
        stage: Stage::Moving,
        secret,
        told: found.between.told.clone(),
        waits_for,
        egress: Some(destination.egress()),
        ..destination.waiting(spec)
    })
}

/// Returns the move whose order names the volume of the one server.
fn tell_home(
    asked: &ReportsServer,
    spec: &Validated,
    found: &Dereferenced,
    destination: Destination,
    notes: &Notes,
) -> Between {
    let before = found.between.secret.as_ref();
    say_that_it_begins(asked, before);
    let uid = asked.metadata.uid.as_deref().unwrap_or_default();
    let generation = asked.metadata.generation.unwrap_or_default();
    Between {
        stage: Stage::Moving,
        secret: Some(home::order(uid, generation, before, notes)),
        told: found.between.told.clone(),
        home: destination.home(found),
        ..destination.waiting(spec)
    }
}

fn say_that_it_begins(asked: &ReportsServer, before: Option<&Values>) {
    if before.is_none() {
        let (name, generation) = (&asked.metadata.name, asked.metadata.generation);
        info!(name, generation, "the servers are told to move the reports");
    }
}

fn order(
    asked: &ReportsServer,
    postgres: &Postgres,
    before: Option<&Values>,
    files: Values,
    notes: &Notes,
) -> Values {
    say_that_it_begins(asked, before);
    let asked = Asked {
        uid: asked.metadata.uid.as_deref().unwrap_or_default(),
        generation: asked.metadata.generation.unwrap_or_default(),
        postgres,
    };
    between::order(asked, before, files, notes)
}

/// Returns the order with the parameters as they are by now, of reports that are in the database of
/// `spec`: old pods need them for as long as they are left.
fn renewed(
    asked: &ReportsServer,
    spec: &Validated,
    found: &Dereferenced,
    before: Values,
) -> Values {
    let notes = Notes::read(&before);
    let (Some(postgres), Some(notes)) = (spec.database.postgres(), notes) else {
        return before;
    };
    let objects = &found.inside.connection;
    match connection_files(&spec.namespace, postgres, objects) {
        Ok(files) => order(asked, postgres, Some(&before), files, &notes),
        Err(_) => before,
    }
}

/// Returns the database that `spec` is on, as it is left behind.
fn source(spec: &Validated) -> Source {
    let reached = spec.postgres.as_ref();
    let target = reached.and_then(|reached| reached.target.as_ref());
    let cluster = reached.and_then(|reached| reached.cluster.as_ref());
    let namespace = &spec.namespace;
    let name = spec.database.postgres().map(moving::target);
    let remains = match (spec.managed().map(Managed::claim), cluster) {
        (Some(claim), _) => format!(
            "its volume stays, and is deleted with: kubectl -n {namespace} delete pvc {claim}"
        ),
        (None, Some(plan)) => format!(
            "it stays, and is deleted with: kubectl -n {namespace} delete {} {}",
            cloudnativepg::CRD,
            plan.name
        ),
        (None, None) => "it stays as it was".to_owned(),
    };
    Source {
        name: name.unwrap_or_default(),
        remains,
        egress: egress(spec, target),
    }
}

/// Returns the addresses of the database of `spec`.
fn egress(spec: &Validated, target: Option<&Target>) -> Egress {
    let mode = spec.database.postgres().map(|postgres| postgres.mode);
    let external = mode == Some(DatabaseMode::External);
    let network = spec.network.as_ref().filter(|_| external);
    let hosts = target.into_iter();
    let hosts = hosts.flat_map(|target| target.parameters.hosts.iter());
    let mut ports: BTreeSet<i32> = hosts.map(|host| i32::from(host.port)).collect();
    if ports.is_empty() {
        ports.insert(managed::PORT);
    }
    ports.extend(network.iter().flat_map(|own| own.additional_ports.iter()));
    Egress {
        cidrs: network.map_or_else(Vec::new, |own| own.database_cidrs.clone()),
        ports,
    }
}

#[cfg(test)]
mod tests;
