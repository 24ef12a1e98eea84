//! The CRD of the last release, with and without some of its fields.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::runtime::events::EventType;
use kube::runtime::watcher::{self, Event};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::metrics::Metrics;

const EFFECTIVE: &str = "properties/status/properties/effective";
const PHASE: &str = "properties/status/properties/tls/properties/phase/enum/Overlap";
const SERVED_BY: &str = "properties/status/properties/apis/items/properties/servedBy/enum/Foreign";
const NOT_AFTER: &str = "properties/status/properties/tls/properties/notAfter";
const SUSPEND: &str = "properties/spec/properties/suspend";

/// Returns the CRD of the last release, without what is at these places of its schema.
fn without(places: &[&str]) -> CustomResourceDefinition {
    let text = include_str!("../../../crds/tests/fixtures/last-release.yaml");
    let mut crd: Value = serde_yaml::from_str(text).unwrap();
    for place in places {
        let (parent, name) = place.rsplit_once('/').unwrap();
        let parent = format!("/spec/versions/0/schema/openAPIV3Schema/{parent}");
        let parent = crd.pointer_mut(&parent).unwrap();
        match parent {
            Value::Object(fields) => drop(fields.remove(name).unwrap()),
            Value::Array(values) => values.retain(|value| value != name),
            other => panic!("{place}: {other}"),
        }
    }
    serde_json::from_value(crd).unwrap()
}

/// Returns such a CRD beside the whole one.
fn installed(places: &[&str]) -> Installed {
    let own = schema::of(&without(&[])).unwrap();
    Installed::of(&own, &without(places))
}

#[rstest]
#[case::nothing(&[], &[])]
#[case::of_the_status(&[EFFECTIVE], &["status.effective"])]
#[case::of_the_specification(&[SUSPEND], &["spec.suspend"])]
#[case::below(&[NOT_AFTER], &["status.tls.notAfter"])]
#[case::value(&[PHASE], &["status.tls.phase=\"Overlap\""])]
#[case::in_a_list(&[SERVED_BY], &["status.apis[].servedBy=\"Foreign\""])]
fn what_a_crd_lacks_is_named(#[case] places: &[&str], #[case] expected: &[&str]) {
    let own = schema::of(&without(&[])).unwrap();
    let older = schema::of(&without(places)).unwrap();
    assert_eq!(schema::missing(&own, &older), expected);
    // A newer CRD lacks nothing.
    assert_eq!(schema::missing(&older, &own), Vec::<String>::new());
}

#[test]
fn the_operators_own_crd_lacks_nothing() {
    let crd = crds::v1alpha1::reports_server_crd().unwrap();
    let own = schema::of(&crd).unwrap();
    assert!(own["properties"]["status"]["properties"]["conditions"].is_object());
    assert_eq!(Installed::of(&own, &crd), Installed::Complete);
}

#[test]
fn a_version_that_is_not_served_is_none() {
    let own = schema::of(&without(&[])).unwrap();
    let mut crd = without(&[]);
    crd.spec.versions[0].served = false;
    assert_eq!(Installed::of(&own, &crd), Installed::Absent);
}

fn status() -> Value {
    json!({
        "observedGeneration": 3,
        "effective": {"logLevel": "Info"},
        "tls": {"phase": "Overlap", "issuer": "Operator", "notAfter": "2027-01-01T00:00:00Z"},
        "apis": [
            {"name": "v1.a", "group": "a", "version": "v1", "servedBy": "Foreign"},
            {"name": "v1.b", "group": "b", "version": "v1", "servedBy": "Server"},
        ],
    })
}

#[test]
fn a_status_is_written_without_what_the_crd_lacks() {
    let older = installed(&[EFFECTIVE, NOT_AFTER, PHASE, SERVED_BY]);
    let expected = json!({
        "observedGeneration": 3,
        "tls": {"issuer": "Operator"},
        // Of the other, a field that must be there has a value that cannot be written.
        "apis": [{"name": "v1.b", "group": "b", "version": "v1", "servedBy": "Server"}],
    });
    assert_eq!(older.taken(status()), expected);
    for whole in [Installed::Complete, Installed::Unreadable] {
        assert_eq!(whole.taken(status()), status());
    }
}

#[rstest]
#[case::open(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}), true)]
#[case::entries(json!({"type": "object", "additionalProperties": {"type": "integer"}}), true)]
#[case::any_entries(json!({"type": "object", "additionalProperties": true}), true)]
#[case::closed(json!({"type": "object", "additionalProperties": false}), false)]
#[case::empty(json!({"type": "object"}), false)]
fn a_schema_may_take_fields_that_it_does_not_name(#[case] schema: Value, #[case] takes: bool) {
    let value = json!({"any": 1});
    let expected = if takes { value.clone() } else { json!({}) };
    assert_eq!(schema::taken(value, &schema), Some(expected));
}

fn broken() -> watcher::Result<Event<CustomResourceDefinition>> {
    Err(watcher::Error::NoResourceVersion)
}

#[test]
fn the_watch_says_what_there_is() {
    let metrics = Metrics::new();
    let (mut check, found) = Check::new(metrics.clone());
    check.own = schema::of(&without(&[])).unwrap();
    let seen = || Installed::clone(&found.borrow());
    let shown = |count: i64| {
        let line = format!("reports_server_operator_crd_missing_fields {count}\n");
        metrics.encode().unwrap().contains(&line)
    };
    check.note(&Ok(Event::Init));
    assert_eq!(seen(), Installed::Unknown);
    check.note(&broken());
    assert_eq!(seen(), Installed::Unreadable);
    check.note(&Ok(Event::Init));
    check.note(&Ok(Event::InitDone));
    assert_eq!(seen(), Installed::Absent);
    assert!(shown(-1));
    check.note(&Ok(Event::Apply(without(&[EFFECTIVE, SUSPEND]))));
    assert_eq!(seen(), installed(&[EFFECTIVE, SUSPEND]));
    assert!(shown(2));
    // What was seen holds while the watch is opened again.
    check.note(&broken());
    check.note(&Ok(Event::Init));
    check.note(&Ok(Event::InitApply(without(&[EFFECTIVE, SUSPEND]))));
    check.note(&Ok(Event::InitDone));
    assert_eq!(seen(), installed(&[EFFECTIVE, SUSPEND]));
    check.note(&Ok(Event::Apply(without(&[]))));
    assert_eq!(seen(), Installed::Complete);
    assert!(shown(0));
    check.note(&Ok(Event::Delete(without(&[]))));
    assert_eq!(seen(), Installed::Absent);
}

#[test]
fn a_change_is_told_once_to_each() {
    let told = Told::default();
    let older = installed(&[EFFECTIVE]);
    let event = told.news("a", &older).unwrap();
    assert_eq!(event.reason, "CRDOutdated");
    assert!(matches!(event.type_, EventType::Warning));
    let note = event.note.unwrap_or_default();
    assert!(note.contains("it lacks status.effective."), "{note}");
    assert!(told.news("a", &older).is_none());
    assert!(told.news("b", &older).is_some());
    assert!(told.news("a", &installed(&[EFFECTIVE, SUSPEND])).is_some());
    assert!(told.news("a", &Installed::Complete).is_none());
    assert!(told.news("a", &older).is_some());
    told.forget("a");
    assert!(told.news("a", &older).is_some());
}
