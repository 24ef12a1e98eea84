//! Everything that is kept while a specification is refused or suspended.

use super::*;
use crate::controller::found::{Found, Part, Unkept};
use crate::controller::validate::{Refusal, Validated};

#[test]
fn a_refused_specification_stalls_and_leaves_the_rest_as_it_was() {
    let mut object = fixtures::object(spec());
    let groups = [group(MigrationPhase::Completed, ServedBy::Server)];
    object.status = Some(status_of(&object, &applied(true, true, true), &groups));
    object.metadata.generation = Some(4);
    let refusal = Refusal {
        reason: reasons::INVALID_SPEC,
        message: "spec.x: no".into(),
    };
    let status = compute(
        &object,
        &State::Refused {
            refusal: &refusal,
            found: None,
        },
        &groups,
        at(9),
    );
    assert_eq!(kstatus(&status, 4), "Failed");
    assert_eq!(
        condition(&status, types::STALLED),
        Some(("True", reasons::INVALID_SPEC))
    );
    let available = Some(("True", reasons::AS_EXPECTED));
    assert_eq!(condition(&status, types::SERVER_AVAILABLE), available);
    assert_eq!(status.served.as_deref(), Some("1/1"));
}

#[test]
fn a_server_whose_namespace_is_gone_is_not_available() {
    let mut object = fixtures::object(spec());
    let groups = [group(MigrationPhase::Completed, ServedBy::Server)];
    object.status = Some(status_of(&object, &applied(true, true, true), &groups));
    let refusal = Refusal {
        reason: reasons::TARGET_NAMESPACE_MISSING,
        message: "namespace target is being deleted".into(),
    };
    let state = State::Refused {
        refusal: &refusal,
        found: None,
    };
    let status = compute(&object, &state, &groups, at(9));
    let away = Some(("False", reasons::TARGET_NAMESPACE_MISSING));
    assert_eq!(condition(&status, types::SERVER_AVAILABLE), away);
    assert_eq!(condition(&status, types::READY), away);
}

/// Suspended, with the server as it is found.
fn suspended(
    object: &ReportsServer,
    found: Option<&Found>,
    groups: &[GroupStatus],
) -> ReportsServerStatus {
    let spec = validated(spec());
    let state = State::Suspended {
        finishing: false,
        spec: &spec,
        found,
    };
    compute(object, &state, groups, at(9))
}

/// Returns what is found of a server that is as it was applied.
pub(super) fn as_found(applied: Applied) -> Found {
    Found {
        backup_jobs: Vec::new(),
        unkept: Vec::new(),
        deployment: Some(applied.deployment),
        pods: applied.pods,
        stateful_set: None,
        control_api: applied.control_api,
        certs: issued(),
    }
}

#[test]
fn suspending_keeps_ready_and_says_so() {
    let mut object = fixtures::object(spec());
    let groups = [group(MigrationPhase::Completed, ServedBy::Server)];
    object.status = Some(status_of(&object, &applied(true, true, true), &groups));
    // Of an operator that has just started, too.
    let found = as_found(applied(true, true, true));
    for groups in [&[][..], &groups] {
        let status = suspended(&object, Some(&found), groups);
        assert_eq!(
            condition(&status, types::READY),
            Some(("True", reasons::SUSPENDED))
        );
        assert_eq!(kstatus(&status, 3), "Current");
        assert_eq!(
            status.migration.map(|migration| migration.phase),
            Some(object.status.clone().unwrap().migration.unwrap().phase),
            "what was reached stays shown"
        );
    }
}

#[test]
fn a_suspended_server_that_is_gone_is_not_ready_until_it_is_back() {
    let mut object = fixtures::object(spec());
    let groups = [group(MigrationPhase::Completed, ServedBy::Server)];
    object.status = Some(status_of(&object, &applied(true, true, true), &groups));
    let gone = Found {
        deployment: None,
        ..as_found(applied(true, true, true))
    };
    let unready = as_found(applied(false, true, true));
    for found in [gone, unready] {
        let status = suspended(&object, Some(&found), &groups);
        let away = Some(("False", reasons::PODS_NOT_READY));
        assert_eq!(condition(&status, types::SERVER_AVAILABLE), away);
        let not_ready = Some(("False", reasons::SUSPENDED));
        assert_eq!(condition(&status, types::READY), not_ready);
        let mut later = object.clone();
        later.status = Some(status);
        let back = as_found(applied(true, true, true));
        let status = suspended(&later, Some(&back), &groups);
        let ready = Some(("True", reasons::SUSPENDED));
        assert_eq!(condition(&status, types::READY), ready);
    }
}

#[test]
fn groups_and_backups_of_a_suspended_server_are_told() {
    let mut backed_up = spec();
    backed_up["database"] = json!({"backup": {}});
    let mut object = fixtures::object(backed_up.clone());
    let served = [group(MigrationPhase::Completed, ServedBy::Server)];
    object.status = Some(status_of(&object, &applied(true, true, true), &served));
    let job = json!({"metadata": {"name": "backup-1"}, "status": {"conditions": [
        {"type": "Failed", "status": "True", "lastTransitionTime": "2027-01-15T08:00:00Z"}]}});
    let found = Found {
        backup_jobs: vec![serde_json::from_value(job).unwrap()],
        ..as_found(applied(true, true, true))
    };
    let spec = validated(backed_up);
    let state = State::Suspended {
        finishing: false,
        spec: &spec,
        found: Some(&found),
    };
    let hijacked = [group(MigrationPhase::Completed, ServedBy::Foreign)];
    let status = compute(&object, &state, &hijacked, at(9));
    let registered = condition(&status, types::API_SERVICES_REGISTERED);
    assert_eq!(registered, Some(("False", reasons::PROGRESSING)));
    let backup = condition(&status, types::LAST_BACKUP_SUCCEEDED);
    assert_eq!(backup, Some(("False", reasons::BACKUP_FAILED)));
    let last = status.database.and_then(|database| database.last_backup);
    assert_eq!(last.and_then(|last| last.name).as_deref(), Some("backup-1"));
}

fn unkept(part: Part, foreign: bool) -> Unkept {
    Unkept {
        part,
        foreign,
        message: "cannot apply it".to_owned(),
    }
}

#[rstest]
#[case::certificates(Part::Certificates, types::CERTIFICATES_READY)]
#[case::server(Part::Server, types::SERVER_AVAILABLE)]
fn an_object_of_somebody_else_that_clients_would_meet_is_no_health(
    #[case] part: Part,
    #[case] type_: &str,
) {
    let mut object = fixtures::object(spec());
    let groups = [group(MigrationPhase::Completed, ServedBy::Server)];
    object.status = Some(status_of(&object, &applied(true, true, true), &groups));
    let found = Found {
        unkept: vec![unkept(part, true)],
        ..as_found(applied(true, true, true))
    };
    let status = suspended(&object, Some(&found), &groups);
    let foreign = Some(("False", reasons::FOREIGN_OBJECT));
    assert_eq!(condition(&status, type_), foreign);
    let ready = condition(&status, types::READY);
    assert_eq!(ready, Some(("False", reasons::SUSPENDED)));
    let reconciling = condition(&status, types::RECONCILING);
    assert_eq!(reconciling, Some(("True", reasons::APPLY_FAILED)));
}

#[rstest]
#[case::in_time(at(0), true)]
#[case::too_late(at(3600 * 24 * 365), false)]
fn a_certificate_that_cannot_be_stored_matters_when_the_old_one_has_ended(
    #[case] now: Timestamp,
    #[case] expected: bool,
) {
    let object = fixtures::object(spec());
    let kept = Validated {
        now,
        ..validated(spec())
    };
    let found = Found {
        unkept: vec![unkept(Part::Certificates, false)],
        ..as_found(applied(true, true, true))
    };
    let found = Some((&kept, &found));
    let state = State::failed("cannot apply it".to_owned(), None, found);
    let status = compute(&object, &state, &[], now);
    let (is, reason) = condition(&status, types::CERTIFICATES_READY).unwrap();
    assert_eq!(is == "True", expected, "{reason}");
}

#[test]
fn a_refused_specification_whose_children_cannot_be_kept_says_both() {
    let object = fixtures::object(spec());
    let kept = validated(spec());
    let found = Found {
        unkept: vec![unkept(Part::Server, false)],
        ..as_found(applied(true, true, true))
    };
    let refusal = Refusal {
        reason: reasons::INVALID_SPEC,
        message: "spec.x: no".into(),
    };
    let state = State::Refused {
        refusal: &refusal,
        found: Some((&kept, &found)),
    };
    let status = compute(&object, &state, &[], at(0));
    let stalled = status.conditions.iter().find(|c| c.type_ == types::STALLED);
    assert_eq!(stalled.unwrap().message, "spec.x: no; cannot apply it");
}

#[test]
fn how_the_server_is_that_waits_for_its_end_is_told() {
    let object = fixtures::object(spec());
    let kept = validated(spec());
    let found = as_found(applied(false, true, true));
    let state = State::Deleting {
        found: Some((&kept, &found)),
    };
    let groups = [group(MigrationPhase::RollingBack, ServedBy::Server)];
    let status = compute(&object, &state, &groups, at(0));
    let away = Some(("False", reasons::PODS_NOT_READY));
    assert_eq!(condition(&status, types::SERVER_AVAILABLE), away);
    let deleting = Some(("False", reasons::DELETING));
    assert_eq!(condition(&status, types::READY), deleting);
}

#[rstest]
#[case::with_what_is_kept(true)]
#[case::with_nothing(false)]
fn groups_on_their_way_back_from_a_server_that_goes_are_told(#[case] is_kept: bool) {
    let mut object = fixtures::object(spec());
    let mut groups = [group(MigrationPhase::Completed, ServedBy::Server)];
    object.status = Some(status_of(&object, &applied(true, true, true), &groups));
    let (kept, found) = (validated(spec()), as_found(applied(true, true, true)));
    let state = State::Deleting {
        found: is_kept.then_some((&kept, &found)),
    };
    groups[0].phase = MigrationPhase::RollingBack;
    let status = compute(&object, &state, &groups, at(0));
    let deleting = Some(("False", reasons::DELETING));
    for type_ in [types::API_SERVICES_REGISTERED, types::DATA_MIGRATED] {
        assert_eq!(condition(&status, type_), deleting, "{type_}");
    }
    let busy = Some(("False", reasons::PROGRESSING));
    assert_eq!(condition(&status, types::UPGRADEABLE), busy);
    let groups = [group(MigrationPhase::RolledBack, ServedBy::Crd)];
    let status = compute(&object, &state, &groups, at(0));
    let idle = Some(("True", reasons::AS_EXPECTED));
    assert_eq!(condition(&status, types::UPGRADEABLE), idle);
}

/// The last specification that could be carried out is in force; the status says both.
#[test]
fn what_is_kept_in_place_of_a_refused_specification_is_told() {
    let object = fixtures::object(spec());
    let certs = issued();
    let (spec, applied) = (validated(spec()), applied(false, true, true));
    let refusal = Refusal {
        reason: reasons::INVALID_SPEC,
        message: "spec.x: no".into(),
    };
    let state = State::Applied {
        spec: &spec,
        refusal: Some(&refusal),
        applied: &applied,
        certs: &certs,
        database: None,
    };
    let groups = [group(MigrationPhase::Completed, ServedBy::Server)];
    let status = compute(&object, &state, &groups, at(0));
    assert_eq!(kstatus(&status, 3), "Failed");
    let stalled = status.conditions.iter().find(|c| c.type_ == types::STALLED);
    let message = &stalled.unwrap().message;
    assert!(message.starts_with("spec.x: no; "), "{message}");
    assert!(message.contains("stays in force"), "{message}");
    let away = Some(("False", reasons::PODS_NOT_READY));
    assert_eq!(condition(&status, types::SERVER_AVAILABLE), away);
}
