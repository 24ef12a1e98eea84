//! Reading an `openAPIV3Schema`.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::Value;

use super::{Atom, Field, List, ListRelation, MapType, Scalar, TypeRef, meta};

/// The reason why a schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct SchemaError {
    /// Path below the `openAPIV3Schema`; empty for the schema itself.
    pub path: String,
    /// The fault there.
    pub reason: String,
}

/// A part of a schema and its place.
#[derive(Clone, Copy)]
struct Part<'a> {
    schema: &'a Value,
    path: &'a str,
    /// True when unknown fields are kept here or anywhere above.
    preserve: bool,
    /// True when this is an object with `apiVersion`, `kind` and `metadata`.
    embedded: bool,
}

static OBJECT_META: LazyLock<TypeRef> = LazyLock::new(|| {
    let schema = meta::object_meta();
    let part = Part {
        schema: &schema,
        path: "metadata",
        preserve: false,
        embedded: false,
    };
    part.type_ref().unwrap_or(TypeRef::Deduced)
});

pub(super) fn root(schema: &Value) -> Result<TypeRef, SchemaError> {
    let part = Part {
        schema,
        path: "",
        preserve: false,
        embedded: true,
    };
    part.type_ref()
}

impl<'a> Part<'a> {
    fn type_ref(mut self) -> Result<TypeRef, SchemaError> {
        self.preserve |= self.flag("x-kubernetes-preserve-unknown-fields");
        self.embedded |= self.flag("x-kubernetes-embedded-resource");
        Ok(TypeRef::Inline(Arc::new(self.atom()?)))
    }

    fn atom(self) -> Result<Atom, SchemaError> {
        let scalar = |scalar| Atom {
            scalar: Some(scalar),
            ..Atom::default()
        };
        Ok(match self.text("type") {
            "" => Atom {
                scalar: Some(Scalar::Untyped),
                list: Some(self.list()?),
                map: Some(self.map()?),
            },
            "object" => Atom {
                map: Some(self.map()?),
                ..Atom::default()
            },
            "array" => Atom {
                list: Some(self.list()?),
                ..Atom::default()
            },
            "integer" | "number" => scalar(Scalar::Numeric),
            "boolean" => scalar(Scalar::Boolean),
            "string" => match self.text("format") {
                "" | "byte" => scalar(Scalar::String),
                _ => scalar(Scalar::Untyped),
            },
            other => return self.refuse(format!("unrecognized type: '{other}'")),
        })
    }

    fn map(self) -> Result<MapType, SchemaError> {
        let mut fields = BTreeMap::new();
        let properties = self.schema.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            let path = format!("{}.properties[{name}]", self.path);
            let field = Field {
                of: self.below(property, &path)?,
                default: property.get("default").filter(|d| !d.is_null()).cloned(),
            };
            fields.insert(name.clone(), field);
        }
        if self.embedded {
            add_object_fields(&mut fields);
        }
        let additional = match self.schema.get("additionalProperties") {
            None | Some(Value::Null) if self.preserve || fields.is_empty() => TypeRef::Deduced,
            Some(Value::Bool(true)) => TypeRef::Deduced,
            None | Some(Value::Null | Value::Bool(false)) => TypeRef::Undeclared,
            Some(schema) => {
                let path = format!("{}.additionalProperties", self.path);
                self.below(schema, &path)?
            }
        };
        let atomic = match self.text("x-kubernetes-map-type") {
            "atomic" => true,
            "" | "granular" => false,
            other => return self.refuse(format!("unknown map type {other}")),
        };
        Ok(MapType {
            fields,
            additional,
            atomic,
        })
    }

    fn list(self) -> Result<List, SchemaError> {
        let items = match self.schema.get("items") {
            Some(items @ Value::Object(_)) => self.below(items, &format!("{}.items", self.path))?,
            None | Some(Value::Null) if self.text("type").is_empty() => TypeRef::Untyped,
            None | Some(Value::Null) => {
                return self.refuse("`items` must be specified on arrays".to_owned());
            }
            Some(_) => {
                let reason = "structural schema arrays must have exactly one member subtype";
                return self.refuse(reason.to_owned());
            }
        };
        let relation = match self.text("x-kubernetes-list-type") {
            "" | "atomic" => ListRelation::Atomic,
            "set" => ListRelation::Set,
            "map" => match self.list_map_keys() {
                keys if keys.is_empty() => return self.refuse("missing map keys".to_owned()),
                keys => ListRelation::Map(keys),
            },
            other => return self.refuse(format!("unknown list type {other}")),
        };
        Ok(List { items, relation })
    }

    fn list_map_keys(self) -> Vec<String> {
        let keys = self.schema.get("x-kubernetes-list-map-keys");
        keys.and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    }

    fn below(self, schema: &Value, path: &str) -> Result<TypeRef, SchemaError> {
        let part = Part {
            schema,
            path,
            preserve: self.preserve,
            embedded: false,
        };
        part.type_ref()
    }

    fn flag(self, name: &str) -> bool {
        self.schema.get(name) == Some(&Value::Bool(true))
    }

    fn text(self, name: &str) -> &'a str {
        self.schema
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    fn refuse<T>(self, reason: String) -> Result<T, SchemaError> {
        Err(SchemaError {
            path: self.path.trim_start_matches('.').to_owned(),
            reason,
        })
    }
}

fn add_object_fields(fields: &mut BTreeMap<String, Field>) {
    let string = TypeRef::Inline(Arc::new(Atom {
        scalar: Some(Scalar::String),
        ..Atom::default()
    }));
    let types = [
        ("apiVersion", string.clone()),
        ("kind", string),
        ("metadata", OBJECT_META.clone()),
    ];
    for (name, of) in types {
        fields.insert(name.to_owned(), Field { of, default: None });
    }
}
