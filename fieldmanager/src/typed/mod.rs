//! Objects with their types.

mod compare;
mod error;
mod fields;
mod items;
mod merge;
mod reconcile;
mod remove;
mod validate;

use std::borrow::Cow;

use serde_json::Value;

use crate::path::{Path, PathElement};
use crate::schema::{Schema, TypeRef};
use crate::set::FieldSet;

pub use compare::Comparison;
pub use error::{ValidationError, ValidationErrors};

/// The rule whether associative lists may hold an item twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// They may, as in objects that were written without apply.
    Allowed,
    /// They may not.
    Refused,
}

/// A value that is known to conform to a schema.
#[derive(Clone, Debug)]
pub struct Typed<'a> {
    value: Cow<'a, Value>,
    of: TypeRef,
}

impl<'a> Typed<'a> {
    /// Checks a value.
    ///
    /// # Errors
    /// The places where the value does not conform to the schema.
    pub fn new(
        value: Cow<'a, Value>,
        schema: &Schema,
        duplicates: Duplicates,
    ) -> Result<Self, ValidationErrors> {
        validate::validate(&value, schema.root(), duplicates)?;
        Ok(Self {
            value,
            of: schema.root().clone(),
        })
    }

    /// Returns the value.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Returns the value, copied only if it was borrowed.
    #[must_use]
    pub fn into_value(self) -> Value {
        self.value.into_owned()
    }

    /// Returns every field and item that is mentioned.
    ///
    /// # Errors
    /// If a field is not in the schema.
    pub fn to_field_set(&self) -> Result<FieldSet, ValidationErrors> {
        fields::to_field_set(&self.value, &self.of)
    }

    /// Returns the fields that were added, modified and removed on the way to `newer`, which has
    /// the same schema.
    ///
    /// # Errors
    /// If one of the two does not conform to the schema.
    pub fn compare(&self, newer: &Typed<'_>) -> Result<Comparison, ValidationErrors> {
        compare::compare(&self.value, &newer.value, &self.of)
    }

    /// Returns this value with all fields of `config`; nothing is removed. Items of lists are
    /// ordered as in `config` where it has them.
    ///
    /// # Errors
    /// If the two do not conform to the schema.
    pub fn merge(&self, config: &Typed<'_>) -> Result<Typed<'static>, ValidationErrors> {
        let merged = merge::merge(&self.value, &config.value, &self.of)?;
        Ok(self.with(merged))
    }

    /// Returns this value without these fields and items.
    #[must_use]
    pub fn remove_items(&self, items: &FieldSet) -> Typed<'static> {
        self.with(remove::remove(&self.value, items, &self.of))
    }

    /// Returns only these fields and items of this value, and all below them.
    #[must_use]
    pub fn extract_items(&self, items: &FieldSet) -> Typed<'static> {
        self.with(remove::extract(&self.value, items, &self.of))
    }

    /// Returns the value of [`Typed::extract_items`], with the key fields of every item on the way.
    #[must_use]
    pub fn extract_items_with_keys(&self, items: &FieldSet) -> Typed<'static> {
        let mut with_keys = items.clone();
        if let Ok(present) = self.to_field_set() {
            for path in items.paths() {
                if present.contains(&path.0) {
                    insert_keys(&mut with_keys, &path);
                }
            }
        }
        self.extract_items(&with_keys)
    }

    /// Returns a set that was recorded under an older schema in line with this one: a field that
    /// has become atomic is owned as a whole. `None` if nothing changes.
    ///
    /// # Errors
    /// If a type allows nothing.
    pub fn reconcile(&self, set: &FieldSet) -> Result<Option<FieldSet>, ValidationErrors> {
        reconcile::reconcile(set, &self.of)
    }

    pub(crate) fn with_named_fields(&self, set: &FieldSet) -> FieldSet {
        set.with_named_fields(&self.of)
    }

    /// Returns the same value, borrowed.
    pub(crate) fn reborrow(&self) -> Typed<'_> {
        Typed {
            value: Cow::Borrowed(&self.value),
            of: self.of.clone(),
        }
    }

    /// Returns the value with its type, copied only if it was borrowed.
    pub(crate) fn into_owned(self) -> Typed<'static> {
        Typed {
            value: Cow::Owned(self.value.into_owned()),
            of: self.of,
        }
    }

    fn with(&self, value: Value) -> Typed<'static> {
        Typed {
            value: Cow::Owned(value),
            of: self.of.clone(),
        }
    }
}

fn insert_keys(set: &mut FieldSet, path: &Path) {
    for (index, element) in path.0.iter().enumerate() {
        let PathElement::Key(fields) = element else {
            continue;
        };
        for (name, _) in fields {
            let mut key = path.0[..=index].to_vec();
            key.push(PathElement::field(name.as_str()));
            set.insert(&key);
        }
    }
}

#[cfg(test)]
mod tests;
