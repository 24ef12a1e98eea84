use rstest::rstest;
use serde_json::{Value, json};

use super::{report, schema};
use crate::schema::Malformed;

#[rstest]
#[case::nothing(json!({ "summary": { "pass": 1 } }), json!({ "summary": { "pass": 1 } }), &[])]
#[case::at_the_root(json!({ "spec": { "foo": 1 } }), json!({}), &["spec"])]
#[case::in_an_object(json!({ "summary": { "foo": 1, "bar": 2 } }), json!({ "summary": {} }), &["summary.bar", "summary.foo"])]
#[case::in_a_list(json!({ "results": [{}, { "x": 1 }] }), json!({ "results": [{}, {}] }), &["results[1].x"])]
#[case::in_a_map(json!({ "results": [{ "properties": { "any": "x" } }] }), json!({ "results": [{ "properties": { "any": "x" } }] }), &[])]
#[case::of_another_type(json!({ "summary": [{ "x": 1 }] }), json!({ "summary": [{}] }), &["summary[0].x"])]
#[case::null_is_dropped(json!({ "summary": null }), json!({}), &[])]
#[case::null_that_may_be(json!({ "scope": null }), json!({ "scope": null }), &[])]
#[case::null_in_a_list_stays(json!({ "results": [null] }), json!({ "results": [null] }), &[])]
#[case::type_meta_stays(json!({ "apiVersion": "g/v1", "kind": "K" }), json!({ "apiVersion": "g/v1", "kind": "K" }), &[])]
fn unknown_fields_go(#[case] object: Value, #[case] pruned: Value, #[case] unknown: &[&str]) {
    let mut object = object;
    let found = report().coerce(&mut object, Malformed::Refuse).unwrap();
    assert_eq!(
        (object, found),
        (pruned, unknown.iter().map(ToString::to_string).collect())
    );
}

#[rstest]
#[case::all_kept(json!({ "a": { "b": [1] }, "k": { "l": "x" } }), json!({ "a": { "b": [1] }, "k": { "l": "x" } }), &[])]
#[case::specified_is_pruned(json!({ "k": { "l": "x", "m": 1 } }), json!({ "k": { "l": "x" } }), &["x.k.m"])]
#[case::in_lists(json!([{ "k": { "m": 1 } }]), json!([{ "k": { "m": 1 } }]), &[])]
fn fields_can_be_preserved(#[case] value: Value, #[case] pruned: Value, #[case] unknown: &[&str]) {
    let schema = schema(&json!({ "x": {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": { "k": { "type": "object", "properties": { "l": { "type": "string" } } } },
    } }));
    let mut object = json!({ "x": value });
    let found = schema.coerce(&mut object, Malformed::Refuse).unwrap();
    assert_eq!(object, json!({ "x": pruned }));
    assert_eq!(found, unknown);
}

#[test]
fn additional_properties_without_a_schema_keep_keys_but_not_what_is_below() {
    let schema = schema(&json!({ "x": { "type": "object", "additionalProperties": true } }));
    let mut object = json!({ "x": { "a": 1, "b": { "c": 1 } } });
    let unknown = schema.coerce(&mut object, Malformed::Refuse).unwrap();
    assert_eq!(object, json!({ "x": { "a": 1, "b": {} } }));
    assert_eq!(unknown, ["x.b.c"]);
}

#[test]
fn embedded_objects_keep_their_metadata() {
    let schema = schema(&json!({ "x": {
        "type": "object",
        "x-kubernetes-embedded-resource": true,
        "properties": { "spec": { "type": "object" } },
    } }));
    let mut object = json!({ "x": {
        "apiVersion": "v1", "kind": "K", "metadata": { "name": "n", "foo": 1 },
        "spec": { "a": 1 }, "status": {},
    } });
    let unknown = schema.coerce(&mut object, Malformed::Refuse).unwrap();
    let kept = json!({ "x": {
        "apiVersion": "v1", "kind": "K", "metadata": { "name": "n" }, "spec": {},
    } });
    assert_eq!(object, kept);
    assert_eq!(unknown, ["x.spec.a", "x.status", "x.metadata.foo"]);

    let mut object = json!({ "x": { "kind": 1 } });
    let error = schema
        .coerce(&mut object.clone(), Malformed::Refuse)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "x.kind: Invalid value: 1: must be a string"
    );
    schema.coerce(&mut object, Malformed::Drop).unwrap();
    assert_eq!(object, json!({ "x": {} }));
}

#[rstest]
#[case::usual(json!({ "name": "a", "labels": { "k": "v" } }), json!({ "name": "a", "labels": { "k": "v" } }), &[])]
#[case::unknown(json!({ "name": "a", "clusterName": "c", "x": {} }), json!({ "name": "a" }), &["metadata.clusterName", "metadata.x"])]
#[case::empty(json!({ "name": "", "labels": {}, "generation": 0, "finalizers": [], "creationTimestamp": null }), json!({}), &[])]
#[case::kept_zero(json!({ "deletionGracePeriodSeconds": 0 }), json!({ "deletionGracePeriodSeconds": 0 }), &[])]
#[case::time(json!({ "creationTimestamp": "2026-11-21T04:09:53.129+01:00" }), json!({ "creationTimestamp": "2026-11-21T03:09:53Z" }), &[])]
#[case::null_labels(json!({ "labels": { "a": null } }), json!({ "labels": { "a": "" } }), &[])]
#[case::owners(
    json!({ "ownerReferences": [{ "uid": "u", "controller": false, "x": 1 }, null] }),
    json!({ "ownerReferences": [
        { "apiVersion": "", "controller": false, "kind": "", "name": "", "uid": "u" },
        { "apiVersion": "", "kind": "", "name": "", "uid": "" },
    ] }),
    &["metadata.ownerReferences[0].x"]
)]
#[case::managed_fields(
    json!({ "managedFields": [{ "manager": "m", "subresource": "", "fieldsV1": { "f:x": {} }, "q": 1 }] }),
    json!({ "managedFields": [{ "manager": "m", "fieldsV1": { "f:x": {} } }] }),
    &["metadata.managedFields[0].q"]
)]
#[case::null(json!(null), json!({}), &[])]
fn metadata_has_a_canonical_form(
    #[case] metadata: Value,
    #[case] canonical: Value,
    #[case] unknown: &[&str],
    #[values(Malformed::Refuse, Malformed::Drop)] malformed: Malformed,
) {
    let mut object = json!({ "metadata": metadata });
    let found = report().coerce(&mut object, malformed).unwrap();
    assert_eq!(object, json!({ "metadata": canonical }));
    assert_eq!(found, unknown);
}

#[rstest]
#[case(json!(1), json!({}), "json: cannot unmarshal number into Go value of type v1.ObjectMeta")]
#[case(json!({ "name": 1 }), json!({}), "json: cannot unmarshal number into Go struct field ObjectMeta.name of type string")]
#[case(json!({ "uid": [] }), json!({}), "json: cannot unmarshal array into Go struct field ObjectMeta.uid of type types.UID")]
#[case(json!({ "labels": 1, "name": "a" }), json!({ "name": "a" }), "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type map[string]string")]
#[case(json!({ "labels": { "a": 1 } }), json!({}), "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string")]
#[case(json!({ "generation": 1.5 }), json!({}), "json: cannot unmarshal number 1.5 into Go struct field ObjectMeta.generation of type int64")]
#[case(json!({ "generation": 1e300 }), json!({}), "json: cannot unmarshal number 1e+300 into Go struct field ObjectMeta.generation of type int64")]
#[case(json!({ "generation": 9_223_372_036_854_775_808.0 }), json!({}), "json: cannot unmarshal number 9223372036854776000 into Go struct field ObjectMeta.generation of type int64")]
#[case(json!({ "generation": "1", "name": 1 }), json!({}), "json: cannot unmarshal string into Go struct field ObjectMeta.generation of type int64")]
#[case(json!({ "annotations": 1, "managedFields": [7, { "time": 1 }] }), json!({}), "json: cannot unmarshal number into Go struct field ManagedFieldsEntry.managedFields.time of type string")]
#[case(json!({ "ownerReferences": [1] }), json!({}), "json: cannot unmarshal number into Go struct field ObjectMeta.ownerReferences of type v1.OwnerReference")]
#[case(json!({ "ownerReferences": [{ "controller": "x" }] }), json!({}), "json: cannot unmarshal string into Go struct field OwnerReference.ownerReferences.controller of type bool")]
#[case(json!({ "managedFields": [{ "time": 1 }] }), json!({}), "json: cannot unmarshal number into Go struct field ManagedFieldsEntry.managedFields.time of type string")]
#[case(json!({ "creationTimestamp": "x" }), json!({}), "parsing time \"x\" as \"2006-01-02T15:04:05Z07:00\": cannot parse it as RFC 3339")]
#[case(json!({ "creationTimestamp": "\0\"\u{7f}\u{2028}" }), json!({}), "parsing time \"\\x00\\\"\u{7f}\\xe2\\x80\\xa8\" as \"2006-01-02T15:04:05Z07:00\": cannot parse it as RFC 3339")]
#[case(json!({ "creationTimestamp": "2026-11-21" }), json!({}), "parsing time \"2026-11-21\" as \"2006-01-02T15:04:05Z07:00\": cannot parse it as RFC 3339")]
fn malformed_metadata_is_refused_or_dropped(
    #[case] metadata: Value,
    #[case] dropped: Value,
    #[case] message: &str,
) {
    let mut object = json!({ "metadata": metadata });
    let error = report()
        .coerce(&mut object.clone(), Malformed::Refuse)
        .unwrap_err();
    assert_eq!(error.to_string(), message);
    report().coerce(&mut object, Malformed::Drop).unwrap();
    assert_eq!(object, json!({ "metadata": dropped }));
}

#[rstest]
#[case(json!({ "kind": 1 }), ".kind accessor error: 1 is of the type int64, expected string")]
#[case(json!({ "apiVersion": null }), ".apiVersion accessor error: <nil> is of the type <nil>, expected string")]
#[case(json!({ "apiVersion": 1.5 }), ".apiVersion accessor error: 1.5 is of the type float64, expected string")]
#[case(json!([]), "json: cannot unmarshal array into Go value of type map[string]interface {}")]
#[case(json!("x"), "json: cannot unmarshal string into Go value of type map[string]interface {}")]
fn what_is_no_object_is_refused(#[case] object: Value, #[case] message: &str) {
    let mut object = object;
    let error = report().coerce(&mut object, Malformed::Drop).unwrap_err();
    assert_eq!(error.to_string(), message);
}
