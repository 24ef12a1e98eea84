//! `StoredResource`: the stored objects of a resource, and how they are served.

use apimachinery::error::ApiError;
use axum::response::Response;
use crds::control::{
    API_VERSION, StoredResource, StoredResourceList, StoredResourceStatus, stored_resource_name,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use storage::cache::Resource;

use super::output;
use super::target::named;
use crate::api::Api;
use crate::cluster::Served;
use crate::http::RequestContext;

/// Heading, type, path and priority of the columns after `Name`.
const COLUMNS: &[(&str, &str, &str, i32)] = &[
    ("Objects", "integer", ".status.objects", 0),
    ("Bytes", "integer", ".status.bytes", 0),
    ("ResourceVersion", "string", ".status.resourceVersion", 0),
    ("Gate", "string", ".status.gate", 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
    ("Horizon", "string", ".status.horizon", 1),
    ("Mirrored", "string", ".status.mirroredResourceVersion", 1),
    ("Imported", "integer", ".status.imported", 1),
    ("Held", "integer", ".status.heldMilliseconds", 1),
    ("LastHold", "integer", ".status.lastHoldMilliseconds", 1),
    ("Schema", "string", ".status.schemaSource", 1),
];

/// Returns all stored resources, by name.
///
/// # Errors
/// 406.
pub fn list(api: &Api, ctx: &RequestContext) -> Result<Response, ApiError> {
    let served = api.definitions.load();
    let mut items: Vec<_> = api
        .store
        .resources()
        .iter()
        .map(|r| describe(r, &served))
        .collect();
    items.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    let list = StoredResourceList {
        api_version: API_VERSION.to_owned(),
        kind: "StoredResourceList".to_owned(),
        metadata: output::list_meta(api),
        items,
    };
    output::with_columns(ctx, &output::printer(COLUMNS)?, &list)
}

/// Returns one stored resource.
///
/// # Errors
/// 404, 406.
pub fn get(api: &Api, ctx: &RequestContext) -> Result<Response, ApiError> {
    let resource = named(api, ctx)?;
    output::with_columns(
        ctx,
        &output::printer(COLUMNS)?,
        &describe(&resource, &api.definitions.load()),
    )
}

/// Returns the milliseconds since a moment.
fn age(since: Timestamp) -> u64 {
    let age = Timestamp::now().duration_since(since).as_millis();
    u64::try_from(age).unwrap_or(0)
}

fn describe(resource: &Resource, served: &Served) -> StoredResource {
    let stats = resource.stats();
    let (record, def) = (&stats.record, resource.def());
    let effective = served.resource(&def.resource.group, &def.resource.resource);
    let versions = effective.map(|e| {
        e.definition
            .served_versions()
            .map(|version| version.name.clone())
            .collect()
    });
    StoredResource {
        api_version: API_VERSION.to_owned(),
        kind: "StoredResource".to_owned(),
        metadata: ObjectMeta {
            name: Some(stored_resource_name(
                &def.resource.resource,
                &def.resource.group,
            )),
            uid: Some(record.uid.to_string()),
            creation_timestamp: Some(Time(record.created)),
            ..ObjectMeta::default()
        },
        status: StoredResourceStatus {
            group: def.resource.group.to_string(),
            resource: def.resource.resource.to_string(),
            kind: def.kind.to_string(),
            namespaced: def.namespaced,
            versions: versions.unwrap_or_default(),
            schema_source: effective.map(|e| e.source).unwrap_or_default(),
            objects: stats.objects,
            bytes: stats.bytes,
            resource_version: stats.rv.to_string(),
            horizon: stats.horizon.to_string(),
            mirrored_resource_version: match record.mirrored {
                0 => String::new(),
                rv => rv.to_string(),
            },
            imported: record.imported,
            gate: record.gate.state,
            opened: record.opened.is_some(),
            settled: record.gate.settled,
            released: record.gate.released,
            held_milliseconds: record.gate.held_since.map(age),
            last_hold_milliseconds: record.gate.last_hold,
        },
    }
}
