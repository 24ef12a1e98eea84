//! The decisions about an object before it is written, without any I/O: preparation, validation,
//! preconditions, generated names, deletion. As `registry/rest` of k8s.io/apiserver.

pub mod create;
pub mod delete;
pub mod lifecycle;
pub mod meta;
pub mod names;
pub mod update;
pub mod validate;

use serde_json::{Map, Value};

/// A JSON object: a resource's object, or a part of one.
pub type Object = Map<String, Value>;

/// Returns the fields of an object; none of anything else.
#[must_use]
pub fn into_fields(value: Value) -> Object {
    match value {
        Value::Object(fields) => fields,
        _ => Object::new(),
    }
}

/// Returns a time as Kubernetes writes it: RFC 3339 in UTC with whole seconds.
#[must_use]
pub fn rfc3339(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
