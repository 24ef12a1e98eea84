//! The `Cluster` that the operator makes.

use crds::v1alpha1::defaults::STORAGE_SIZE;
use crds::v1alpha1::spec::CloudNativePgCreate;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use super::resource;

/// Database of the reports.
pub const DATABASE: &str = "reports";
/// Role that owns it.
pub const OWNER: &str = "reports";

/// Instances of PostgreSQL where the specification says nothing: a primary and two standbys.
const INSTANCES: i32 = 3;

/// Returns the mode of durability while no standby answers. A commit is acknowledged when a standby
/// has it, too, so that a failover loses none. With two standbys one may be away and that still
/// holds; a single one must not hold up the reports.
fn durability(instances: i32) -> Option<&'static str> {
    match instances {
        ..2 => None,
        2 => Some("preferred"),
        3.. => Some("required"),
    }
}

/// Returns the object for server-side apply. Fields that are not here stay as their owners set
/// them.
#[must_use]
pub fn cluster(metadata: ObjectMeta, create: &CloudNativePgCreate) -> DynamicObject {
    // Taken apart without `..`: a new field cannot be forgotten here.
    let CloudNativePgCreate {
        instances,
        storage,
        image_catalog_ref,
        backup,
    } = create;
    let mut wanted = Map::new();
    let instances = instances.unwrap_or(INSTANCES);
    wanted.insert("instances".to_owned(), json!(instances));
    if let Some(durability) = durability(instances) {
        let synchronous = json!({"method": "any", "number": 1, "dataDurability": durability});
        let postgresql = json!({"synchronous": synchronous});
        wanted.insert("postgresql".to_owned(), postgresql);
    }
    wanted.insert(
        "bootstrap".to_owned(),
        json!({"initdb": {"database": DATABASE, "owner": OWNER, "encoding": "UTF8"}}),
    );
    let storage = storage.clone().unwrap_or_default();
    let size = storage.size.map(|size| size.0);
    let mut volume = json!({"size": size.unwrap_or_else(|| STORAGE_SIZE.to_owned())});
    if let Some(class) = storage.storage_class_name {
        volume["storageClass"] = json!(class);
    }
    wanted.insert("storage".to_owned(), volume);
    if let Some(catalog) = image_catalog_ref {
        let catalog = json!({"apiGroup": "postgresql.cnpg.io", "name": catalog.name,
            "kind": catalog.kind.unwrap_or_default(), "major": catalog.major});
        wanted.insert("imageCatalogRef".to_owned(), catalog);
    }
    if let Some(backup) = backup {
        wanted.insert("backup".to_owned(), Value::Object(backup.clone()));
    }
    DynamicObject {
        metadata,
        data: json!({ "spec": wanted }),
        ..DynamicObject::new("", &resource())
    }
}

/// Returns whether a `Cluster` has everything that is wanted of it, whatever else it has.
#[must_use]
pub fn is_as_wanted(found: &DynamicObject, wanted: &DynamicObject) -> bool {
    let owners = |object: &DynamicObject| object.metadata.owner_references.clone();
    let labels = |object: &DynamicObject| object.metadata.labels.clone();
    owners(found).unwrap_or_default() == owners(wanted).unwrap_or_default()
        && has(&json!(labels(found)), &json!(labels(wanted)))
        && has(&found.data, &wanted.data)
}

/// Returns whether every member of `wanted` is in `found`.
fn has(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => wanted.iter().all(|(name, wanted)| {
            let found = found.get(name);
            found.is_some_and(|found| has(found, wanted))
        }),
        (found, wanted) => wanted.is_null() || found == wanted,
    }
}
