//! Bringing an object into the shape of its schema, as `schemaCoercingDecoder` of
//! `k8s.io/apiextensions-apiserver` does.

use serde_json::{Map, Value};

use super::json_type::json_type;
use super::object_meta;
use super::prune::{MAX_UNKNOWN, Pruner, prune_nulls};
use super::structural::{Additional, Structural};
use super::told::Told;

/// The treatment of metadata fields whose values have the wrong type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The object is refused: for objects that clients send.
    Refuse,
    /// The field is dropped: for objects that are stored already.
    Drop,
}

/// The reason why an object cannot be brought into shape: a 400 that carries this text.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CoerceError {
    /// `apiVersion` or `kind` of the object is no string.
    #[error(".{field} accessor error: {value} is of the type {found}, expected string")]
    TypeMeta {
        /// Name of the field.
        field: &'static str,
        /// The value of the field.
        value: String,
        /// The type of the value, as Go calls it.
        found: &'static str,
    },
    /// The object is no JSON object.
    #[error("json: cannot unmarshal {0} into Go value of type map[string]interface {{}}")]
    NoObject(&'static str),
    /// A field of the object's metadata has the wrong type.
    #[error("{0}")]
    Metadata(String),
    /// The error of [`Self::Metadata`] in an object that is embedded in a field
    /// (`x-kubernetes-embedded-resource`).
    #[error("{0}")]
    Embedded(super::FieldError),
}

impl Structural {
    /// Prunes `object` in place as the kube-apiserver does after decoding: unknown fields go at all
    /// levels (`metadata` keeps only the fields of ObjectMeta, in their canonical form), and so do
    /// nulls where the schema has neither `nullable` nor a default. `apiVersion` and `kind` stay.
    ///
    /// Returns the paths of the unknown fields (`spec.foo`, `results[0].x`), those of the metadata
    /// first, then by alphabet: the `x` of `unknown field "x"`.
    ///
    /// # Errors
    /// With [`Malformed::Refuse`], if `metadata`, `apiVersion` or `kind` have the wrong type.
    pub fn coerce(
        &self,
        object: &mut Value,
        malformed: Malformed,
    ) -> Result<Vec<String>, CoerceError> {
        let of_metadata = Self::conform_metadata(object, malformed)?;
        let mut pruner = Pruner::default();
        if let Value::Object(fields) = object {
            pruner.prune_fields(fields, self, true);
        }
        prune_nulls(object, Some(self));
        let mut embedded = Embedded {
            malformed,
            unknown: Told::at_most(MAX_UNKNOWN),
        };
        embedded.coerce_below(object, self, "")?;
        let mut unknown = of_metadata;
        unknown.extend(pruner.unknown.into_sorted());
        unknown.extend(embedded.unknown.into_sorted());
        Ok(unknown)
    }

    /// Brings the metadata of an object of whatever kind into its canonical form; nothing else is
    /// done to an object of another kind. Returns the paths of the fields that metadata does not
    /// have.
    ///
    /// # Errors
    /// As [`Structural::coerce`], except for embedded objects.
    pub fn conform_metadata(
        object: &mut Value,
        malformed: Malformed,
    ) -> Result<Vec<String>, CoerceError> {
        let Value::Object(fields) = object else {
            return Err(CoerceError::NoObject(json_type(object)));
        };
        for field in ["kind", "apiVersion"] {
            check_type_meta(fields, field)?;
        }
        let mut unknown = Told::at_most(MAX_UNKNOWN);
        if let Some(metadata) = fields.get_mut("metadata") {
            object_meta::conform(metadata, "metadata", malformed, &mut unknown)
                .map_err(CoerceError::Metadata)?;
        }
        Ok(unknown.into_texts())
    }
}

fn check_type_meta(fields: &Map<String, Value>, field: &'static str) -> Result<(), CoerceError> {
    let (value, found) = match fields.get(field) {
        None | Some(Value::String(_)) => return Ok(()),
        Some(Value::Null) => ("<nil>".to_owned(), "<nil>"),
        Some(value @ Value::Bool(_)) => (value.to_string(), "bool"),
        Some(value @ Value::Number(number)) => (
            value.to_string(),
            if number.is_i64() { "int64" } else { "float64" },
        ),
        Some(value @ Value::Array(_)) => (value.to_string(), "[]interface {}"),
        Some(value @ Value::Object(_)) => (value.to_string(), "map[string]interface {}"),
    };
    Err(CoerceError::TypeMeta {
        field,
        value,
        found,
    })
}

/// A walk that brings the metadata of embedded objects into shape.
struct Embedded {
    malformed: Malformed,
    unknown: Told,
}

impl Embedded {
    fn coerce_below(
        &mut self,
        value: &mut Value,
        schema: &Structural,
        path: &str,
    ) -> Result<(), CoerceError> {
        if !schema.needs.embedded {
            return Ok(());
        }
        match value {
            Value::Object(fields) => {
                if schema.embedded {
                    self.coerce_meta(fields, path)?;
                }
                for (key, value) in fields {
                    if let Some(property) = schema.properties.get(key) {
                        self.coerce_below(value, property, &join(path, key))?;
                    } else if let Additional::Schema(below) = &schema.additional {
                        self.coerce_below(value, below, &format!("{path}[{key}]"))?;
                    }
                }
            }
            Value::Array(items) => {
                if let Some(below) = schema.items.as_deref() {
                    for (index, item) in items.iter_mut().enumerate() {
                        self.coerce_below(item, below, &format!("{path}[{index}]"))?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn coerce_meta(
        &mut self,
        fields: &mut Map<String, Value>,
        path: &str,
    ) -> Result<(), CoerceError> {
        let invalid = |key: &str, value: &Value, detail: String| {
            CoerceError::Embedded(super::FieldError::invalid(
                join(path, key),
                value.clone(),
                detail,
            ))
        };
        for key in ["apiVersion", "kind"] {
            match (fields.get(key), self.malformed) {
                (None | Some(Value::String(_)), _) => {}
                (Some(_), Malformed::Drop) => {
                    fields.remove(key);
                }
                (Some(value), Malformed::Refuse) => {
                    return Err(invalid(key, value, "must be a string".to_owned()));
                }
            }
        }
        if let Some(metadata) = fields.get_mut("metadata") {
            let given = metadata.clone();
            let path = join(path, "metadata");
            object_meta::conform(metadata, &path, self.malformed, &mut self.unknown)
                .map_err(|error| invalid("metadata", &given, error))?;
        }
        Ok(())
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}
