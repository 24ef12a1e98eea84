use database::inspect::{Contents, Held};
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::database::check::Usable;
use crate::database::files::Problem;

const OLD: &str = "history-of-old";
const NEW: &str = "history-of-new";
/// The name that servers tell of the order.
const TARGET: &str = "External (secret new), generation 4";

fn external(secret: &str) -> ReportsServerSpec {
    of(&json!({"mode": "External", "external": {"connectionSecretRef": {"name": secret}}}))
}

fn of(database: &serde_json::Value) -> ReportsServerSpec {
    let spec = json!({"targetNamespace": "target", "database": database});
    serde_json::from_value(spec).unwrap()
}

fn notes(moved_to: Option<&str>) -> Notes {
    Notes {
        specification: external("new"),
        before: external("old"),
        source: Source::default(),
        destination: Egress::default(),
        moved_to: moved_to.map(str::to_owned),
    }
}

fn ordered(moved_to: Option<&str>) -> Values {
    let target = (move_file::TARGET.to_owned(), TARGET.as_bytes().to_vec());
    notes(moved_to).within([target].into())
}

fn taken_back() -> Values {
    moving::given_up(ordered(None))
}

fn server(history: &str, phase: Option<MovePhase>) -> control::DatabaseStatus {
    control::DatabaseStatus {
        history: Some(history.to_owned()),
        elsewhere: None,
        can_move: true,
        can_move_to_file: true,
        engine: control::DatabaseEngine::Postgres,
        sequence: 1,
        resource_version: "1".to_owned(),
        move_: phase.map(|phase| control::DatabaseMove {
            phase,
            target: TARGET.to_owned(),
            attempts: 1,
            objects_copied: 0,
            objects_total: 0,
            sequence: 0,
            held_milliseconds: None,
            message: String::new(),
        }),
    }
}

fn holding(history: Option<&str>) -> Verdict {
    let held = history.map(|history| Held {
        identity: "ours".to_owned(),
        history: history.to_owned(),
        cluster_uid: "uid".to_owned(),
    });
    Verdict::Usable(Usable {
        endpoint: "db:5432".to_owned(),
        version: "17.2".to_owned(),
        contents: Contents::default(),
        held: held.into_iter().collect(),
        sought: None,
    })
}

/// The facts, as their owner has them.
struct Facts {
    accepted: Option<ReportsServerSpec>,
    mode: Option<DatabaseMode>,
    is_usable: bool,
    wanted: ReportsServerSpec,
    secret: Option<Values>,
    server: Option<control::DatabaseStatus>,
    noted: Option<&'static str>,
    abandoned: Option<&'static str>,
    destination: Option<Verdict>,
    pods: Pods,
    leaves: bool,
}

impl Facts {
    fn seen(&self) -> Seen<'_> {
        Seen {
            accepted: self.accepted.as_ref(),
            mode: self.mode,
            is_usable: self.is_usable,
            wanted: &self.wanted,
            identity: "ours",
            secret: self.secret.as_ref(),
            server: self.server.as_ref(),
            noted: self.noted,
            abandoned: self.abandoned,
            destination: self.destination.as_ref(),
            pods: self.pods,
            leaves: self.leaves,
        }
    }

    fn step(&self) -> Step {
        step(&self.seen())
    }

    /// Returns the Secret that the specification in force names; none where that is the wanted one.
    fn in_force(&self) -> Option<String> {
        let seen = self.seen();
        let spec = in_force(&step(&seen), &seen)?;
        let external = spec.database?.external?;
        Some(external.connection_secret_ref.name)
    }
}

/// Another database is asked for than the one that serves.
fn asked() -> Facts {
    Facts {
        accepted: Some(external("old")),
        mode: Some(DatabaseMode::External),
        is_usable: true,
        wanted: external("new"),
        secret: None,
        server: Some(server(OLD, None)),
        noted: Some(OLD),
        abandoned: None,
        destination: Some(holding(None)),
        pods: Pods {
            embedded: false,
            serve: true,
            rolled_out: true,
            hear: true,
            away: false,
            has_file: false,
        },
        leaves: false,
    }
}

/// The servers know the order.
fn under_way(secret: Values, phase: MovePhase) -> Facts {
    let history = if phase == MovePhase::Moved { NEW } else { OLD };
    Facts {
        secret: Some(secret),
        server: Some(server(history, Some(phase))),
        ..asked()
    }
}

fn waits(facts: &Facts) -> String {
    assert_eq!(facts.in_force().as_deref(), Some("old"));
    match facts.step() {
        Step::Wait(why) => why,
        other => panic!("{other:?}"),
    }
}

#[rstest]
#[case::the_same_place(Facts { wanted: external("old"), ..asked() })]
#[case::the_same_database(Facts { destination: Some(holding(Some(OLD))), ..asked() })]
#[case::nothing_stored_yet(Facts {
    server: None,
    noted: None,
    pods: Pods { serve: false, ..asked().pods },
    ..asked()
})]
#[case::begun_anew(Facts { abandoned: Some(OLD), ..asked() })]
#[case::from_embedded(Facts { accepted: Some(of(&json!({}))), ..asked() })]
#[case::still_in_the_pod(Facts {
    pods: Pods { embedded: true, ..asked().pods },
    ..asked()
})]
fn what_is_no_move_is_carried_out(#[case] facts: Facts) {
    assert_eq!(facts.step(), Step::None);
    assert_eq!(facts.in_force(), None);
}

#[rstest]
#[case::of_ours(json!({"mode": "Managed"}))]
#[case::of_cloud_native_pg(json!({"mode": "CloudNativePG", "cloudNativePG": {"create": {}}}))]
fn every_postgresql_can_be_left_for_an_external_one(#[case] from: serde_json::Value) {
    let facts = Facts {
        accepted: Some(of(&from)),
        ..asked()
    };
    assert_eq!(facts.step(), Step::Tell);
    let back = Facts {
        accepted: Some(external("old")),
        wanted: of(&from),
        ..asked()
    };
    assert!(matches!(back.step(), Step::Refuse(why) if why.contains("back to External")));
}

#[test]
fn a_move_begins_when_the_database_can_be_used_and_every_pod_hears_of_it() {
    assert_eq!(asked().step(), Step::Tell);
    assert_eq!(asked().in_force().as_deref(), Some("old"));
    // What an earlier move has left there is the servers' business.
    let left = Facts {
        destination: Some(holding(Some("another"))),
        ..asked()
    };
    assert_eq!(left.step(), Step::Tell);
    let unknown = Facts {
        destination: None,
        ..asked()
    };
    assert_eq!(unknown.step(), Step::Look);
    assert_eq!(unknown.in_force().as_deref(), Some("old"));
    let away = Facts {
        destination: Some(Verdict::Unusable(Problem::new("Any", "it is away"))),
        ..asked()
    };
    assert_eq!(waits(&away), "it is away");
    for pods in [
        Pods {
            hear: false,
            ..asked().pods
        },
        Pods {
            rolled_out: false,
            ..asked().pods
        },
    ] {
        let facts = Facts { pods, ..asked() };
        assert!(waits(&facts).contains("all pods"));
    }
    let leaves = Facts {
        leaves: true,
        ..asked()
    };
    assert!(waits(&leaves).contains("deleted"));
    let silent = Facts {
        server: None,
        noted: None,
        ..asked()
    };
    assert!(waits(&silent).contains("has not said yet"));
    let of_before = Facts {
        secret: Some(Values::new()),
        ..asked()
    };
    assert_eq!(of_before.step(), Step::Clear);
    assert_eq!(of_before.in_force().as_deref(), Some("old"));
}

/// The Secret was deleted after the move, and pods were started anew.
#[test]
fn pods_that_do_not_find_the_reports_any_more_are_told_again() {
    let lost = |holds, hear, told: Option<&str>| Facts {
        server: told.map(|history| server(history, None)),
        destination: Some(holding(holds)),
        pods: Pods {
            serve: told.is_some(),
            rolled_out: false,
            hear,
            away: told.is_none(),
            ..asked().pods
        },
        ..asked()
    };
    assert_eq!(lost(Some(NEW), true, None).step(), Step::TellAgain);
    assert_eq!(lost(Some(NEW), true, Some(NEW)).step(), Step::TellAgain);
    let silent = "no server has answered yet";
    for (holds, hear, told, why) in [
        (None, true, None, silent),
        (Some(NEW), false, None, silent),
        // An ordinary rollout.
        (Some(NEW), true, Some(OLD), "all pods"),
    ] {
        assert!(waits(&lost(holds, hear, told)).contains(why), "{why}");
    }
}

#[rstest]
#[case::copies(MovePhase::Copying, Step::Tell)]
#[case::refused(MovePhase::Refused, Step::Tell)]
#[case::there(MovePhase::Moved, Step::Note(NEW.to_owned()))]
#[case::given_up(MovePhase::GivenUp, Step::GivenUp)]
fn the_old_specification_stays_in_force_until_the_history_is_noted(
    #[case] phase: MovePhase,
    #[case] expected: Step,
) {
    let facts = under_way(ordered(None), phase);
    assert_eq!(facts.step(), expected);
    assert_eq!(facts.in_force().as_deref(), Some("old"));
}

#[test]
fn a_server_that_tells_of_an_earlier_order_tells_nothing_of_this_one() {
    let mut facts = under_way(ordered(None), MovePhase::Moved);
    let told = facts
        .server
        .as_mut()
        .and_then(|server| server.move_.as_mut());
    told.unwrap().target = "External (secret new), generation 2".to_owned();
    assert_eq!(facts.step(), Step::Tell);
}

/// Otherwise it could never be given up.
#[test]
fn an_order_without_a_name_is_the_one_that_a_server_tells_of_without_a_name() {
    let mut secret = taken_back();
    secret.remove(move_file::TARGET);
    let mut facts = under_way(secret, MovePhase::GivenUp);
    assert_eq!(facts.step(), Step::GiveUp);
    let told = facts
        .server
        .as_mut()
        .and_then(|server| server.move_.as_mut());
    told.unwrap().target.clear();
    assert_eq!(facts.step(), Step::GivenUp);
}

#[rstest]
#[case::set_back("old", ordered(None), MovePhase::Copying, Step::GiveUp)]
#[case::elsewhere("third", ordered(None), MovePhase::Copying, Step::GiveUp)]
#[case::not_heard_yet("old", taken_back(), MovePhase::Comparing, Step::GiveUp)]
#[case::wanted_again("new", taken_back(), MovePhase::Comparing, Step::GiveUp)]
#[case::heard("old", taken_back(), MovePhase::GivenUp, Step::GivenUp)]
#[case::too_late("old", taken_back(), MovePhase::Moved, Step::Note(NEW.to_owned()))]
fn an_order_is_taken_back_once_and_the_servers_have_the_last_word(
    #[case] wanted: &str,
    #[case] secret: Values,
    #[case] phase: MovePhase,
    #[case] expected: Step,
) {
    let facts = Facts {
        wanted: external(wanted),
        ..under_way(secret, phase)
    };
    assert_eq!(facts.step(), expected);
    assert_eq!(facts.in_force().as_deref(), Some("old"));
}

#[test]
fn a_silent_server_has_neither_moved_nor_given_up() {
    let silent = Facts {
        server: None,
        ..under_way(taken_back(), MovePhase::GivenUp)
    };
    assert_eq!(silent.step(), Step::GiveUp);
}

#[test]
fn an_order_outlives_a_deletion_and_ends_where_the_reports_are_given_up() {
    let leaves = Facts {
        leaves: true,
        wanted: external("old"),
        ..under_way(ordered(None), MovePhase::Copying)
    };
    assert_eq!(leaves.step(), Step::Keep);
    let anew = Facts {
        abandoned: Some(OLD),
        ..under_way(ordered(None), MovePhase::Waiting)
    };
    assert_eq!(anew.step(), Step::GivenUp);
}

/// From the note on, nothing that a server says counts any more.
#[rstest]
#[case::asked_for("new", None)]
#[case::set_back("old", Some("new"))]
#[case::elsewhere("third", Some("new"))]
fn what_has_moved_is_carried_out_before_anything_else(
    #[case] wanted: &str,
    #[case] in_force: Option<&str>,
) {
    let facts = Facts {
        wanted: external(wanted),
        server: None,
        ..under_way(ordered(Some(NEW)), MovePhase::Moved)
    };
    assert_eq!(facts.step(), Step::Switch(NEW.to_owned()));
    assert_eq!(facts.in_force().as_deref(), in_force);
}

#[rstest]
#[case::not_in_the_status(Some(OLD), true, Step::Finish(NEW.to_owned()))]
#[case::pods_of_before(Some(NEW), false, Step::Finish(NEW.to_owned()))]
#[case::done(Some(NEW), true, Step::Over(NEW.to_owned()))]
fn the_secret_goes_when_nobody_needs_it(
    #[case] noted: Option<&'static str>,
    #[case] rolled_out: bool,
    #[case] expected: Step,
) {
    for wanted in ["new", "old"] {
        let facts = Facts {
            accepted: Some(external("new")),
            wanted: external(wanted),
            noted,
            pods: Pods {
                rolled_out,
                ..asked().pods
            },
            ..under_way(ordered(Some(NEW)), MovePhase::Moved)
        };
        assert_eq!(facts.step(), expected);
        let in_force = (wanted == "old").then_some("new");
        assert_eq!(facts.in_force().as_deref(), in_force);
        let found = Found {
            step: facts.step(),
            ..Found::default()
        };
        assert_eq!(found.history(), Some(NEW));
    }
}

#[test]
fn a_suspension_is_heard_whatever_is_in_force() {
    let mut facts = asked();
    facts.wanted.suspend = Some(true);
    let seen = facts.seen();
    let spec = in_force(&step(&seen), &seen).unwrap();
    assert_eq!(spec.suspend, Some(true));
}

fn postgres() -> Postgres {
    let connection = external("new").database.unwrap().external.unwrap();
    Postgres {
        mode: DatabaseMode::External,
        cluster_identity: "ours".to_owned(),
        cluster_name: None,
        max_connections: 16,
        connection: crate::database::external::connection(&connection),
        managed: None,
    }
}

#[test]
fn an_order_keeps_its_names_and_gets_the_newest_parameters() {
    let postgres = postgres();
    let asked = |generation| Asked {
        uid: "uid-1",
        generation,
        postgres: &postgres,
    };
    let files = |password: &str| Values::from([("password".to_owned(), password.into())]);
    let first = order(asked(4), None, files("a"), &notes(None));
    assert_eq!(first[move_file::TARGET], TARGET.as_bytes());
    assert_eq!(first[move_file::ORDER], b"uid-1/4");
    assert_eq!(first[move_file::CLUSTER_IDENTITY], b"ours");
    let second = order(asked(5), Some(&first), files("b"), &notes(None));
    assert_eq!(second["password"], b"b");
    for key in [move_file::TARGET, move_file::ORDER] {
        assert_eq!(second[key], first[key]);
    }
    let another = order(asked(5), None, files("a"), &notes(None));
    assert_ne!(another[move_file::TARGET], first[move_file::TARGET]);
    assert_ne!(another[move_file::ORDER], first[move_file::ORDER]);
}

#[test]
fn the_note_is_all_that_is_added_when_the_reports_have_moved() {
    let before = ordered(None);
    let after = noted(before.clone(), NEW);
    assert_eq!(Notes::read(&after), Some(notes(Some(NEW))));
    assert_eq!(after[move_file::TARGET], before[move_file::TARGET]);
    assert!(is_order(&after) && !is_order(&Values::new()));
    assert_eq!(noted(taken_back(), NEW), after, "it was too late");
}

#[test]
fn what_nobody_knows_any_more_is_not_replaced_by_another_mode() {
    let lost = |from, to: &serde_json::Value| Facts {
        accepted: None,
        mode: Some(from),
        wanted: of(to),
        ..asked()
    };
    let external =
        json!({"mode": "External", "external": {"connectionSecretRef": {"name": "new"}}});
    let managed = json!({"mode": "Managed"});
    // The servers find out that it is another one.
    assert_eq!(lost(DatabaseMode::External, &external).step(), Step::None);
    assert_eq!(lost(DatabaseMode::Managed, &managed).step(), Step::None);
    let refused = lost(DatabaseMode::Managed, &external).step();
    assert!(matches!(refused, Step::Refuse(why) if why.contains("back to Managed")));
    // The notes of a move know it.
    let ordered = Facts {
        accepted: None,
        ..under_way(ordered(None), MovePhase::Copying)
    };
    assert_eq!(ordered.step(), Step::Tell);
    assert_eq!(ordered.in_force().as_deref(), Some("old"));
}

#[test]
fn a_managed_database_is_not_left_for_itself_or_a_copy() {
    let same = |is_usable| Facts {
        accepted: Some(of(&json!({"mode": "Managed"}))),
        destination: Some(holding(Some(OLD))),
        is_usable,
        ..asked()
    };
    assert!(matches!(same(true).step(), Step::Refuse(why) if why.contains("empty database")));
    // It is lost, and a backup of it was restored.
    assert_eq!(same(false).step(), Step::None);
}

#[test]
fn servers_that_do_not_move_reports_get_no_order() {
    let mut facts = asked();
    facts.server.as_mut().unwrap().can_move = false;
    assert!(waits(&facts).contains("spec.images.server"));
}

/// It may be one that does not follow, or that has the reports elsewhere.
#[test]
fn nobody_is_told_before_a_server_has_answered() {
    let facts = Facts {
        server: None,
        ..asked()
    };
    assert!(waits(&facts).contains("no server has answered"));
}

/// The Secret was deleted, and another order given, before anybody noted the end.
#[test]
fn reports_that_have_moved_by_an_order_of_before_are_found() {
    let mut facts = under_way(ordered(None), MovePhase::Moved);
    let told = facts
        .server
        .as_mut()
        .and_then(|server| server.move_.as_mut());
    told.unwrap().target = "External (secret new), generation 2".to_owned();
    facts.destination = Some(holding(Some(NEW)));
    assert_eq!(facts.step(), Step::Note(NEW.to_owned()));
}

#[test]
fn a_destination_that_is_given_up_needs_no_order() {
    let facts = Facts {
        accepted: Some(external("new")),
        abandoned: Some(NEW),
        noted: Some(NEW),
        ..under_way(ordered(Some(NEW)), MovePhase::Moved)
    };
    assert_eq!(facts.step(), Step::GivenUp);
}
