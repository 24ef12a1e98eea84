//! Everything that is kept while a specification is refused or suspended.

use super::*;
use crate::controller::found::Found;
use crate::controller::validate::Refusal;

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

fn as_found(applied: Applied) -> Found {
    Found {
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
