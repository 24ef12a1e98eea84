//! The field manager of one endpoint: the interface for the writes of a server.

mod apply;
mod last_applied;
mod name;
mod settled;
mod strip;

use std::borrow::Cow;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::managed::{Managed, ManagedFieldsError, Manager, remove_entries};
use crate::typed::Duplicates;
use crate::updater::{Conflicts, Object, UpdateError, Versions};

pub use name::{MAX_NAME_LENGTH, NameError, check_name, name_of_user_agent};

/// The manager of the fields that existed before the first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The name of a manager that has none.
const UNKNOWN: &str = "unknown";

/// Keeps account of the owner of each field, for one version of a kind and one subresource.
#[derive(Clone, Debug)]
pub struct FieldManager {
    versions: Arc<Versions>,
    api_version: String,
    kind: String,
    subresource: String,
}

/// The reason why an apply is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// 409 `Conflict` with [`Conflicts::causes`].
    #[error(transparent)]
    Conflicts(Conflicts),
    /// 400 `BadRequest`.
    #[error("{0}")]
    BadRequest(String),
    /// 500 without a reason, as the kube-apiserver answers errors that have no `Status` of their
    /// own; objects that do not conform to the schema are among them.
    #[error("{0}")]
    Internal(String),
}

impl FieldManager {
    /// Returns the field manager for requests in `api_version`, which must be one of `versions`.
    #[must_use]
    pub fn new(
        versions: Arc<Versions>,
        api_version: impl Into<String>,
        kind: impl Into<String>,
        subresource: impl Into<String>,
    ) -> Self {
        Self {
            versions,
            api_version: api_version.into(),
            kind: kind.into(),
            subresource: subresource.into(),
        }
    }

    /// Returns `new` with the managed fields that it has after a create (`live` is `None`), an
    /// update or a patch other than apply by the manager `name`.
    ///
    /// It never fails: an object whose owners cannot be determined is stored without any.
    #[must_use]
    pub fn update(
        &self,
        live: Option<&Value>,
        mut new: Value,
        name: &str,
        now: Timestamp,
    ) -> Value {
        let live = live.map_or_else(|| Cow::Owned(self.empty()), Cow::Borrowed);
        let managed = Managed::of_update(&live, &new, !self.subresource.is_empty());
        remove_entries(&mut new);
        // An object that had managers once and has none now is not tracked until it is applied.
        if managed.managers.is_empty() && has_uid(&live) {
            return new;
        }
        if let Ok(managed) = self.update_managed(&live, &new, managed, name, now) {
            managed.encode_into(&mut new);
        }
        new
    }

    /// Returns the managers after `new` has taken the place of `live`.
    fn update_managed(
        &self,
        live: &Value,
        new: &Value,
        mut managed: Managed,
        name: &str,
        now: Timestamp,
    ) -> Result<Managed, ApplyError> {
        let typed = |which: &str, object| {
            self.typed(object, Duplicates::Allowed).map_err(|error| {
                let object = describe(object);
                let step = format!("failed to convert {which} object ({object}) to smd typed");
                ApplyError::Internal(format!("{step}: {error}"))
            })
        };
        let (typed_new, typed_live) = (typed("new", new)?, typed("live", live)?);
        // Changes are gathered apart from what the manager owned before, so that it can be seen
        // whether there are any.
        let gathered = Manager::update("current-operation", "current-operation", "");
        managed.managers = self
            .versions
            .update(&typed_live, &typed_new, &managed.managers, &gathered)
            .map_err(|error| {
                let step = format!("failed to update ManagedFields ({})", describe(new));
                ApplyError::Internal(format!("{step}: {error}"))
            })?;
        strip::strip(&mut managed.managers, &gathered);
        if let Some(mut changes) = managed.managers.remove(&gathered) {
            let writer = Manager::update(
                if name.is_empty() { UNKNOWN } else { name },
                self.api_version.as_str(),
                self.subresource.as_str(),
            );
            if let Some(before) = managed.managers.get(&writer) {
                changes.set = changes.set.union(&before.set);
            }
            managed.managers.insert(writer.clone(), changes);
            managed.times.insert(writer, now);
        }
        managed.cap();
        Ok(managed)
    }

    fn typed<'a>(
        &self,
        object: &'a Value,
        duplicates: Duplicates,
    ) -> Result<Object<'a>, UpdateError> {
        let value = Cow::Borrowed(object);
        self.versions.typed(value, &self.api_version, duplicates)
    }

    /// Returns an object of the kind about which nothing is known.
    fn empty(&self) -> Value {
        json!({"apiVersion": self.api_version, "kind": self.kind})
    }
}

/// Returns namespace, name and type of an object, as Go prints them.
fn describe(object: &Value) -> String {
    let metadata = |field| {
        let text = object
            .pointer("/metadata")
            .and_then(|metadata| metadata.get(field));
        text.and_then(Value::as_str).unwrap_or_default()
    };
    format!(
        "{}/{}; {}",
        metadata("namespace"),
        metadata("name"),
        type_of(object)
    )
}

/// Returns group, version and kind of an object, as Go prints them.
fn type_of(object: &Value) -> String {
    let api_version = text(object, "apiVersion");
    match api_version.split('/').collect::<Vec<_>>()[..] {
        [group, version] => format!("{group}/{version}, Kind={}", text(object, "kind")),
        [version] => format!("/{version}, Kind={}", text(object, "kind")),
        _ => "/, Kind=".to_owned(),
    }
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object
        .get(field)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn has_uid(object: &Value) -> bool {
    let uid = object.pointer("/metadata/uid").and_then(Value::as_str);
    uid.is_some_and(|uid| !uid.is_empty())
}

impl From<UpdateError> for ApplyError {
    fn from(error: UpdateError) -> Self {
        match error {
            UpdateError::Conflicts(conflicts) => Self::Conflicts(conflicts),
            other => Self::Internal(other.to_string()),
        }
    }
}

impl From<ManagedFieldsError> for ApplyError {
    fn from(error: ManagedFieldsError) -> Self {
        Self::Internal(format!("failed to decode managed fields: {error}"))
    }
}

#[cfg(test)]
mod tests;
