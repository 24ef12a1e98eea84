//! The schema of `metadata`, as the kube-apiserver publishes it.

use serde_json::{Value, json};

/// Returns the schema of `ObjectMeta`.
pub(super) fn object_meta() -> Value {
    let string = json!({"type": "string"});
    let integer = json!({"type": "integer", "format": "int64"});
    let time = json!({"type": "string", "format": "date-time"});
    let strings = json!({"type": "object", "additionalProperties": string});
    json!({
        "type": "object",
        "properties": {
            "annotations": strings,
            "creationTimestamp": time,
            "deletionGracePeriodSeconds": integer,
            "deletionTimestamp": time,
            "finalizers": {"type": "array", "items": string, "x-kubernetes-list-type": "set"},
            "generateName": string,
            "generation": integer,
            "labels": strings,
            "managedFields": {
                "type": "array",
                "items": managed_fields_entry(),
                "x-kubernetes-list-type": "atomic",
            },
            "name": string,
            "namespace": string,
            "ownerReferences": {
                "type": "array",
                "items": owner_reference(),
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["uid"],
            },
            "resourceVersion": string,
            "selfLink": string,
            "uid": string,
        },
    })
}

fn owner_reference() -> Value {
    let required = json!({"type": "string", "default": ""});
    let flag = json!({"type": "boolean"});
    json!({
        "type": "object",
        "properties": {
            "apiVersion": required,
            "blockOwnerDeletion": flag,
            "controller": flag,
            "kind": required,
            "name": required,
            "uid": required,
        },
        "x-kubernetes-map-type": "atomic",
    })
}

fn managed_fields_entry() -> Value {
    let string = json!({"type": "string"});
    json!({
        "type": "object",
        "properties": {
            "apiVersion": string,
            "fieldsType": string,
            "fieldsV1": {"type": "object"},
            "manager": string,
            "operation": string,
            "subresource": string,
            "time": {"type": "string", "format": "date-time"},
        },
    })
}
