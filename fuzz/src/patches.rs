//! JSON patches and merge patches: a document, then the patch.

use apimachinery::schema::{Encoding, decode, readable};
use reports_server::registry::Object;
use reports_server::registry::json_patch::Patch;
use serde_json::Value;

use crate::bodies::plain;
use crate::parts::{bounded, parts};

/// Most bytes that the `copy` operations of one patch may add.
const COPIES: usize = 3 * 1024 * 1024;

/// Returns the document as it would have been stored, and the patch.
fn read(data: &[u8]) -> Option<(Object, String, Value)> {
    let parts = parts(data);
    let [document, patch] = parts.as_slice() else {
        return None;
    };
    let json = |bytes: &[u8]| decode(bytes, Encoding::Json).ok();
    match (plain(&json(document)?.value), json(patch)?.value) {
        (Value::Object(document), value) => Some((document, readable(patch).into_owned(), value)),
        _ => None,
    }
}

/// A patched document can be written and read again, and is not larger than its parts.
fn check(patched: &Object, data: &[u8], room: usize) {
    let text = Value::Object(patched.clone()).to_string();
    bounded("a patched object", text.len().saturating_sub(room), data);
    let again = decode(text.as_bytes(), Encoding::Json)
        .unwrap_or_else(|error| panic!("cannot be read again: {error}"));
    assert_eq!(again.value, Value::Object(patched.clone()));
}

/// A JSON patch: what it makes can be stored, and tests alone change nothing. Whoever reads it
/// strictly refuses more, and does the same with the rest.
pub fn json_patch(data: &[u8]) {
    let Some((document, text, body)) = read(data) else {
        return;
    };
    let only_tests = body
        .as_array()
        .is_some_and(|operations| operations.iter().all(|of| of["op"] == "test"));
    let careless = Patch::json(&text, false);
    let (patch, unknown) = match Patch::json(&text, true) {
        Ok(read) => read,
        Err(error) => return bounded("an error", error.to_string().len(), data),
    };
    assert_eq!(careless, Ok((patch.clone(), Vec::new())));
    let told = unknown.iter().map(String::len).sum();
    bounded("what is unknown of a patch", told, data);
    match patch.apply(&document) {
        Ok(patched) => {
            check(&patched.object, data, 2 * COPIES);
            assert!(!only_tests || patched.object == document);
            assert_eq!(patch.apply(&document), Ok(patched));
        }
        Err(error) => bounded("an error", error.to_string().len(), data),
    }
}

/// A merge patch: it can be stored. A list that takes the place of an object keeps its nulls, which
/// go when it is merged again; then merging it once more changes nothing.
pub fn merge_patch(data: &[u8]) {
    let Some((document, text, body)) = read(data) else {
        return;
    };
    if let Err(error) = Patch::merge(&text, body.clone(), true) {
        bounded("an error", error.to_string().len(), data);
    }
    let again = |patch: &Patch, document: &Object| match patch.apply(document) {
        Ok(patched) => Some(patched.object),
        Err(error) => {
            bounded("an error", error.to_string().len(), data);
            None
        }
    };
    let Ok(patch) = Patch::merge(&text, body, false) else {
        return;
    };
    if let Some(patched) = again(&patch, &document) {
        check(&patched, data, 0);
        let twice = patch.apply(&patched).expect("objects can be merged").object;
        assert_eq!(again(&patch, &twice), Some(twice));
    }
}
