//! The schemas of `meta/v1`, taken from `k8s-openapi`, which has them from Kubernetes itself.

use std::sync::LazyLock;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    DeleteOptions, ListMeta, ObjectMeta, Patch, Status,
};
use k8s_openapi::schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// Prefix of the names of the schemas of `meta/v1`.
pub const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// Returns all schemas of `meta/v1` that report APIs refer to, by name.
#[must_use]
pub fn schemas() -> Map<String, Value> {
    let mut generator = SchemaSettings::openapi3().into_generator();
    generator.subschema_for::<ObjectMeta>();
    generator.subschema_for::<ListMeta>();
    generator.subschema_for::<DeleteOptions>();
    generator.subschema_for::<Status>();
    generator.subschema_for::<Patch>();
    let mut schemas: Map<String, Value> = generator.take_definitions(true).into_iter().collect();
    // `k8s-openapi` has its `Status` always carry metadata; Kubernetes does not require it.
    if let Some(Value::Object(status)) = schemas.get_mut(&format!("{META}.Status")) {
        status.remove("required");
    }
    for extension in extensions() {
        extension.add(&mut schemas);
    }
    schemas
}

/// Returns Kubernetes' description of a field of ObjectMeta; empty for fields it does not have.
#[must_use]
pub fn object_meta_description(field: &str) -> &'static str {
    static OBJECT_META: LazyLock<Value> = LazyLock::new(|| {
        schemas()
            .remove(&format!("{META}.ObjectMeta"))
            .unwrap_or_default()
    });
    OBJECT_META["properties"][field]["description"]
        .as_str()
        .unwrap_or_default()
}

/// A part of Kubernetes' schemas beyond OpenAPI, which `k8s-openapi` does not keep.
struct Extension {
    schema: &'static str,
    /// Name of the property, empty for the schema itself.
    property: &'static str,
    fields: Value,
}

fn extensions() -> Vec<Extension> {
    let on = |schema, property, fields| Extension {
        schema,
        property,
        fields,
    };
    let kind = |kind| json!({ "x-kubernetes-group-version-kind": [{ "group": "", "version": "v1", "kind": kind }] });
    let atomic = || json!({ "x-kubernetes-list-type": "atomic" });
    vec![
        on("DeleteOptions", "", kind("DeleteOptions")),
        on("DeleteOptions", "dryRun", atomic()),
        on("Status", "", kind("Status")),
        on("StatusDetails", "causes", atomic()),
        on("ObjectMeta", "managedFields", atomic()),
        on(
            "ObjectMeta",
            "finalizers",
            json!({ "x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge" }),
        ),
        on(
            "ObjectMeta",
            "ownerReferences",
            json!({
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["uid"],
                "x-kubernetes-patch-strategy": "merge",
                "x-kubernetes-patch-merge-key": "uid",
            }),
        ),
        on(
            "OwnerReference",
            "",
            json!({ "x-kubernetes-map-type": "atomic" }),
        ),
    ]
}

impl Extension {
    fn add(self, schemas: &mut Map<String, Value>) {
        let schema = schemas.get_mut(&format!("{META}.{}", self.schema));
        let target = match self.property {
            "" => schema,
            property => schema.and_then(|schema| schema.get_mut("properties")?.get_mut(property)),
        };
        if let (Some(Value::Object(target)), Value::Object(mut fields)) = (target, self.fields) {
            target.append(&mut fields);
        }
    }
}
