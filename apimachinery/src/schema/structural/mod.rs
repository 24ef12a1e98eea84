//! The structural schema as a tree that is ready to work with.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use regex::Regex;
use serde_json::Value;

use super::format::Format;

mod parse;

/// A structural schema, or a part of one below a property, `items` or a logical junctor.
///
/// Made from an `openAPIV3Schema` by [`Structural::parse`]. Equality of behaviour with
/// `k8s.io/apiextensions-apiserver/pkg/apiserver/schema` 1.36 is the measure. Rules in CEL
/// (`x-kubernetes-validations`) are refused when the schema is read: no report API has them, and a
/// schema whose rules were passed over would let objects in that the kube-apiserver refuses.
#[derive(Clone, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a field of the schema of its own"
)]
pub struct Structural {
    pub(super) types: Types,
    pub(super) nullable: bool,
    pub(super) default: Option<Value>,
    pub(super) properties: BTreeMap<String, Structural>,
    pub(super) additional: Additional,
    pub(super) items: Option<Box<Structural>>,
    pub(super) preserve_unknown: bool,
    pub(super) embedded: bool,
    pub(super) list_type: ListType,
    pub(super) map_atomic: bool,
    pub(super) rules: Rules,
    pub(super) needs: Needs,
}

/// The work that a schema or any part below it needs, so that walks over objects can be left out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Needs {
    /// True when there are values to fill in.
    pub defaults: bool,
    /// True when there are embedded objects to check.
    pub embedded: bool,
    /// True when there are lists whose items must be unique.
    pub unique_items: bool,
}

/// The values that are allowed under keys that are no properties.
#[derive(Clone, Debug, Default)]
pub(super) enum Additional {
    /// Not specified: such keys are unknown fields.
    #[default]
    Unspecified,
    /// `additionalProperties: true`: the keys are known, the fields below them are not.
    Any,
    /// `additionalProperties: {…}`.
    Schema(Box<Structural>),
}

/// The JSON types that are allowed; none given means all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Types {
    #[default]
    Any,
    One(Type),
    /// `x-kubernetes-int-or-string`.
    IntOrString,
}

/// The JSON types of OpenAPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

/// `x-kubernetes-list-type` with its keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

/// The rules that restrict values without shaping the tree.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    pub format: Option<Format>,
    pub enumeration: Vec<Value>,
    pub maximum: Option<Bound>,
    pub minimum: Option<Bound>,
    pub multiple_of: Option<f64>,
    pub pattern: Option<Regex>,
    pub max_length: Option<i64>,
    pub min_length: Option<i64>,
    pub max_items: Option<i64>,
    pub min_items: Option<i64>,
    pub unique_items: bool,
    pub max_properties: Option<i64>,
    pub min_properties: Option<i64>,
    pub required: Vec<String>,
    pub all_of: Vec<Structural>,
    pub any_of: Vec<Structural>,
    pub one_of: Vec<Structural>,
    pub not: Option<Box<Structural>>,
}

/// A numeric bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bound {
    pub value: f64,
    pub exclusive: bool,
}

/// The reason why an `openAPIV3Schema` cannot be used; `field` is a path below it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct SchemaError {
    /// Path below the `openAPIV3Schema`; empty for the schema itself.
    pub field: String,
    /// The fault of the field, as a sentence without a full stop.
    pub reason: String,
}

impl Structural {
    /// Reads an `openAPIV3Schema`.
    ///
    /// # Errors
    /// The first field that makes the schema non-structural or that needs something this server
    /// does not do.
    pub fn parse(schema: &JSONSchemaProps) -> Result<Self, SchemaError> {
        let parsed = parse::structural(schema, &parse::Place::root())?;
        if parsed.types != Types::One(Type::Object) {
            return Err(SchemaError::new("type", "must be object at the root"));
        }
        if !matches!(parsed.additional, Additional::Unspecified) {
            return Err(SchemaError::new(
                "additionalProperties",
                "must not be used at the root",
            ));
        }
        Ok(parsed)
    }

    /// Returns the schema of the value under `key` of an object, if there is one.
    pub(super) fn below(&self, key: &str) -> Option<&Self> {
        self.properties.get(key).or(match &self.additional {
            Additional::Schema(schema) => Some(schema),
            Additional::Any | Additional::Unspecified => None,
        })
    }

    /// Returns whether there is a value to fill in anywhere.
    #[must_use]
    pub fn has_defaults(&self) -> bool {
        self.needs.defaults
    }

    /// Returns whether the map is owned as a whole in server-side apply
    /// (`x-kubernetes-map-type: atomic`).
    #[must_use]
    pub fn is_atomic_map(&self) -> bool {
        self.map_atomic
    }
}

impl SchemaError {
    fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            reason: reason.into(),
        }
    }
}
