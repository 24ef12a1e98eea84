//! The owners of fields after a write: the core of server-side apply.

mod apply;
mod conflict;
mod prune;
mod write;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use crate::schema::Schema;
use crate::set::FieldSet;
use crate::typed::{Comparison, Duplicates, Typed, ValidationErrors};

use crate::managed::{Manager, Managers, VersionedSet};
pub use conflict::{Cause, Conflict, Conflicts};

/// One version of a kind.
#[derive(Clone, Debug)]
pub struct Version {
    /// The types of the version.
    pub schema: Schema,
    /// Fields that a write through this endpoint does not change, with all below them, so that it
    /// does not own them: `.status` where there is a status subresource.
    pub reset_fields: FieldSet,
}

/// All versions of a kind by `apiVersion`, converted by changing `apiVersion` alone (strategy
/// `None`).
#[derive(Clone, Debug, Default)]
pub struct Versions(BTreeMap<String, Version>);

/// The reason why ownership cannot be determined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// Fields are owned by others with other values.
    #[error(transparent)]
    Conflicts(Conflicts),
    /// A manager recorded its fields in a version that does not exist any more.
    #[error("request to convert CR to an invalid group/version: {0}")]
    UnknownVersion(String),
    /// An object does not conform to a version's schema.
    #[error(transparent)]
    Invalid(#[from] ValidationErrors),
    /// A step failed.
    #[error("{step}: {source}")]
    Step {
        /// The step that was tried.
        step: String,
        /// The cause.
        source: Box<UpdateError>,
    },
}

impl UpdateError {
    fn at<E: Into<Self>>(step: impl Into<String>) -> impl FnOnce(E) -> Self {
        move |source| Self::Step {
            step: step.into(),
            source: Box::new(source.into()),
        }
    }
}

/// An object with its types, in one version.
#[derive(Clone, Debug)]
pub(crate) struct Object<'a> {
    pub typed: Typed<'a>,
    pub api_version: String,
}

impl Object<'_> {
    fn into_owned(self) -> Object<'static> {
        Object {
            typed: self.typed.into_owned(),
            api_version: self.api_version,
        }
    }
}

impl FromIterator<(String, Version)> for Versions {
    fn from_iter<T: IntoIterator<Item = (String, Version)>>(versions: T) -> Self {
        Self(versions.into_iter().collect())
    }
}

impl Versions {
    /// Returns the versions of a kind that has only one.
    #[must_use]
    pub fn single(api_version: &str, schema: Schema) -> Self {
        let version = Version {
            schema,
            reset_fields: FieldSet::new(),
        };
        Self(BTreeMap::from([(api_version.to_owned(), version)]))
    }

    /// Checks an object against the schema of a version.
    pub(crate) fn typed<'a>(
        &self,
        value: Cow<'a, Value>,
        api_version: &str,
        duplicates: Duplicates,
    ) -> Result<Object<'a>, UpdateError> {
        let version = self.get(api_version)?;
        Ok(Object {
            typed: Typed::new(value, &version.schema, duplicates)?,
            api_version: api_version.to_owned(),
        })
    }

    /// Returns the object in another version.
    fn convert<'a>(
        &self,
        object: &'a Object<'_>,
        api_version: &str,
    ) -> Result<Object<'a>, UpdateError> {
        let value = Cow::Borrowed(object.typed.value());
        if object.api_version == api_version {
            return Ok(Object {
                typed: object.typed.reborrow(),
                api_version: api_version.to_owned(),
            });
        }
        self.typed(value, api_version, Duplicates::Refused)
    }

    fn get(&self, api_version: &str) -> Result<&Version, UpdateError> {
        self.0
            .get(api_version)
            .ok_or_else(|| UpdateError::UnknownVersion(api_version.to_owned()))
    }

    /// Returns the difference of two objects in a version, without the fields that cannot be
    /// changed in it.
    fn compare(
        &self,
        old: &Object<'_>,
        new: &Object<'_>,
        api_version: &str,
    ) -> Result<Comparison, UpdateError> {
        let old = self
            .convert(old, api_version)
            .map_err(UpdateError::at("failed to convert old object"))?;
        let new = self
            .convert(new, api_version)
            .map_err(UpdateError::at("failed to convert new object"))?;
        let comparison = old
            .typed
            .compare(&new.typed)
            .map_err(UpdateError::at("failed to compare objects"))?;
        Ok(comparison.without(&self.get(api_version)?.reset_fields))
    }

    /// Returns the part of a set that a manager may own in a version.
    fn owned(&self, set: &FieldSet, api_version: &str) -> Result<FieldSet, UpdateError> {
        Ok(set.recursive_difference(&self.get(api_version)?.reset_fields))
    }

    /// Brings the fields of managers in line with the present schemas.
    fn reconcile(&self, live: &Object<'_>, managers: &Managers) -> Result<Managers, UpdateError> {
        let mut reconciled = managers.clone();
        for owned in reconciled.values_mut() {
            let live = self.convert(live, &owned.api_version)?;
            let step = UpdateError::at("errors reconciling field set with schema");
            if let Some(set) = live.typed.reconcile(&owned.set).map_err(step)? {
                owned.set = set;
            }
        }
        Ok(reconciled)
    }
}
