//! A database that is not the one in use.

use crds::v1alpha1::{conditions as types, reasons};
use kube::runtime::events::EventType;
use serde_json::json;

use super::{State, applied, at, compute, condition, fixtures, issued};
use crate::database::files::Problem;
use crate::database::known::Known;
use crate::events;

#[test]
fn another_database_stalls_and_is_told_once() {
    let object = fixtures::object(json!({"database": {"mode": "External",
        "external": {"connectionSecretRef": {"name": "pg"}}}}));
    let spec = fixtures::validated_object(&object);
    let words = "the database at db:5432 is not the one that holds the reports";
    let known = Known::problem(Problem::new(reasons::OTHER_DATABASE, words), None);
    let (applied, certs) = (applied(true, true, true), issued());
    let state = State::Applied {
        spec: &spec,
        refusal: None,
        applied: &applied,
        certs: &certs,
        database: Some(&known),
    };
    let status = compute(&object, &state, &[], at(0));
    let reason = reasons::OTHER_DATABASE;
    for type_ in [types::READY, types::DATABASE_READY] {
        assert_eq!(
            condition(&status, type_),
            Some(("False", reason)),
            "{type_}"
        );
    }
    assert_eq!(condition(&status, types::STALLED), Some(("True", reason)));
    assert_eq!(condition(&status, types::RECONCILING), None);

    let told = events::transitions(&[], &status.conditions);
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].type_, EventType::Warning);
    assert_eq!(told[0].reason, reason);
    assert_eq!(told[0].note.as_deref(), Some(words));
}

#[test]
fn the_history_in_use_is_in_the_status() {
    let mut object = fixtures::object(json!({"database": {"mode": "External",
        "external": {"connectionSecretRef": {"name": "pg"}}}}));
    let mut spec = fixtures::validated_object(&object);
    spec.history = Some("h".to_owned());
    let (applied, certs) = (applied(true, true, true), issued());
    let state = State::Applied {
        spec: &spec,
        refusal: None,
        applied: &applied,
        certs: &certs,
        database: None,
    };
    let status = compute(&object, &state, &[], at(0));
    let history = status
        .database
        .as_ref()
        .and_then(|database| database.history.clone());
    assert_eq!(history.as_deref(), Some("h"));
    // The next reconciliation goes on from it.
    object.status = Some(status);
    let spec = fixtures::validated_object(&object);
    assert_eq!(spec.history.as_deref(), Some("h"));
}
