//! The move from a PostgreSQL, to another one or to [a volume](home), as far as it is decided without a
//! client.
//!
//! While it lasts, the specification that was carried out last stays in force: its pods have the
//! reports. Everything that has to be remembered is in the Secret of the move, beside what servers
//! read there: the specification that leads to the destination, what the reports leave behind, and,
//! once they have left, their history in the destination. So the operator may die at any point.

pub mod home;

use std::collections::BTreeSet;

use crds::control::{self, MovePhase, move_file};
use crds::v1alpha1::ReportsServerSpec;
use crds::v1alpha1::spec::{DatabaseMode, ExternalSpec};
use serde::{Deserialize, Serialize};

use super::check::Verdict;
use super::files::{Objects, Values};
use super::place::Postgres;
use super::{history, moving};

/// Said where a managed database would be removed with reports in it.
const OWN_OR_COPY: &str = "spec.database: the database already has the history in use: it is the \
                           managed one itself, which would be removed, or a copy, which lacks what \
                           was written since; name an empty database, and the reports are moved \
                           there";

/// Said where no server would follow an order.
const OLD_SERVERS: &str = "the servers are of a release that does not move reports from PostgreSQL: \
                           set spec.database back, remove spec.images.server, and ask again";

/// Said where nobody can tell yet whether the servers would follow an order.
const NO_ANSWER: &str =
    "no server has answered yet, so it is not known whether they follow an order";

/// The key of the Secret with the operator's notes. Servers do not read it.
const NOTES: &str = "notes.json";

/// The addresses that servers connect to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Egress {
    /// Networks; none stands for any address.
    pub cidrs: Vec<String>,
    /// Ports.
    pub ports: BTreeSet<i32>,
}

/// The database that the reports leave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The name, for people.
    pub name: String,
    /// The sentence about what is left of it.
    pub remains: String,
    /// The addresses.
    pub egress: Egress,
}

/// The operator's notes about an order to move.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Notes {
    /// The specification that leads to the destination.
    pub specification: ReportsServerSpec,
    /// The one that leads to the database that the reports leave.
    pub before: ReportsServerSpec,
    /// The database that the reports leave.
    pub source: Source,
    /// The addresses of the destination.
    pub destination: Egress,
    /// The history in the destination, once the reports are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_to: Option<String>,
}

impl Notes {
    /// Returns the notes in a Secret.
    #[must_use]
    pub fn read(secret: &Values) -> Option<Self> {
        serde_json::from_slice(secret.get(NOTES)?).ok()
    }

    /// Returns the Secret with these notes.
    #[must_use]
    pub fn within(&self, mut secret: Values) -> Values {
        let text = serde_json::to_vec(self).unwrap_or_default();
        secret.insert(NOTES.to_owned(), text);
        secret
    }
}

/// Returns whether a Secret of a move is about one from a PostgreSQL.
#[must_use]
pub fn is_order(secret: &Values) -> bool {
    secret.contains_key(NOTES)
}

/// Returns whether two specifications name one place of the reports. What is in the Secrets that
/// they name does not count: another password is no move.
#[must_use]
pub fn is_same_place(one: &ReportsServerSpec, other: &ReportsServerSpec) -> bool {
    place(one) == place(other)
}

fn place(spec: &ReportsServerSpec) -> (DatabaseMode, Option<&ExternalSpec>) {
    let database = spec.database.as_ref();
    let external = database.and_then(|database| database.external.as_ref());
    let mode = mode(spec);
    (mode, external.filter(|_| mode == DatabaseMode::External))
}

/// Returns the mode of the database that a specification names.
#[must_use]
pub fn mode(spec: &ReportsServerSpec) -> DatabaseMode {
    let mode = spec.database.as_ref().and_then(|database| database.mode);
    mode.unwrap_or_default()
}

/// The facts that the operator sees.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The specification that was carried out last; `None` where nobody knows it any more, because
    /// somebody has deleted both copies of it.
    pub accepted: Option<&'a ReportsServerSpec>,
    /// The mode of the database in use, as the status names it.
    pub mode: Option<DatabaseMode>,
    /// The one that is asked for.
    pub wanted: &'a ReportsServerSpec,
    /// The identity of the cluster.
    pub identity: &'a str,
    /// The Secret of a move.
    pub secret: Option<&'a Values>,
    /// The state that a server reports; `None` where none answers.
    pub server: Option<&'a control::DatabaseStatus>,
    /// The history in use, as the status names it.
    pub noted: Option<&'a str>,
    /// The history that is given up on purpose, see [`history::given_up`].
    pub abandoned: Option<&'a str>,
    /// True when the database in use was found usable when it was examined last.
    pub is_usable: bool,
    /// The state of the database that is asked for; `None` before it was examined.
    pub destination: Option<&'a Verdict>,
    /// The pods of the server.
    pub pods: Pods,
    /// True when the object is being deleted.
    pub leaves: bool,
}

/// The pods of the server.
#[derive(Clone, Copy, Debug, Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is read on its own, and every combination occurs"
)]
pub struct Pods {
    /// True when they have the reports in themselves: another move decides about them.
    pub embedded: bool,
    /// True when one of them serves.
    pub serve: bool,
    /// True when only pods of the newest template are left, and they are ready.
    pub rolled_out: bool,
    /// True when those of the newest template find out where to move to.
    pub hear: bool,
    /// True when none serves, of whatever template.
    pub away: bool,
    /// True when those of the newest template have a file to which the reports can be moved.
    pub has_file: bool,
}

/// The step that follows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Step {
    /// There is nothing to move: go on as the specification says.
    #[default]
    None,
    /// The database that is asked for has to be examined first: it may be the same.
    Look,
    /// The Secret of the move from an embedded database has to go first.
    Clear,
    /// The move cannot begin yet, for this reason.
    Wait(String),
    /// Have one server with a volume in the place of all, for which the move waits by this reason.
    Prepare(String),
    /// Name the destination.
    Tell,
    /// Name it again: the reports are there, and pods lack the order, which somebody has deleted.
    TellAgain,
    /// Leave the order as it is.
    Keep,
    /// Have the servers give up the move.
    GiveUp,
    /// They have: the Secret is of no use any more.
    GivenUp,
    /// The reports are in the destination, under this history, which is empty in a file: note it.
    Note(String),
    /// Go on as the specification says that leads there, but leave the Secret: pods that need it
    /// are there.
    Switch(String),
    /// The same, where that specification was carried out.
    Finish(String),
    /// The same, where the Secret is of no use any more.
    Over(String),
    /// The specification asks for what cannot be done.
    Refuse(String),
}

/// Everything that was read about a move.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The step that follows.
    pub step: Step,
    /// The Secret of the move.
    pub secret: Option<Values>,
    /// The progress that a server reports.
    pub told: Option<control::DatabaseMove>,
    /// The specification to carry out, where it is not the one that is asked for.
    pub in_force: Option<ReportsServerSpec>,
    /// The Secrets that lead to the database that is asked for.
    pub objects: Objects,
    /// True where these could not be read, and were not needed.
    pub is_way_unread: bool,
}

impl Found {
    /// Returns whether the servers have an order to move the reports.
    #[must_use]
    pub fn is_ordered(&self) -> bool {
        self.secret.as_ref().is_some_and(is_order) && self.history().is_none()
    }

    /// Returns the history that is in use since the reports have moved.
    #[must_use]
    pub fn history(&self) -> Option<&str> {
        match &self.step {
            Step::Switch(history) | Step::Finish(history) | Step::Over(history) => Some(history),
            _ => None,
        }
    }
}

/// Returns the specification that is carried out until the reports have moved. The notes of a move
/// have it, too.
fn before(seen: &Seen<'_>) -> Option<ReportsServerSpec> {
    let of_the_move = || Some(Notes::read(seen.secret?)?.before);
    seen.accepted.cloned().or_else(of_the_move)
}

/// Decides the step.
#[must_use]
pub fn step(seen: &Seen<'_>) -> Step {
    match seen.secret.filter(|secret| is_order(secret)) {
        Some(secret) => under_way(secret, seen),
        None => beginning(seen),
    }
}

fn under_way(secret: &Values, seen: &Seen<'_>) -> Step {
    let Some(notes) = Notes::read(secret) else {
        return Step::Keep;
    };
    if let Some(history) = notes.moved_to {
        let leads_there = |spec: &ReportsServerSpec| is_same_place(spec, &notes.specification);
        // Written last, so the rest of that specification was carried out, too.
        if !seen.accepted.is_some_and(leads_there) {
            return Step::Switch(history);
        }
        // The destination is lost, and begun anew.
        if seen.abandoned == Some(history.as_str()) {
            return Step::GivenUp;
        }
        let in_status = seen.noted.unwrap_or_default() == history;
        return if in_status && seen.pods.rolled_out {
            Step::Over(history)
        } else {
            Step::Finish(history)
        };
    }
    if home::leads_there(&notes.specification) && home::has_arrived(seen) {
        return Step::Note(String::new());
    }
    let told = seen.server.and_then(|server| server.move_.as_ref());
    let phase = told
        .filter(|told| is_about(told, secret))
        .map(|told| told.phase);
    let history = seen.server.and_then(|server| server.history.clone());
    let moved = told.is_some_and(|told| told.phase == MovePhase::Moved);
    match (phase, history) {
        (Some(MovePhase::Moved), Some(history)) => Step::Note(history),
        // By an earlier order, whose Secret somebody has deleted.
        (_, Some(history))
            if moved && seen.noted != Some(history.as_str()) && is_held(seen, &history) =>
        {
            Step::Note(history)
        }
        (Some(MovePhase::GivenUp), _) => Step::GivenUp,
        // Whoever gives the reports up need not wait for the database that had them.
        _ if seen.noted.is_some() && seen.noted == seen.abandoned => Step::GivenUp,
        _ if seen.leaves => Step::Keep,
        _ if secret.contains_key(move_file::GIVE_UP) => Step::GiveUp,
        _ if is_same_place(seen.wanted, &notes.specification) => Step::Tell,
        _ => Step::GiveUp,
    }
}

/// Returns whether a server tells of the order in this Secret. It tells no name of one that has
/// none, because somebody has removed it.
#[must_use]
pub fn is_about(told: &control::DatabaseMove, secret: &Values) -> bool {
    let name = secret.get(move_file::TARGET);
    name.map(Vec::as_slice).unwrap_or_default() == told.target.as_bytes()
}

/// Returns whether the database that is asked for holds the cluster under this history.
fn is_held(seen: &Seen<'_>, history: &str) -> bool {
    let examined = matches!(seen.destination, Some(Verdict::Usable(_)));
    examined && !history::is_other(seen.identity, history, seen.destination)
}

/// Decides where nobody knows any more which specification was carried out last. Of the databases of
/// one mode, each but an external one is the object's own, and an external one is known by the
/// history in it.
fn unknown(seen: &Seen<'_>) -> Step {
    match seen.mode {
        Some(from) if from != mode(seen.wanted) => Step::Refuse(format!(
            "spec.database.mode: nobody knows any more which specification was carried out last, as \
             somebody has deleted its ConfigMap, and the operator's note of it; set the mode back to \
             {}, and ask again when that is in force",
            moving::word(from)
        )),
        _ => Step::None,
    }
}

fn beginning(seen: &Seen<'_>) -> Step {
    let to = mode(seen.wanted);
    if seen.pods.embedded {
        return Step::None;
    }
    let Some(accepted) = seen.accepted else {
        return unknown(seen);
    };
    let from = mode(accepted);
    if from == DatabaseMode::Embedded || is_same_place(accepted, seen.wanted) {
        return Step::None;
    }
    let told = seen.server.and_then(|server| server.history.as_deref());
    let Some(history) = history::in_use(seen.noted, told, seen.abandoned) else {
        let unknown = seen.pods.serve && seen.noted.is_none() && told.is_none();
        let why = "the server has not said yet which database it has opened";
        return if unknown {
            Step::Wait(why.to_owned())
        } else {
            Step::None
        };
    };
    if to == DatabaseMode::Embedded {
        return home::beginning(seen);
    }
    if to != DatabaseMode::External {
        return Step::Refuse(format!(
            "spec.database.mode: reports in PostgreSQL are only moved to an External or an Embedded \
             database in this version; set the mode back to {}",
            moving::word(from)
        ));
    }
    let wait = |why: &str| Step::Wait(why.to_owned());
    match seen.destination {
        _ if seen.leaves => wait("the ReportsServer is being deleted"),
        _ if seen.secret.is_some() => Step::Clear,
        None => Step::Look,
        Some(Verdict::Unusable(problem)) => wait(&problem.message),
        // The same database by another way, or a copy of it.
        found if !history::is_other(seen.identity, &history, found) => {
            if from == DatabaseMode::Managed && seen.is_usable {
                Step::Refuse(OWN_OR_COPY.to_owned())
            } else {
                Step::None
            }
        }
        found if seen.pods.hear && lacks_order(seen, found) => Step::TellAgain,
        _ => match seen.server {
            None => wait(NO_ANSWER),
            Some(server) if !server.can_move => wait(OLD_SERVERS),
            Some(_) if seen.pods.hear && seen.pods.rolled_out => Step::Tell,
            Some(_) => wait("all pods of the server have to be ready first"),
        },
    }
}

/// Returns whether an order is what the pods lack: where somebody has deleted it after the reports have
/// moved, pods that start do not find them. The destination holds the cluster then, and the server that
/// answers is there; or none does.
fn lacks_order(seen: &Seen<'_>, destination: Option<&Verdict>) -> bool {
    let held = match destination {
        Some(Verdict::Usable(usable)) => &usable.held[..],
        Some(Verdict::Unusable(_)) | None => &[],
    };
    let told = seen.server.and_then(|server| server.history.as_deref());
    held.iter().any(|held| {
        let there = seen.pods.away || told == Some(held.history.as_str());
        there && held.identity == seen.identity
    })
}

/// Returns the specification to carry out in place of the one that is wanted.
#[must_use]
pub fn in_force(step: &Step, seen: &Seen<'_>) -> Option<ReportsServerSpec> {
    let notes = seen.secret.and_then(Notes::read);
    let ordered = notes.map(|notes| notes.specification);
    let leads_there = |spec: &ReportsServerSpec| is_same_place(seen.wanted, spec);
    let spec = match step {
        Step::None | Step::Refuse(_) => return None,
        Step::Switch(_) | Step::Finish(_) | Step::Over(_)
            if ordered.as_ref().is_some_and(leads_there) =>
        {
            return None;
        }
        // What is wanted now is another move.
        Step::Switch(_) => ordered?,
        _ => before(seen)?,
    };
    Some(ReportsServerSpec {
        suspend: seen.wanted.suspend,
        ..spec
    })
}

/// An order that is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// uid of the `ReportsServer`.
    pub uid: &'a str,
    /// The generation of the `ReportsServer`.
    pub generation: i64,
    /// The destination.
    pub postgres: &'a Postgres,
}

/// Returns the content of the Secret: the connection's parameters, the server's settings for it and
/// the notes. The names of an order stay as they were in the Secret `before`.
#[must_use]
pub fn order(asked: Asked<'_>, before: Option<&Values>, files: Values, notes: &Notes) -> Values {
    let Asked {
        uid,
        generation,
        postgres,
    } = asked;
    // No two orders have the same names, also of one place.
    let secret = notes.within(moving::secret(postgres, files));
    let place = moving::target(postgres);
    named(secret, (uid, generation), &place, before)
}

/// Returns the Secret with the names of an order to move to a place: those that it had `before`, or new
/// ones.
fn named(
    mut secret: Values,
    (uid, generation): (&str, i64),
    place: &str,
    before: Option<&Values>,
) -> Values {
    let names = [
        (move_file::ORDER, format!("{uid}/{generation}")),
        (
            move_file::TARGET,
            format!("{place}, generation {generation}"),
        ),
    ];
    for (key, new) in names {
        let name = before.and_then(|before| before.get(key).cloned());
        secret.insert(key.to_owned(), name.unwrap_or_else(|| new.into_bytes()));
    }
    secret
}

/// Returns the Secret with the note that the reports have moved: an order to give up came too late
/// then.
#[must_use]
pub fn noted(mut secret: Values, history: &str) -> Values {
    let Some(notes) = Notes::read(&secret) else {
        return secret;
    };
    secret.remove(move_file::GIVE_UP);
    let notes = Notes {
        moved_to: Some(history.to_owned()),
        ..notes
    };
    notes.within(secret)
}

#[cfg(test)]
mod tests;
