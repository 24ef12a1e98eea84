//! Certificates that need attention.

use super::*;

fn with_certificates(certs: &certs::Outcome) -> ReportsServerStatus {
    let object = fixtures::object(spec());
    let (spec, applied) = (validated(spec()), applied(true, true, true));
    let state = State::Applied {
        spec: &spec,
        refusal: None,
        applied: &applied,
        certs,
        database: None,
    };
    let groups = [group(MigrationPhase::Completed, ServedBy::Server)];
    compute(&object, &state, &groups, at(0))
}

#[test]
fn a_certificate_that_cannot_be_used_is_told_with_the_one_in_use() {
    let mut certs = issued();
    let message = "spec.tls.provided.secretRef: wrong".to_owned();
    certs.problem = Some(certs::Problem::new(
        reasons::CERTIFICATE_INVALID,
        message.clone(),
    ));
    let status = with_certificates(&certs);
    assert_eq!(kstatus(&status, 3), "Failed");
    let invalid = Some(("False", reasons::CERTIFICATE_INVALID));
    assert_eq!(condition(&status, types::CERTIFICATES_READY), invalid);
    let told = status.conditions.iter().find(|c| c.type_ == types::STALLED);
    let told = &told.unwrap().message;
    assert!(told.starts_with(&message), "{told}");
    assert!(told.contains("the one in use stays"), "{told}");

    certs.problem = Some(certs::Problem::waiting(
        reasons::CERTIFICATE_NOT_READY,
        message,
    ));
    let status = with_certificates(&certs);
    assert_eq!(condition(&status, types::STALLED), None);
    assert_eq!(kstatus(&status, 3), "InProgress");
}

#[test]
fn the_end_of_a_certificate_is_told_while_everything_is_served() {
    let mut certs = issued();
    certs.expiring = true;
    let status = with_certificates(&certs);
    let expiring = Some(("True", reasons::CERTIFICATE_EXPIRING));
    assert_eq!(condition(&status, types::CERTIFICATES_READY), expiring);
    let events = crate::events::transitions(&[], &status.conditions);
    let warns = |event: &kube::runtime::events::Event| {
        event.reason == reasons::CERTIFICATE_EXPIRING && event.action == "WatchCertificate"
    };
    assert!(events.iter().any(warns));
}
