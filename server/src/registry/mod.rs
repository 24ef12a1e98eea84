//! What happens to an object on its way into the store: preparation, validation, preconditions,
//! patches, deletion. Pure, but for [`sweep`], which acts on what the rest decides.

pub mod create;
pub mod delete;
mod error;
pub mod lifecycle;
pub mod meta;
pub mod names;
pub mod patch;
pub mod sweep;
pub mod update;
pub mod validate;

pub use error::RegistryError;

use serde_json::{Map, Value};

/// A JSON object: a resource's object, or a part of one.
pub type Object = Map<String, Value>;

/// A time as Kubernetes writes it: RFC 3339 in UTC with whole seconds.
#[must_use]
pub fn rfc3339(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
