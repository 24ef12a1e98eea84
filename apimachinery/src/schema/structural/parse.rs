//! Reading an `openAPIV3Schema`.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use regex::Regex;

use super::super::format::Format;
use super::{Additional, Bound, ListType, Needs, Rules, SchemaError, Structural, Type, Types};

/// The place of a part in a schema.
pub(super) struct Place {
    path: String,
    /// True below `allOf`, `anyOf`, `oneOf` or `not`, where only value validations are allowed.
    nested: bool,
}

impl Place {
    pub fn root() -> Self {
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
        Err(SchemaError::new(self.field(segment), reason))
    }
}

/// Reads a schema and all below it.
pub(super) fn structural(
    schema: &JSONSchemaProps,
    place: &Place,
) -> Result<Structural, SchemaError> {
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
        needs: Needs::default(),
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
    parsed.needs = needs(&parsed);
    Ok(parsed)
}

fn needs(schema: &Structural) -> Needs {
    let own = Needs {
        defaults: schema.default.is_some(),
        embedded: schema.embedded,
        unique_items: schema.list_type != ListType::Atomic,
    };
    let additional = match &schema.additional {
        Additional::Schema(below) => Some(&**below),
        Additional::Any | Additional::Unspecified => None,
    };
    schema
        .properties
        .values()
        .chain(schema.items.as_deref())
        .chain(additional)
        .fold(own, |needs, below| Needs {
            defaults: needs.defaults || below.needs.defaults,
            embedded: needs.embedded || below.needs.embedded,
            unique_items: needs.unique_items || below.needs.unique_items,
        })
}

/// Refuses constructs that `apiextensions.k8s.io/v1` forbids or that this server does not evaluate.
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

/// Refuses other parts below a junctor: a schema there may restrict values, but not shape, default
/// or describe them.
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
            Ok((name.clone(), structural(property, &child)?))
        })
        .collect()
}

fn additional(schema: &JSONSchemaProps, place: &Place) -> Result<Additional, SchemaError> {
    Ok(match &schema.additional_properties {
        None | Some(JSONSchemaPropsOrBool::Bool(false)) => Additional::Unspecified,
        Some(JSONSchemaPropsOrBool::Bool(true)) => Additional::Any,
        Some(JSONSchemaPropsOrBool::Schema(below)) => Additional::Schema(Box::new(structural(
            below,
            &place.child("additionalProperties"),
        )?)),
    })
}

fn items(schema: &JSONSchemaProps, place: &Place) -> Result<Option<Box<Structural>>, SchemaError> {
    Ok(match &schema.items {
        None => None,
        Some(JSONSchemaPropsOrArray::Schema(below)) => {
            Some(Box::new(structural(below, &place.child("items"))?))
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
            SchemaError::new(
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
            Some(below) => Some(Box::new(structural(below, &place.junctor("not"))?)),
        },
    })
}

fn format(schema: &JSONSchemaProps, place: &Place) -> Result<Option<Format>, SchemaError> {
    match schema.format.as_deref() {
        None | Some("") => Ok(None),
        Some(name) => Format::of(name, types(schema, place)?)
            .map_err(|reason| SchemaError::new(place.field("format"), reason)),
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
            structural(branch, &below)
        })
        .collect()
}
