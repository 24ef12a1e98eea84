use serde_json::json;

use super::reader::{Field, fields};
use super::*;

/// Returns the fields behind the magic number.
fn parts(document: &[u8]) -> Vec<(u64, Field<'_>)> {
    fields(document.strip_prefix(MAGIC).unwrap()).unwrap()
}

fn raw(document: &[u8]) -> Vec<(u64, Field<'_>)> {
    let Some((2, Field::Bytes(raw))) = parts(document).into_iter().nth(1) else {
        panic!("no content");
    };
    fields(raw).unwrap()
}

#[test]
fn the_envelope_says_what_it_holds() {
    let document = document(&json!({"apiVersion": "v1", "kind": "Status"})).unwrap();
    let parts = parts(&document);
    assert_eq!(parts[0], (1, Field::Bytes(b"\x0a\x02v1\x12\x06Status")));
    assert_eq!(parts[2..], [(3, Field::Bytes(b"")), (4, Field::Bytes(b""))]);
}

#[test]
fn metadata_as_go_writes_it() {
    let object = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
        "metadata": {"name": "a", "uid": "u", "resourceVersion": "7", "generation": 300,
            "creationTimestamp": "1970-01-01T00:00:05Z", "labels": {"x": "y"},
            "finalizers": ["f/g"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "w",
                "controller": true}],
            "managedFields": [{"manager": "m", "operation": "Update", "apiVersion": "g/v1",
                "time": "1970-01-01T00:00:06Z", "fieldsType": "FieldsV1",
                "fieldsV1": {"f:a": {}}}]}});
    let document = document(&object).unwrap();
    let raw = raw(&document);
    let Field::Bytes(meta) = raw[0].1 else {
        panic!("no metadata");
    };
    let expected: &[(u64, Field<'_>)] = &[
        (1, Field::Bytes(b"a")),
        (2, Field::Bytes(b"")),
        (3, Field::Bytes(b"")),
        (4, Field::Bytes(b"")),
        (5, Field::Bytes(b"u")),
        (6, Field::Bytes(b"7")),
        (7, Field::Number(300)),
        (8, Field::Bytes(b"\x08\x05\x10\x00")),
        (11, Field::Bytes(b"\x0a\x01x\x12\x01y")),
        (
            13,
            Field::Bytes(b"\x0a\x03Pod\x1a\x01p\x22\x01w\x2a\x02v1\x30\x01"),
        ),
        (14, Field::Bytes(b"f/g")),
        (
            17,
            Field::Bytes(
                b"\x0a\x01m\x12\x06Update\x1a\x04g/v1\x22\x04\x08\x06\x10\x00\
                  \x32\x08FieldsV1\x3a\x0c\x0a\x0a{\"f:a\":{}}\x42\x00",
            ),
        ),
    ];
    assert_eq!(fields(meta).unwrap(), expected);
}

#[test]
fn lists_have_their_version_and_items() {
    let metadata = json!({"resourceVersion": "9", "continue": "t", "remainingItemCount": 3});
    let list = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
        "metadata": metadata, "items": [{"metadata": {"name": "a"}}, {"metadata": {}}]});
    let document = document(&list).unwrap();
    let raw = raw(&document);
    let meta = b"\x0a\x00\x12\x019\x1a\x01t\x20\x03";
    assert_eq!(raw[0], (1, Field::Bytes(meta)));
    assert_eq!(raw.len(), 3);
}

#[test]
fn other_objects_have_no_form() {
    assert_eq!(document(&json!({"kind": "PolicyReport"})), None);
    assert_eq!(document(&json!([])), None);
}

#[test]
fn events_have_their_length_in_front() {
    let frame = event("ADDED", b"k8s\0x");
    assert_eq!(frame, b"\0\0\0\x10\x0a\x05ADDED\x12\x07\x0a\x05k8s\0x");
}

#[test]
fn options_of_a_deletion() {
    let mut raw = Writer::default();
    raw.number(1, 0);
    raw.message(2, |preconditions| {
        preconditions.text(1, "u");
        preconditions.text(2, "7");
    });
    raw.boolean(3, true);
    raw.text(4, "Orphan");
    raw.text(5, "All");
    let sent = envelope("v1", "DeleteOptions", &raw.into_bytes());
    assert_eq!(
        delete_options(&sent),
        Some(
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
            "preconditions": {"uid": "u", "resourceVersion": "7"}, "orphanDependents": true,
            "propagationPolicy": "Orphan", "dryRun": ["All"]})
        )
    );
}

proptest::proptest! {
    #[test]
    fn hostile_bytes_never_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..80)) {
        let _ = delete_options(&[MAGIC, &bytes].concat());
        let _ = fields(&bytes);
    }
}
