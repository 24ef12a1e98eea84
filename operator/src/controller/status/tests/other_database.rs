//! A database that is not the one in use.

use crds::v1alpha1::status::{MigrationPhase, ServedBy};
use crds::v1alpha1::{ReportsServer, conditions as types, reasons};
use kube::runtime::events::EventType;
use rstest::rstest;
use serde_json::{Value, json};

use super::kept::as_found;
use super::{State, applied, at, compute, condition, fixtures, group, issued, status_of};
use crate::controller::found::{Dereferenced, Inside};
use crate::controller::validate::validate;
use crate::database::check::Verdict;
use crate::database::files::{Objects, Problem, Values};
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

/// Returns a server that was ready, on a database of which the operator has found that it cannot be
/// used.
fn unusable(server: &Value, reason: &'static str) -> (ReportsServer, Dereferenced) {
    let mut object = fixtures::object(json!({"server": server, "database": {"mode": "External",
        "external": {"connectionSecretRef": {"name": "pg"}, "sslMode": "disable"}}}));
    let groups = [group(MigrationPhase::Completed, ServedBy::Server)];
    object.status = Some(status_of(&object, &applied(true, true, true), &groups));
    let pairs = [("host", "db"), ("dbname", "d"), ("username", "u")];
    let pairs = pairs.map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec()));
    let inside = Inside {
        connection: Objects {
            secrets: [("pg".to_owned(), Some(Values::from(pairs)))].into(),
            ..Objects::default()
        },
        verdict: Some(Verdict::Unusable(Problem::new(reason, "no"))),
        ..Inside::default()
    };
    let read = Dereferenced {
        inside,
        ..fixtures::read()
    };
    (object, read)
}

/// The pods of a server stay ready without its database, so they say nothing about it.
#[rstest]
#[case::dead(reasons::DATABASE_UNREACHABLE, None)]
#[case::other(reasons::OTHER_DATABASE, Some(("True", reasons::OTHER_DATABASE)))]
fn a_database_that_cannot_be_used_is_told_where_nothing_is_carried_out(
    #[case] reason: &'static str,
    #[case] stalled: Option<(&str, &str)>,
) {
    let (object, read) = unusable(&json!({}), reason);
    let spec = validate(&object, &read).unwrap();
    let found = as_found(applied(true, true, true));
    let failed = || State::failed("cannot apply".to_owned(), None, Some((&spec, &found)));
    let suspended = State::Suspended {
        finishing: false,
        spec: &spec,
        found: Some(&found),
    };
    let groups = [group(MigrationPhase::Completed, ServedBy::Server)];
    for state in [suspended, failed()] {
        let status = compute(&object, &state, &groups, at(9));
        let database = condition(&status, types::DATABASE_READY);
        assert_eq!(database, Some(("False", reason)));
        let ready = condition(&status, types::READY).map(|(is, _)| is);
        assert_eq!(ready, Some("False"));
        assert_eq!(condition(&status, types::STALLED), stalled);
    }
    // What has failed is told beside it.
    let status = compute(&object, &failed(), &groups, at(9));
    let mut conditions = status.conditions.iter();
    assert!(conditions.any(|told| told.message.ends_with("cannot apply")));
}

#[rstest]
#[case::dead(reasons::DATABASE_UNREACHABLE)]
#[case::other(reasons::OTHER_DATABASE)]
fn a_database_that_cannot_be_used_is_told_beside_a_refusal(#[case] reason: &'static str) {
    let account = json!({"serviceAccount": {"name": "theirs"}});
    let (object, read) = unusable(&account, reason);
    let refused = validate(&object, &read).unwrap_err();
    assert_eq!(refused.refusal.reason, reasons::NOT_ALLOWED);
    let spec = refused.spec.unwrap();
    let found = as_found(applied(true, true, true));
    let leaving = Some((&*spec, &found));
    let state = State::Refused {
        refusal: &refused.refusal,
        found: leaving,
    };
    for state in [state, State::Deleting { found: leaving }] {
        let status = compute(&object, &state, &[], at(9));
        let database = condition(&status, types::DATABASE_READY);
        assert_eq!(database, Some(("False", reason)));
    }
}

/// The reports are where the server that runs has them, whatever a refused specification wants.
#[test]
fn a_database_in_the_pod_is_judged_by_its_server_until_it_is_left() {
    let (object, read) = unusable(&json!({}), reasons::DATABASE_UNREACHABLE);
    let spec = validate(&object, &read).unwrap();
    let mut found = as_found(applied(true, true, true));
    let pod = json!({"containers": [{"name": "server", "args": ["--database=/db"]}]});
    let deployment = found.deployment.as_mut().and_then(|d| d.spec.as_mut());
    deployment.unwrap().template.spec = serde_json::from_value(pod).unwrap();
    let state = State::Suspended {
        finishing: false,
        spec: &spec,
        found: Some(&found),
    };
    let status = compute(&object, &state, &[], at(9));
    let database = condition(&status, types::DATABASE_READY);
    assert_eq!(database, Some(("True", reasons::DATABASE_AVAILABLE)));
}
