//! Structural schemas: the description of objects in a CustomResourceDefinition, and the steps of
//! the kube-apiserver with it (prune, default, validate), done here in the same way.
//!
//! A body from a client goes [`decode`] → [`Structural::coerce`] → [`Structural::default_values`] →
//! [`Structural::validate`]; an object from etcd or from the store goes the same way but drops
//! malformed metadata instead of refusing it.

mod coerce;
mod decode;
mod default;
mod depth;
mod error;
mod format;
mod json_type;
mod members;
mod names;
mod number;
mod object_meta;
mod prune;
mod repair;
mod repeated;
mod structural;
#[cfg(test)]
mod tests;
mod told;
mod track;
mod validate;
mod yaml;

pub use coerce::{CoerceError, Malformed};
pub use decode::{DecodeError, Decoded, Encoding, decode, duplicates_below};
pub use depth::MAX_DEPTH;
pub use error::{FieldError, FieldErrorKind};
pub use json_type::json_type;
pub use members::Members;
pub use names::{
    dns_label_errors, dns_subdomain_errors, label_value_errors, qualified_name_errors,
};
pub use object_meta::is_time;
pub use prune::MAX_UNKNOWN;
pub use repair::readable;
pub use repeated::{Repeated, repeated_keys};
pub use structural::{SchemaError, Structural};
pub use validate::MAX_ERRORS;
