//! The move of an embedded database.

use crds::control::{DatabaseMove, MovePhase};
use crds::v1alpha1::spec::DatabaseMode;
use crds::v1alpha1::status::MigrationPhase;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::*;
use crate::database::moving::{Moving, is_on_claim};
use crate::database::place::Storage;

fn moving(storage: Storage, phase: Option<MovePhase>) -> Moving {
    Moving {
        template: None,
        storage,
        secret: None,
        told: phase.map(|phase| DatabaseMove {
            phase,
            target: "Managed".to_owned(),
            attempts: 1,
            objects_copied: 3,
            objects_total: 7,
            sequence: 0,
            held_milliseconds: None,
            message: String::new(),
        }),
        waits_for: None,
    }
}

fn status_while(
    moving: Option<Moving>,
    before: Option<ReportsServerStatus>,
) -> ReportsServerStatus {
    status_on(&on_postgres(true, None), moving, before)
}

fn status_on(
    applied: &Applied,
    moving: Option<Moving>,
    before: Option<ReportsServerStatus>,
) -> ReportsServerStatus {
    let mut object = managed_object();
    object.status = before;
    let mut spec = validated(serde_json::to_value(&object.spec).unwrap());
    spec.moving = moving;
    let certs = issued();
    let state = State::Applied {
        spec: &spec,
        refusal: None,
        applied,
        certs: &certs,
        database: None,
    };
    let groups = [group(MigrationPhase::Completed, ServedBy::Server)];
    compute(&object, &state, &groups, at(0))
}

fn claim() -> Storage {
    Storage::Claim {
        size: Quantity::default(),
        class: None,
    }
}

/// From the status it is known where the reports are when nothing else tells: see [`is_on_claim`].
#[test]
fn until_the_reports_have_moved_the_status_says_where_they_were() {
    for phase in [None, Some(MovePhase::Copying)] {
        let status = status_while(Some(moving(claim(), phase)), None);
        assert!(is_on_claim(&status));
        let database = status.database.as_ref().unwrap();
        assert_eq!(database.mode, Some(DatabaseMode::Embedded));
        assert_eq!(database.volume_claim.as_deref(), Some("simple-data"));
        assert_eq!((&database.host, &database.primary), (&None, &None));
        assert_eq!(database.move_.is_some(), phase.is_some());
        assert_eq!(kstatus(&status, 3), "InProgress");
        let ready = condition(&status, types::READY);
        assert_eq!(ready, Some(("True", reasons::SERVING)));
    }
    let size = Quantity("1Gi".to_owned());
    let status = status_while(Some(moving(Storage::EmptyDir { size }, None)), None);
    assert!(!is_on_claim(&status));
}

#[test]
fn when_they_have_it_says_where_they_are() {
    let copying = moving(claim(), Some(MovePhase::Copying));
    let before = status_while(Some(copying), None);
    assert_eq!(
        condition(&before, types::DATABASE_MOVED),
        Some(("False", reasons::MOVING))
    );
    let status = status_while(None, Some(before));
    assert_eq!(
        condition(&status, types::DATABASE_MOVED),
        Some(("True", reasons::MOVED))
    );
    assert!(!is_on_claim(&status));
    let database = status.database.unwrap();
    assert_eq!(database.mode, Some(DatabaseMode::Managed));
    assert_eq!(
        database.volume_claim.as_deref(),
        Some("simple-postgres-data")
    );
    assert_eq!(database.move_, None);
}

/// A new volume that is not bound, or a pod that does not start, is no trouble of what serves.
#[test]
fn the_new_database_is_waited_for_and_the_old_one_serves() {
    let mut waiting = moving(claim(), None);
    waiting.waits_for = Some("PostgreSQL has to be ready first".to_owned());
    let mut unbound = on_postgres(false, None);
    unbound.managed.as_mut().unwrap().data.claim.status = None;
    let pending = "PersistentVolumeClaim simple-postgres-data is not bound";
    waits(&waiting, &unbound, pending);
    waits(&waiting, &on_postgres(false, None), "no space left");
}

fn waits(waiting: &Moving, applied: &Applied, expected: &str) {
    let status = status_on(applied, Some(waiting.clone()), None);
    let is = |type_| condition(&status, type_);
    assert_eq!(
        is(types::DATABASE_READY),
        Some(("True", reasons::DATABASE_AVAILABLE))
    );
    assert_eq!(is(types::READY), Some(("True", reasons::SERVING)));
    assert_eq!(
        is(types::DATABASE_MOVED),
        Some(("False", reasons::MOVE_WAITING))
    );
    let mut conditions = status.conditions.iter();
    let moved = conditions.find(|c| c.type_ == types::DATABASE_MOVED);
    let message = &moved.unwrap().message;
    assert!(message.starts_with("PostgreSQL has to be ready first: "));
    assert!(message.contains(expected), "{message}");
}
