//! The aggregated form: one `APIGroupDiscoveryList` for everything.

use serde_json::{Value, json};

use super::resource::{DiscoveredResource, DiscoveredSubresource, Group, Version};

/// Returns `/apis` as `apidiscovery.k8s.io/<api_version>`; `v2` and `v2beta1` differ in nothing
/// else.
pub(super) fn list(api_version: &str, groups: &[Group]) -> Value {
    let items: Vec<Value> = groups.iter().map(group).collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{api_version}"),
        "metadata": {},
        "items": items,
    })
}

fn group(group: &Group) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|item| version(&group.name, item))
        .collect();
    json!({ "metadata": { "name": group.name }, "versions": versions })
}

fn version(group: &str, version: &Version) -> Value {
    let resources: Vec<Value> = version
        .resources
        .iter()
        .map(|item| resource(group, &version.name, item))
        .collect();
    json!({ "version": version.name, "resources": resources, "freshness": "Current" })
}

fn resource(group: &str, version: &str, resource: &DiscoveredResource) -> Value {
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": kind(group, version, &resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.verbs,
    });
    if !resource.short_names.is_empty() {
        entry["shortNames"] = resource.short_names.clone().into();
    }
    if !resource.categories.is_empty() {
        entry["categories"] = resource.categories.clone().into();
    }
    if !resource.subresources.is_empty() {
        let below = |item: &DiscoveredSubresource| {
            json!({
                "subresource": item.name,
                "responseKind": kind(group, version, item.kind),
                "verbs": item.verbs,
            })
        };
        entry["subresources"] = resource.subresources.iter().map(below).collect();
    }
    entry
}

fn kind(group: &str, version: &str, kind: &str) -> Value {
    json!({ "group": group, "version": version, "kind": kind })
}
