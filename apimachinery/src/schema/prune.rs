//! Removing fields that a schema does not know.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::structural::{Additional, Structural};
use super::told::Told;
use crate::mutation::{Mutation, broken};

/// Most unknown fields that are named, of the metadata and of the rest each; all of them are
/// pruned.
pub const MAX_UNKNOWN: usize = 1000;

const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// A walk that removes unknown fields and notes their paths.
pub(super) struct Pruner {
    path: String,
    /// Paths of the removed fields, as far as they are reported.
    pub unknown: Told,
}

impl Default for Pruner {
    fn default() -> Self {
        Self {
            path: String::new(),
            unknown: Told::at_most(MAX_UNKNOWN),
        }
    }
}

impl Pruner {
    /// Runs `work` with `segment` behind the path.
    fn within(&mut self, segment: &Segment<'_>, work: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        match segment {
            Segment::Key(key) => {
                if length > 0 {
                    self.path.push('.');
                }
                self.path.push_str(key);
            }
            Segment::Index(index) => {
                let _ = write!(self.path, "[{index}]");
            }
        }
        work(self);
        self.path.truncate(length);
    }

    fn record(&mut self, key: &str) {
        if !self.unknown.is_full() {
            self.within(&Segment::Key(key), |pruner| {
                pruner.unknown.add(pruner.path.clone());
            });
        }
    }

    fn prune(&mut self, value: &mut Value, schema: Option<&Structural>) {
        match (value, schema) {
            (Value::Object(fields), Some(schema)) => {
                self.prune_fields(fields, schema, schema.embedded);
            }
            (Value::Object(fields), None) => {
                let given = std::mem::take(fields);
                for key in given.keys() {
                    self.record(key);
                }
            }
            (Value::Array(items), schema) => {
                // Below a list that keeps unknown fields, items of no object type do so as well.
                let preserve = schema.is_some_and(|schema| schema.preserve_unknown);
                let schema = schema.and_then(|schema| schema.items.as_deref());
                for (index, item) in items.iter_mut().enumerate() {
                    self.within(&Segment::Index(index), |pruner| {
                        if preserve {
                            pruner.prune_known(item, schema);
                        } else {
                            pruner.prune(item, schema);
                        }
                    });
                }
            }
            _ => {}
        }
    }

    /// Prunes the fields of an object; where the fields are those of an embedded object, the fields
    /// that all objects have stay.
    pub fn prune_fields(
        &mut self,
        fields: &mut Map<String, Value>,
        schema: &Structural,
        embedded: bool,
    ) {
        fields.retain(|key, value| {
            if embedded && META_FIELDS.contains(&key.as_str()) {
                return true;
            }
            if let Some(property) = schema.properties.get(key) {
                self.within(&Segment::Key(key), |pruner| {
                    pruner.prune(value, Some(property));
                });
                return true;
            }
            match (&schema.additional, schema.preserve_unknown) {
                (Additional::Schema(below), _) => {
                    self.within(&Segment::Key(key), |pruner| {
                        pruner.prune(value, Some(below));
                    });
                    true
                }
                (Additional::Any, _) => {
                    self.within(&Segment::Key(key), |pruner| pruner.prune(value, None));
                    true
                }
                (Additional::Unspecified, true) => true,
                (Additional::Unspecified, false) => {
                    self.record(key);
                    broken(Mutation::UnknownKept)
                }
            }
        });
    }

    /// Keeps unknown fields, but prunes below the specified ones.
    fn prune_known(&mut self, value: &mut Value, schema: Option<&Structural>) {
        let Some(schema) = schema else { return };
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    if schema.embedded && META_FIELDS.contains(&key.as_str()) {
                        continue;
                    }
                    let below = match (schema.properties.get(key), &schema.additional) {
                        (Some(property), _) => Some(property),
                        (None, Additional::Schema(below)) => Some(&**below),
                        (None, Additional::Any) => None,
                        (None, Additional::Unspecified) => continue,
                    };
                    self.within(&Segment::Key(key), |pruner| pruner.prune(value, below));
                }
            }
            Value::Array(items) => {
                let below = schema.items.as_deref();
                for (index, item) in items.iter_mut().enumerate() {
                    self.within(&Segment::Index(index), |pruner| {
                        pruner.prune_known(item, below);
                    });
                }
            }
            _ => {}
        }
    }
}

enum Segment<'a> {
    Key(&'a str),
    Index(usize),
}

/// Removes the nulls of objects that are neither nullable nor defaulted.
pub(super) fn prune_nulls(value: &mut Value, schema: Option<&Structural>) {
    match value {
        Value::Object(fields) => fields.retain(|key, value| {
            let below = schema.and_then(|schema| schema.below(key));
            let dropped = value.is_null()
                && below.is_some_and(|schema| !schema.nullable && schema.default.is_none());
            if !dropped {
                prune_nulls(value, below);
            }
            !dropped
        }),
        Value::Array(items) => {
            let below = schema.and_then(|schema| schema.items.as_deref());
            for item in items {
                prune_nulls(item, below);
            }
        }
        _ => {}
    }
}
