//! OpenAPI v3 documents as messages.
//!
//! Names and numbers of fields are those of `openapiv3/OpenAPIv3.proto` of
//! `github.com/google/gnostic-models` 0.7.0, by which Kubernetes reads and writes them; parts that
//! no document about a custom resource has are left out.

use serde_json::Value;

use super::writer::Writer;

/// Returns a document of OpenAPI v3 as protobuf, from its JSON.
#[must_use]
pub fn openapi_document(document: &Value) -> Vec<u8> {
    let mut out = Writer::default();
    DOCUMENT.write(&mut out, document);
    out.into_bytes()
}

/// The message for a JSON object.
struct Message {
    /// The names of the members, and numbers and forms of the fields.
    fields: &'static [(&'static str, u32, Form)],
    /// Number of the field for members whose names begin with `x-`.
    extensions: u32,
}

/// The form of a JSON value in protobuf.
enum Form {
    Text,
    Boolean,
    Integer,
    Double,
    /// A value of any type: a message with a text of YAML, which JSON is.
    Any,
    /// A default, which is a scalar. For others Go, too, writes an empty message.
    Scalar,
    Message(&'static Message),
    /// The message, or a reference to one.
    Choice(&'static Message),
    /// A field for each element of the list.
    Each(&'static Form),
    /// A message with a field of this number for each member, which contains its name and value.
    Members(u32, &'static Form),
    /// A message with the value in its first field, or a boolean in its second one.
    Inner(&'static Form),
}

static DOCUMENT: Message = Message {
    fields: &[
        ("openapi", 1, Form::Text),
        ("info", 2, Form::Message(&INFO)),
        ("paths", 4, Form::Members(1, &Form::Message(&PATH))),
        ("components", 5, Form::Message(&COMPONENTS)),
    ],
    extensions: 9,
};

static INFO: Message = Message {
    fields: &[
        ("title", 1, Form::Text),
        ("description", 2, Form::Text),
        ("version", 6, Form::Text),
    ],
    extensions: 7,
};

static PATH: Message = Message {
    fields: &[
        ("get", 4, Form::Message(&OPERATION)),
        ("put", 5, Form::Message(&OPERATION)),
        ("post", 6, Form::Message(&OPERATION)),
        ("delete", 7, Form::Message(&OPERATION)),
        ("patch", 10, Form::Message(&OPERATION)),
        ("parameters", 13, Form::Each(&Form::Choice(&PARAMETER))),
    ],
    extensions: 14,
};

static OPERATION: Message = Message {
    fields: &[
        ("tags", 1, Form::Each(&Form::Text)),
        ("summary", 2, Form::Text),
        ("description", 3, Form::Text),
        ("operationId", 5, Form::Text),
        ("parameters", 6, Form::Each(&Form::Choice(&PARAMETER))),
        ("requestBody", 7, Form::Choice(&REQUEST_BODY)),
        ("responses", 8, Form::Members(2, &Form::Choice(&RESPONSE))),
        ("deprecated", 10, Form::Boolean),
    ],
    extensions: 13,
};

static PARAMETER: Message = Message {
    fields: &[
        ("name", 1, Form::Text),
        ("in", 2, Form::Text),
        ("description", 3, Form::Text),
        ("required", 4, Form::Boolean),
        ("schema", 10, Form::Choice(&SCHEMA)),
    ],
    extensions: 14,
};

static REQUEST_BODY: Message = Message {
    fields: &[
        ("description", 1, Form::Text),
        ("content", 2, Form::Members(1, &Form::Message(&MEDIA_TYPE))),
        ("required", 3, Form::Boolean),
    ],
    extensions: 4,
};

static RESPONSE: Message = Message {
    fields: &[
        ("description", 1, Form::Text),
        ("content", 3, Form::Members(1, &Form::Message(&MEDIA_TYPE))),
    ],
    extensions: 5,
};

static MEDIA_TYPE: Message = Message {
    fields: &[("schema", 1, Form::Choice(&SCHEMA))],
    extensions: 5,
};

static COMPONENTS: Message = Message {
    fields: &[("schemas", 1, Form::Members(1, &Form::Choice(&SCHEMA)))],
    extensions: 10,
};

static SCHEMA: Message = Message {
    fields: &[
        ("nullable", 1, Form::Boolean),
        ("readOnly", 3, Form::Boolean),
        ("writeOnly", 4, Form::Boolean),
        ("externalDocs", 6, Form::Message(&EXTERNAL_DOCS)),
        ("example", 7, Form::Any),
        ("deprecated", 8, Form::Boolean),
        ("title", 9, Form::Text),
        ("multipleOf", 10, Form::Double),
        ("maximum", 11, Form::Double),
        ("exclusiveMaximum", 12, Form::Boolean),
        ("minimum", 13, Form::Double),
        ("exclusiveMinimum", 14, Form::Boolean),
        ("maxLength", 15, Form::Integer),
        ("minLength", 16, Form::Integer),
        ("pattern", 17, Form::Text),
        ("maxItems", 18, Form::Integer),
        ("minItems", 19, Form::Integer),
        ("uniqueItems", 20, Form::Boolean),
        ("maxProperties", 21, Form::Integer),
        ("minProperties", 22, Form::Integer),
        ("required", 23, Form::Each(&Form::Text)),
        ("enum", 24, Form::Each(&Form::Any)),
        ("type", 25, Form::Text),
        ("allOf", 26, Form::Each(&Form::Choice(&SCHEMA))),
        ("oneOf", 27, Form::Each(&Form::Choice(&SCHEMA))),
        ("anyOf", 28, Form::Each(&Form::Choice(&SCHEMA))),
        ("not", 29, Form::Message(&SCHEMA)),
        ("items", 30, Form::Inner(&Form::Choice(&SCHEMA))),
        ("properties", 31, Form::Members(1, &Form::Choice(&SCHEMA))),
        (
            "additionalProperties",
            32,
            Form::Inner(&Form::Choice(&SCHEMA)),
        ),
        ("default", 33, Form::Scalar),
        ("description", 34, Form::Text),
        ("format", 35, Form::Text),
    ],
    extensions: 36,
};

static EXTERNAL_DOCS: Message = Message {
    fields: &[("description", 1, Form::Text), ("url", 2, Form::Text)],
    extensions: 3,
};

impl Message {
    fn write(&self, out: &mut Writer, object: &Value) {
        for (name, number, form) in self.fields {
            if let Some(value) = object.get(name) {
                form.write(out, *number, value);
            }
        }
        for (name, value) in members(object) {
            if name.starts_with("x-") {
                named(out, self.extensions, name, &Form::Any, value);
            }
        }
    }
}

impl Form {
    fn write(&self, out: &mut Writer, number: u32, value: &Value) {
        match self {
            Self::Text => out.text(number, value.as_str().unwrap_or_default()),
            Self::Boolean => out.boolean(number, value.as_bool().unwrap_or_default()),
            Self::Integer => out.number(number, value.as_i64().unwrap_or_default()),
            Self::Double => out.double(number, value.as_f64().unwrap_or_default()),
            Self::Any => out.message(number, |any| any.text(2, &value.to_string())),
            Self::Scalar => out.message(number, |scalar| match value {
                Value::Number(number) => scalar.double(1, number.as_f64().unwrap_or_default()),
                Value::Bool(boolean) => scalar.boolean(2, *boolean),
                Value::String(text) => scalar.text(3, text),
                Value::Null | Value::Array(_) | Value::Object(_) => {}
            }),
            Self::Message(message) => out.message(number, |inner| message.write(inner, value)),
            Self::Choice(message) => out.message(number, |choice| match value.get("$ref") {
                Some(target) => choice.message(2, |reference| {
                    Self::Text.write(reference, 1, target);
                }),
                None => choice.message(1, |inner| message.write(inner, value)),
            }),
            Self::Each(form) => {
                for element in value.as_array().into_iter().flatten() {
                    form.write(out, number, element);
                }
            }
            Self::Members(field, form) => out.message(number, |inner| {
                for (name, value) in members(value) {
                    named(inner, *field, name, form, value);
                }
            }),
            Self::Inner(form) => out.message(number, |inner| match value {
                Value::Bool(boolean) => inner.boolean(2, *boolean),
                _ => form.write(inner, 1, value),
            }),
        }
    }
}

/// Writes a message with a name and a value.
fn named(out: &mut Writer, number: u32, name: &str, form: &Form, value: &Value) {
    out.message(number, |pair| {
        pair.text(1, name);
        form.write(pair, 2, value);
    });
}

fn members(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    object.as_object().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::super::reader::{Field, fields};
    use super::*;

    /// Returns the fields of a schema.
    fn schema(schema: &Value) -> Vec<u8> {
        let mut out = Writer::default();
        SCHEMA.write(&mut out, schema);
        out.into_bytes()
    }

    // The bytes are those that Go's `proto.Marshal` makes of what gnostic reads from the JSON; all
    // of a whole document is compared by `TestOpenAPI` of e2e/clients.
    #[rstest]
    #[case::text(json!({"type": "string"}), b"\xca\x01\x06string")]
    #[case::boolean(json!({"nullable": true}), b"\x08\x01")]
    #[case::integer(json!({"maxLength": 300}), b"\x78\xac\x02")]
    #[case::double(json!({"maximum": 1.5}), b"\x59\x00\x00\x00\x00\x00\x00\xf8\x3f")]
    #[case::texts(json!({"required": ["a", "b"]}), b"\xba\x01\x01a\xba\x01\x01b")]
    #[case::reference(json!({"allOf": [{"$ref": "#/a"}]}), b"\xd2\x01\x07\x12\x05\x0a\x03#/a")]
    #[case::not(json!({"not": {"nullable": true}}), b"\xea\x01\x02\x08\x01")]
    #[case::items(json!({"items": {"nullable": true}}), b"\xf2\x01\x06\x0a\x04\x0a\x02\x08\x01")]
    #[case::properties(
        json!({"properties": {"p": {"nullable": true}}}),
        b"\xfa\x01\x0b\x0a\x09\x0a\x01p\x12\x04\x0a\x02\x08\x01"
    )]
    #[case::no_more(json!({"additionalProperties": false}), b"\x82\x02\x02\x10\x00")]
    #[case::a_number(json!({"default": 2}), b"\x8a\x02\x09\x09\x00\x00\x00\x00\x00\x00\x00\x40")]
    #[case::a_boolean(json!({"default": true}), b"\x8a\x02\x02\x10\x01")]
    #[case::a_text(json!({"default": "x"}), b"\x8a\x02\x03\x1a\x01x")]
    #[case::no_scalar(json!({"default": {"a": 1}}), b"\x8a\x02\x00")]
    #[case::unknown(json!({"patternProperties": {}}), b"")]
    fn schemas(#[case] json: Value, #[case] expected: &[u8]) {
        assert_eq!(schema(&json), expected);
    }

    #[test]
    fn extensions_are_in_yaml() {
        let bytes = schema(&json!({"x-kubernetes-list-map-keys": ["uid"]}));
        let [(36, Field::Bytes(pair))] = fields(&bytes).unwrap()[..] else {
            panic!("{bytes:?}")
        };
        assert_eq!(
            fields(pair).unwrap(),
            [
                (1, Field::Bytes(b"x-kubernetes-list-map-keys")),
                (2, Field::Bytes(b"\x12\x07[\"uid\"]")),
            ]
        );
    }

    #[test]
    fn a_document_has_paths_and_schemas() {
        let bytes = openapi_document(&json!({
            "openapi": "3.0.0",
            "paths": {"/a": {"get": {"responses": {"200": {"description": "OK"}}}}},
            "components": {"schemas": {"S": {}}},
        }));
        assert_eq!(
            fields(&bytes).unwrap(),
            [
                (1, Field::Bytes(b"3.0.0")),
                (
                    4,
                    Field::Bytes(
                        b"\x0a\x19\x0a\x02/a\x12\x13\x22\x11\x42\x0f\x12\x0d\x0a\x03200\x12\x06\
                          \x0a\x04\x0a\x02OK"
                    )
                ),
                (
                    5,
                    Field::Bytes(b"\x0a\x09\x0a\x07\x0a\x01S\x12\x02\x0a\x00")
                ),
            ]
        );
    }
}
