//! Tests of whole schemas. The expected texts were taken from a kube-apiserver 1.36.

mod coerce;
mod defaults;
mod properties;
mod structural;
mod update;
mod validate;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use serde_json::{Value, json};

use super::{SchemaError, Structural};

/// Returns the schema of an object whose fields besides the usual are `properties`.
fn schema(properties: &Value) -> Structural {
    try_schema(properties).unwrap()
}

fn try_schema(properties: &Value) -> Result<Structural, SchemaError> {
    let mut all = json!({
        "apiVersion": { "type": "string" },
        "kind": { "type": "string" },
        "metadata": { "type": "object" },
    });
    for (name, property) in properties.as_object().unwrap() {
        all[name] = property.clone();
    }
    parse(&json!({ "type": "object", "properties": all }))
}

fn parse(schema: &Value) -> Result<Structural, SchemaError> {
    let props: JSONSchemaProps = serde_json::from_value(schema.clone()).unwrap();
    Structural::parse(&props)
}

/// Returns the schema of a part of a report.
fn report() -> Structural {
    schema(&json!({
        "results": { "type": "array", "items": {
            "type": "object",
            "required": ["policy"],
            "properties": {
                "policy": { "type": "string" },
                "result": { "type": "string", "enum": ["pass", "fail", "warn", "error", "skip"] },
                "properties": { "type": "object", "additionalProperties": { "type": "string" } },
                "timestamp": {
                    "type": "object",
                    "required": ["seconds", "nanos"],
                    "properties": {
                        "seconds": { "type": "integer", "format": "int64" },
                        "nanos": { "type": "integer", "format": "int32" },
                    },
                },
            },
        } },
        "scope": { "type": "object", "nullable": true, "properties": {
            "name": { "type": "string" },
        } },
        "summary": { "type": "object", "properties": { "pass": { "type": "integer" } } },
    }))
}
