//! The move from a PostgreSQL.

use crds::control::{DatabaseMove, MovePhase};
use crds::v1alpha1::spec::DatabaseMode;
use crds::v1alpha1::status::MigrationPhase;

use super::*;
use crate::controller::fixtures::between;
use crate::controller::validate::{Between, Home, Stage};

fn told(phase: MovePhase) -> DatabaseMove {
    DatabaseMove {
        phase,
        target: "External (secret new), generation 4".to_owned(),
        attempts: 1,
        objects_copied: 3,
        objects_total: 7,
        sequence: 0,
        held_milliseconds: None,
        message: "no room".to_owned(),
    }
}

fn status_while(
    between: Option<Between>,
    before: Option<ReportsServerStatus>,
) -> ReportsServerStatus {
    let external = json!({"mode": "External", "external": {"connectionSecretRef": {"name": "pg"}}});
    status_on(&external, true, between, before)
}

fn status_on(
    database: &Value,
    bound: bool,
    between: Option<Between>,
    before: Option<ReportsServerStatus>,
) -> ReportsServerStatus {
    let mut object = fixtures::object(json!({"apis": [{"group": GROUP, "owner": "Server"}],
        "database": database}));
    object.status = before;
    let mut spec = validated(serde_json::to_value(&object.spec).unwrap());
    spec.between = between;
    let (applied, certs) = (applied(true, true, bound), issued());
    let state = State::Applied {
        spec: &spec,
        refusal: None,
        applied: &applied,
        certs: &certs,
        database: None,
    };
    let groups = [group(MigrationPhase::Completed, ServedBy::Server)];
    compute(&object, &state, &groups, at(0))
}

fn message(status: &ReportsServerStatus) -> &str {
    let mut conditions = status.conditions.iter();
    let moved = conditions.find(|condition| condition.type_ == types::DATABASE_MOVED);
    &moved.unwrap().message
}

fn at_work(phase: MovePhase) -> Between {
    Between {
        told: Some(told(phase)),
        ..between(Stage::Moving)
    }
}

#[rstest]
#[case::copies(MovePhase::Copying, reasons::MOVING, "3 of 7 objects copied")]
#[case::waits(MovePhase::Waiting, reasons::MOVE_WAITING, "tries again soon: no room")]
#[case::refused(MovePhase::Refused, reasons::MOVE_REFUSED, "no room")]
fn how_far_a_move_is_and_what_waits_for_it_is_told(
    #[case] phase: MovePhase,
    #[case] reason: &str,
    #[case] words: &str,
) {
    let status = status_while(Some(at_work(phase)), None);
    let moved = condition(&status, types::DATABASE_MOVED);
    assert_eq!(moved, Some(("False", reason)));
    let message = message(&status);
    assert!(message.contains(words), "{message}");
    assert!(
        message.ends_with("wait for the end of the move"),
        "{message}"
    );
    assert_eq!(kstatus(&status, 3), "InProgress");
    let database = status.database.unwrap();
    assert_eq!(database.mode, Some(DatabaseMode::External));
    assert_eq!(database.move_.unwrap().objects_total, 7);
}

#[test]
fn where_the_reports_are_is_told_before_the_last_pod_is_replaced() {
    let before = status_while(Some(at_work(MovePhase::HandingOver)), None);
    let moved = Between {
        told: Some(told(MovePhase::Moved)),
        ..between(Stage::Moved)
    };
    let status = status_while(Some(moved), Some(before));
    let is = condition(&status, types::DATABASE_MOVED);
    assert_eq!(is, Some(("True", reasons::MOVED)));
    assert_eq!(
        message(&status),
        "the reports are in External (secret pg); keep External (secret old) until the last old \
         pod is replaced: such a pod finds the way there"
    );
    assert_eq!(status.database.as_ref().unwrap().move_, None);
    let status = status_while(Some(between(Stage::Over)), Some(status));
    assert_eq!(
        message(&status),
        "the reports are in External (secret pg); External (secret old) is no longer used: it \
         stays as it was"
    );
    assert_eq!(kstatus(&status, 3), "Current");
    // It stays true when there is nothing to do any more.
    let over = status_while(None, Some(status.clone()));
    assert_eq!(message(&over), message(&status));
}

#[test]
fn reports_that_have_moved_to_a_volume_are_there() {
    let embedded = json!({"mode": "Embedded"});
    let status = status_on(&embedded, true, Some(between(Stage::Moved)), None);
    let is = condition(&status, types::DATABASE_MOVED);
    assert_eq!(is, Some(("True", reasons::MOVED)));
    let words = "the reports are in the embedded database, on simple-data; keep External";
    assert!(message(&status).starts_with(words), "{}", message(&status));
    let database = status.database.unwrap();
    assert_eq!(database.mode, Some(DatabaseMode::Embedded));
    assert_eq!(database.history, None);
}

/// The volume to which they are only on their way says nothing of the database that serves.
#[test]
fn a_volume_that_is_not_there_yet_does_not_make_the_database_unready() {
    let external = json!({"mode": "External", "external": {"connectionSecretRef": {"name": "pg"}}});
    let home = Home {
        storage: None,
        template: None,
    };
    let prepares = Between {
        home: Some(home),
        waits_for: Some("one server takes the place of all".to_owned()),
        ..between(Stage::Waiting)
    };
    let status = status_on(&external, false, Some(prepares), None);
    let ready = condition(&status, types::DATABASE_READY);
    assert!(matches!(ready, Some(("True", _))), "{ready:?}");
    let is = condition(&status, types::DATABASE_MOVED);
    assert_eq!(is, Some(("False", reasons::MOVE_WAITING)));
    assert!(message(&status).starts_with("one server takes the place of all; "));
    assert_eq!(status.database.unwrap().mode, Some(DatabaseMode::External));
}

#[test]
fn a_move_that_was_given_up_is_told() {
    let giving_up = status_while(Some(between(Stage::GivingUp)), None);
    let given_up = Some(("False", reasons::MOVE_GIVEN_UP));
    assert_eq!(condition(&giving_up, types::DATABASE_MOVED), given_up);
    assert_eq!(kstatus(&giving_up, 3), "InProgress");
    let over = status_while(None, Some(giving_up));
    assert_eq!(condition(&over, types::DATABASE_MOVED), given_up);
    assert_eq!(message(&over), "the reports stay in External (secret pg)");
    assert_eq!(kstatus(&over, 3), "Current");
}

/// Another way to the same database is no move.
#[test]
fn what_came_to_nothing_leaves_no_trace() {
    let looking = status_while(Some(between(Stage::Looking)), None);
    assert_eq!(condition(&looking, types::DATABASE_MOVED), None);
    assert_eq!(kstatus(&looking, 3), "InProgress");
    let waiting = Between {
        waits_for: Some("the certificate is not trusted".to_owned()),
        ..between(Stage::Waiting)
    };
    let waiting = status_while(Some(waiting), Some(looking));
    let is = condition(&waiting, types::DATABASE_MOVED);
    assert_eq!(is, Some(("False", reasons::MOVE_WAITING)));
    assert!(message(&waiting).starts_with("the certificate is not trusted; "));
    let over = status_while(None, Some(waiting));
    assert_eq!(condition(&over, types::DATABASE_MOVED), None);
    assert_eq!(kstatus(&over, 3), "Current");
}
