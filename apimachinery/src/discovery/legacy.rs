//! The unaggregated forms: `APIGroupList`, `APIGroup` and `APIResourceList`.

use serde_json::{Value, json};

use super::resource::{DiscoveredResource, Group, Version};

/// Returns `/apis`.
pub(super) fn group_list(groups: &[Group]) -> Value {
    let groups: Vec<Value> = groups.iter().map(group_fields).collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
}

/// Returns `/apis/<group>`.
pub(super) fn group(group: &Group) -> Value {
    let mut fields = group_fields(group);
    fields["kind"] = "APIGroup".into();
    fields["apiVersion"] = "v1".into();
    fields
}

fn group_fields(group: &Group) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|version| {
            json!({
                "groupVersion": format!("{}/{}", group.name, version.name),
                "version": version.name,
            })
        })
        .collect();
    json!({
        "name": group.name,
        "preferredVersion": versions.first(),
        "versions": versions,
    })
}

/// Returns `/apis/<group>/<version>`.
pub(super) fn resource_list(group: &Group, version: &Version) -> Value {
    let resources: Vec<Value> = version.resources.iter().flat_map(resources).collect();
    json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": format!("{}/{}", group.name, version.name),
        "resources": resources,
    })
}

/// Returns the resource and after it its subresources.
fn resources(resource: &DiscoveredResource) -> Vec<Value> {
    let mut entry = json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": resource.verbs,
    });
    if !resource.short_names.is_empty() {
        entry["shortNames"] = resource.short_names.clone().into();
    }
    if !resource.categories.is_empty() {
        entry["categories"] = resource.categories.clone().into();
    }
    if let Some(hash) = &resource.storage_version_hash {
        entry["storageVersionHash"] = hash.as_str().into();
    }
    let mut entries = vec![entry];
    entries.extend(resource.subresources.iter().map(|subresource| {
        json!({
            "name": format!("{}/{}", resource.plural, subresource.name),
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": subresource.kind,
            "verbs": subresource.verbs,
        })
    }));
    entries
}
