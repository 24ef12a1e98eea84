//! Steps that failed, and refusals of rights: those of a kube-apiserver that has just started, and
//! missing rights.

use std::time::Duration;

use super::kept::as_found;
use super::*;
use crate::controller::found::Found;
use crate::controller::status::tells_forbidden;
use crate::refusals::Meaning;

const MESSAGE: &str = "cannot read Secret target/a: secrets is forbidden";

fn refused(object: &ReportsServer, meaning: Meaning) -> ReportsServerStatus {
    let state = State::failed(MESSAGE.to_owned(), Some(meaning), None);
    compute(object, &state, &[], at(0))
}

fn told<'a>(status: &'a ReportsServerStatus, type_: &str) -> Option<&'a str> {
    let found = status.conditions.iter().find(|c| c.type_ == type_);
    found.map(|condition| condition.message.as_str())
}

#[test]
fn a_refusal_that_may_pass_is_progress_and_says_why() {
    let mut object = fixtures::object(spec());
    let status = refused(&object, Meaning::Passing(Duration::from_secs(1)));
    assert_eq!(kstatus(&status, 3), "InProgress");
    assert_eq!(condition(&status, types::STALLED), None);
    let message = told(&status, types::RECONCILING).unwrap();
    assert!(message.starts_with(MESSAGE), "{message}");
    assert!(message.contains("has just started"), "{message}");
    object.status = Some(status);
    assert!(!tells_forbidden(&object));
}

#[test]
fn a_refusal_that_stays_is_a_missing_right() {
    let mut object = fixtures::object(spec());
    let status = refused(&object, Meaning::Missing);
    assert_eq!(kstatus(&status, 3), "Failed");
    let stalled = condition(&status, types::STALLED);
    assert_eq!(stalled, Some(("True", reasons::FORBIDDEN)));
    assert_eq!(told(&status, types::STALLED), Some(MESSAGE));
    object.status = Some(status);
    assert!(tells_forbidden(&object));
}

#[test]
fn a_missing_right_is_told_with_the_rule_that_gives_it() {
    let object = fixtures::object(spec());
    let said = format!(
        "{MESSAGE}: User \"o\" cannot get resource \"secrets\" in API group \"\" in the \
         namespace \"target\""
    );
    let state = State::failed(said.clone(), Some(Meaning::Missing), None);
    let status = compute(&object, &state, &[], at(0));
    let rule = "{apiGroups: [\"\"], resources: [\"secrets\"], verbs: [\"get\"]}";
    let told = told(&status, types::STALLED).unwrap();
    assert!(told.starts_with(&said) && told.contains(rule), "{told}");
}

#[test]
fn another_error_is_told_as_it_is() {
    let object = fixtures::object(spec());
    let state = State::failed("no answer".to_owned(), None, None);
    let status = compute(&object, &state, &[], at(0));
    assert_eq!(told(&status, types::RECONCILING), Some("no answer"));
    assert_eq!(condition(&status, types::STALLED), None);
}

#[test]
fn a_failed_step_does_not_make_unready_what_is_served() {
    let mut object = fixtures::object(spec());
    let groups = [group(MigrationPhase::Completed, ServedBy::Server)];
    object.status = Some(status_of(&object, &applied(true, true, true), &groups));
    let state = State::Failed {
        message: "cannot apply".into(),
        forbidden: false,
        found: None,
    };
    let status = compute(&object, &state, &groups, at(9));
    assert_eq!(
        condition(&status, types::READY),
        Some(("True", reasons::SERVING))
    );
    assert_eq!(
        condition(&status, types::RECONCILING),
        Some(("True", reasons::APPLY_FAILED))
    );
    assert_eq!(kstatus(&status, 3), "InProgress");
}

/// A webhook that answers 500 says nothing about the pods, which are looked at all the same.
#[test]
fn a_failed_step_does_not_hide_how_the_server_is() {
    let mut object = fixtures::object(spec());
    let groups = [group(MigrationPhase::Completed, ServedBy::Server)];
    object.status = Some(status_of(&object, &applied(true, true, true), &groups));
    let kept = validated(spec());
    let failed = |object: &ReportsServer, found: &Found| {
        let found = Some((&kept, found));
        let state = State::failed("cannot apply".to_owned(), None, found);
        compute(object, &state, &groups, at(9))
    };
    let away = failed(&object, &as_found(applied(false, true, true)));
    let not_ready = Some(("False", reasons::PODS_NOT_READY));
    assert_eq!(condition(&away, types::SERVER_AVAILABLE), not_ready);
    let ready = condition(&away, types::READY);
    assert_eq!(ready, Some(("False", reasons::DEPENDENCY_NOT_READY)));
    let reconciling = Some(("True", reasons::APPLY_FAILED));
    assert_eq!(condition(&away, types::RECONCILING), reconciling);
    assert_eq!(told(&away, types::RECONCILING), Some("cannot apply"));
    object.status = Some(away);
    let back = failed(&object, &as_found(applied(true, true, true)));
    let ready = condition(&back, types::READY);
    assert_eq!(ready, Some(("True", reasons::SERVING)));
    assert_eq!(condition(&back, types::RECONCILING), reconciling);
}

#[rstest]
#[case(false, "InProgress")]
#[case(true, "Failed")]
fn a_failed_step_is_told(#[case] forbidden: bool, #[case] expected: &str) {
    let object = fixtures::object(spec());
    let state = State::Failed {
        message: "cannot apply".into(),
        forbidden,
        found: None,
    };
    let status = compute(&object, &state, &[], at(0));
    assert_eq!(kstatus(&status, 3), expected);
    let message = &status
        .conditions
        .iter()
        .find(|c| c.type_ == types::READY)
        .unwrap()
        .message;
    assert_eq!(message, "cannot apply");
}

#[test]
fn a_deletion_that_fails_is_told_with_how_the_server_is() {
    let mut object = fixtures::object(spec());
    let groups = [group(MigrationPhase::Completed, ServedBy::Server)];
    object.status = Some(status_of(&object, &applied(true, true, true), &groups));
    let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(9));
    object.metadata.deletion_timestamp = Some(now);
    let (kept, found) = (validated(spec()), as_found(applied(false, true, true)));
    let found = Some((&kept, &found));
    let state = State::failed("cannot give it back".to_owned(), None, found);
    let status = compute(&object, &state, &groups, at(9));
    let ready = condition(&status, types::READY);
    assert_eq!(ready, Some(("False", reasons::DELETING)));
    assert_eq!(told(&status, types::READY), Some("cannot give it back"));
    let away = Some(("False", reasons::PODS_NOT_READY));
    assert_eq!(condition(&status, types::SERVER_AVAILABLE), away);
}
