//! The annotation of client-side apply.

use serde_json::{Map, Value};

use crate::go::{Flavour, json};

/// The manager name of `kubectl apply --server-side`, for which the annotation is kept up to date.
pub(super) const KUBECTL: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Most bytes of all annotations of an object, keys and values.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// Returns the object that client-side apply has applied last.
pub(super) fn read(object: &Value) -> Option<Value> {
    let text = annotations(object)?.get(ANNOTATION)?.as_str()?;
    serde_json::from_str(text).ok()
}

/// Writes `config` into the annotation of an object that has it, so that a user who goes back to
/// client-side apply finds the applied object. An annotation that has become too large is removed.
pub(super) fn refresh(object: &mut Value, config: &Value) {
    let has_annotation = annotations(object)
        .and_then(|annotations| annotations.get(ANNOTATION))
        .and_then(Value::as_str)
        .is_some_and(|text| !text.is_empty());
    if !has_annotation {
        return;
    }
    let text = encode(config);
    let annotations = object
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut);
    if let Some(annotations) = annotations {
        annotations.insert(ANNOTATION.to_owned(), Value::from(text));
        let size: usize = annotations
            .iter()
            .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
            .sum();
        if size > MAX_ANNOTATIONS {
            annotations.remove(ANNOTATION);
        }
    }
}

fn encode(config: &Value) -> String {
    let mut config = config.clone();
    if let Some(annotations) = config.pointer_mut("/metadata/annotations")
        && let Some(annotations) = annotations.as_object_mut()
    {
        annotations.remove(ANNOTATION);
    }
    format!("{}\n", json(&config, Flavour::Standard))
}

fn annotations(object: &Value) -> Option<&Map<String, Value>> {
    object.pointer("/metadata/annotations")?.as_object()
}
