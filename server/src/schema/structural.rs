//! The structural schema as a tree that is ready to work with.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use regex::Regex;
use serde_json::Value;

use super::format::Format;

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
    pub(super) has_defaults: bool,
}

/// What may stand under keys that are no properties.
#[derive(Clone, Debug, Default)]
pub(super) enum Additional {
    /// Nothing was said: such keys are unknown fields.
    #[default]
    Unspecified,
    /// `additionalProperties: true`: the keys are known, what lies below them is not.
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

/// Everything that restricts values without shaping the tree.
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

/// Why an `openAPIV3Schema` cannot be used; `field` is a path below it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct SchemaError {
    /// Path below the `openAPIV3Schema`; empty for the schema itself.
    pub field: String,
    /// What is wrong with it, as a sentence without a full stop.
    pub reason: String,
}

impl Structural {
    /// Reads an `openAPIV3Schema`.
    ///
    /// # Errors
    /// Names the first field that makes the schema non-structural or that needs something this
    /// server does not do.
    pub fn parse(schema: &JSONSchemaProps) -> Result<Self, SchemaError> {
        let parsed = parse(schema, &Place::root())?;
        if parsed.types != Types::One(Type::Object) {
            return Err(error("type", "must be object at the root"));
        }
        if !matches!(parsed.additional, Additional::Unspecified) {
            return Err(error(
                "additionalProperties",
                "must not be used at the root",
            ));
        }
        Ok(parsed)
    }

    /// The schema of what stands under `key` of an object, if anything is said about it.
    pub(super) fn below(&self, key: &str) -> Option<&Self> {
        self.properties.get(key).or(match &self.additional {
            Additional::Schema(schema) => Some(schema),
            Additional::Any | Additional::Unspecified => None,
        })
    }

    /// Whether the tree knows a value to fill in somewhere; most do not, and then need no walk.
    #[must_use]
    pub fn has_defaults(&self) -> bool {
        self.has_defaults
    }

    /// Whether the map is owned as a whole in server-side apply (`x-kubernetes-map-type: atomic`).
    #[must_use]
    pub fn is_atomic_map(&self) -> bool {
        self.map_atomic
    }
}

/// Where in a schema a part stands.
struct Place {
    path: String,
    /// Below `allOf`, `anyOf`, `oneOf` or `not`, where only value validations are allowed.
    nested: bool,
}

impl Place {
    fn root() -> Self {
        Self {
            path: String::new(),
            nested: false,
        }
    }

    fn child(&self, segment: &str) -> Self {
        Self {
            path: self.field(segment),
            nested: self.nested,
        }
    }

    fn junctor(&self, segment: &str) -> Self {
        Self {
            path: self.field(segment),
            nested: true,
        }
    }

    fn field(&self, segment: &str) -> String {
        if self.path.is_empty() {
            segment.to_owned()
        } else {
            format!("{}.{segment}", self.path)
        }
    }

    fn refuse<T>(&self, segment: &str, reason: &str) -> Result<T, SchemaError> {
        Err(error(self.field(segment), reason))
    }
}

fn error(field: impl Into<String>, reason: impl Into<String>) -> SchemaError {
    SchemaError {
        field: field.into(),
        reason: reason.into(),
    }
}

fn parse(schema: &JSONSchemaProps, place: &Place) -> Result<Structural, SchemaError> {
    refuse_unsupported(schema, place)?;
    if place.nested {
        refuse_in_junctor(schema, place)?;
    }
    let mut parsed = Structural {
        types: types(schema, place)?,
        nullable: schema.nullable.unwrap_or(false),
        default: schema.default.as_ref().map(|json| json.0.clone()),
        properties: properties(schema, place)?,
        additional: additional(schema, place)?,
        items: items(schema, place)?,
        preserve_unknown: schema.x_kubernetes_preserve_unknown_fields.unwrap_or(false),
        embedded: schema.x_kubernetes_embedded_resource.unwrap_or(false),
        list_type: list_type(schema, place)?,
        map_atomic: schema.x_kubernetes_map_type.as_deref() == Some("atomic"),
        rules: rules(schema, place)?,
        has_defaults: false,
    };
    let untyped = parsed.types == Types::Any && !parsed.preserve_unknown;
    if untyped && !place.nested {
        return place.refuse("type", "must not be empty");
    }
    if parsed.types == Types::One(Type::Array) && parsed.items.is_none() && !place.nested {
        return place.refuse("items", "must be specified");
    }
    if parsed.embedded && parsed.types != Types::One(Type::Object) {
        return place.refuse(
            "type",
            "must be object if x-kubernetes-embedded-resource is true",
        );
    }
    parsed.has_defaults = parsed.default.is_some()
        || parsed
            .items
            .as_ref()
            .is_some_and(|items| items.has_defaults)
        || parsed
            .properties
            .values()
            .any(|property| property.has_defaults)
        || matches!(&parsed.additional, Additional::Schema(schema) if schema.has_defaults);
    Ok(parsed)
}

/// Refuses what `apiextensions.k8s.io/v1` forbids and what this server does not evaluate.
fn refuse_unsupported(schema: &JSONSchemaProps, place: &Place) -> Result<(), SchemaError> {
    const UNSTRUCTURAL: &str = "is not allowed in a structural schema";
    if schema
        .x_kubernetes_validations
        .as_ref()
        .is_some_and(|rules| !rules.is_empty())
    {
        let reason = "validation rules in CEL are not supported by this server";
        return place.refuse("x-kubernetes-validations", reason);
    }
    let forbidden = [
        ("$ref", schema.ref_path.is_some()),
        (
            "definitions",
            schema
                .definitions
                .as_ref()
                .is_some_and(|map| !map.is_empty()),
        ),
        (
            "dependencies",
            schema
                .dependencies
                .as_ref()
                .is_some_and(|map| !map.is_empty()),
        ),
        (
            "patternProperties",
            schema
                .pattern_properties
                .as_ref()
                .is_some_and(|m| !m.is_empty()),
        ),
        ("additionalItems", schema.additional_items.is_some()),
    ];
    match forbidden.into_iter().find(|(_, present)| *present) {
        Some((field, _)) => place.refuse(field, UNSTRUCTURAL),
        None => Ok(()),
    }
}

/// Below a junctor a schema may restrict values, but not shape, default or describe them.
fn refuse_in_junctor(schema: &JSONSchemaProps, place: &Place) -> Result<(), SchemaError> {
    let shaping = [
        (
            "additionalProperties",
            schema.additional_properties.is_some(),
        ),
        ("default", schema.default.is_some()),
        ("nullable", schema.nullable == Some(true)),
        (
            "x-kubernetes-preserve-unknown-fields",
            schema.x_kubernetes_preserve_unknown_fields == Some(true),
        ),
        (
            "x-kubernetes-embedded-resource",
            schema.x_kubernetes_embedded_resource == Some(true),
        ),
        (
            "x-kubernetes-int-or-string",
            schema.x_kubernetes_int_or_string == Some(true),
        ),
        (
            "x-kubernetes-list-type",
            schema.x_kubernetes_list_type.is_some(),
        ),
        (
            "x-kubernetes-map-type",
            schema.x_kubernetes_map_type.is_some(),
        ),
    ];
    match shaping.into_iter().find(|(_, present)| *present) {
        Some((field, _)) => place.refuse(field, "must be undefined to be structural"),
        None => Ok(()),
    }
}

fn types(schema: &JSONSchemaProps, place: &Place) -> Result<Types, SchemaError> {
    if schema.x_kubernetes_int_or_string == Some(true) {
        return Ok(Types::IntOrString);
    }
    Ok(match schema.type_.as_deref() {
        None | Some("") => Types::Any,
        Some("object") => Types::One(Type::Object),
        Some("array") => Types::One(Type::Array),
        Some("string") => Types::One(Type::String),
        Some("integer") => Types::One(Type::Integer),
        Some("number") => Types::One(Type::Number),
        Some("boolean") => Types::One(Type::Boolean),
        Some(other) => {
            let reason = format!(
                "unsupported value {other:?}: must be one of array, boolean, integer, number, object, string"
            );
            return place.refuse("type", &reason);
        }
    })
}

fn properties(
    schema: &JSONSchemaProps,
    place: &Place,
) -> Result<BTreeMap<String, Structural>, SchemaError> {
    let Some(properties) = &schema.properties else {
        return Ok(BTreeMap::new());
    };
    properties
        .iter()
        .map(|(name, property)| {
            let child = place.child(&format!("properties[{name}]"));
            Ok((name.clone(), parse(property, &child)?))
        })
        .collect()
}

fn additional(schema: &JSONSchemaProps, place: &Place) -> Result<Additional, SchemaError> {
    Ok(match &schema.additional_properties {
        None | Some(JSONSchemaPropsOrBool::Bool(false)) => Additional::Unspecified,
        Some(JSONSchemaPropsOrBool::Bool(true)) => Additional::Any,
        Some(JSONSchemaPropsOrBool::Schema(below)) => Additional::Schema(Box::new(parse(
            below,
            &place.child("additionalProperties"),
        )?)),
    })
}

fn items(schema: &JSONSchemaProps, place: &Place) -> Result<Option<Box<Structural>>, SchemaError> {
    Ok(match &schema.items {
        None => None,
        Some(JSONSchemaPropsOrArray::Schema(below)) => {
            Some(Box::new(parse(below, &place.child("items"))?))
        }
        Some(JSONSchemaPropsOrArray::Schemas(_)) => {
            return place.refuse("items", "must be a schema object and not an array");
        }
    })
}

fn list_type(schema: &JSONSchemaProps, place: &Place) -> Result<ListType, SchemaError> {
    Ok(match schema.x_kubernetes_list_type.as_deref() {
        None | Some("atomic") => ListType::Atomic,
        Some("set") => ListType::Set,
        Some("map") => match schema.x_kubernetes_list_map_keys.as_deref() {
            None | Some([]) => {
                let reason = "must not be empty if x-kubernetes-list-type is map";
                return place.refuse("x-kubernetes-list-map-keys", reason);
            }
            Some(keys) => ListType::Map(keys.to_vec()),
        },
        Some(other) => {
            let reason = format!("unsupported value {other:?}: must be one of atomic, map, set");
            return place.refuse("x-kubernetes-list-type", &reason);
        }
    })
}

fn rules(schema: &JSONSchemaProps, place: &Place) -> Result<Rules, SchemaError> {
    let pattern = match schema.pattern.as_deref() {
        None | Some("") => None,
        Some(text) => Some(Regex::new(text).map_err(|err| {
            error(
                place.field("pattern"),
                format!("must be a valid regular expression: {err}"),
            )
        })?),
    };
    let bound = |value: Option<f64>, exclusive: Option<bool>| {
        value.map(|value| Bound {
            value,
            exclusive: exclusive.unwrap_or(false),
        })
    };
    Ok(Rules {
        format: format(schema, place)?,
        enumeration: schema
            .enum_
            .iter()
            .flatten()
            .map(|json| json.0.clone())
            .collect(),
        maximum: bound(schema.maximum, schema.exclusive_maximum),
        minimum: bound(schema.minimum, schema.exclusive_minimum),
        multiple_of: schema.multiple_of,
        pattern,
        max_length: schema.max_length,
        min_length: schema.min_length,
        max_items: schema.max_items,
        min_items: schema.min_items,
        unique_items: schema.unique_items.unwrap_or(false),
        max_properties: schema.max_properties,
        min_properties: schema.min_properties,
        required: unique(schema.required.as_deref().unwrap_or_default()),
        all_of: junctor(schema.all_of.as_deref(), "allOf", schema, place)?,
        any_of: junctor(schema.any_of.as_deref(), "anyOf", schema, place)?,
        one_of: junctor(schema.one_of.as_deref(), "oneOf", schema, place)?,
        not: match &schema.not {
            None => None,
            Some(below) => Some(Box::new(parse(below, &place.junctor("not"))?)),
        },
    })
}

fn format(schema: &JSONSchemaProps, place: &Place) -> Result<Option<Format>, SchemaError> {
    match schema.format.as_deref() {
        None | Some("") => Ok(None),
        Some(name) => Format::of(name, types(schema, place)?)
            .map_err(|reason| error(place.field("format"), reason)),
    }
}

fn unique(names: &[String]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    names
        .iter()
        .filter(|name| seen.insert(name.as_str()))
        .cloned()
        .collect()
}

fn junctor(
    branches: Option<&[JSONSchemaProps]>,
    name: &str,
    parent: &JSONSchemaProps,
    place: &Place,
) -> Result<Vec<Structural>, SchemaError> {
    branches
        .unwrap_or_default()
        .iter()
        .enumerate()
        .map(|(index, branch)| {
            let below = place.junctor(&format!("{name}[{index}]"));
            // The one place where a type may stand below a junctor is the well-known
            // `anyOf: [{type: integer}, {type: string}]` of x-kubernetes-int-or-string.
            let int_or_string = parent.x_kubernetes_int_or_string == Some(true);
            if branch.type_.is_some() && !place.nested && !int_or_string {
                return below.refuse("type", "must be empty to be structural");
            }
            parse(branch, &below)
        })
        .collect()
}
