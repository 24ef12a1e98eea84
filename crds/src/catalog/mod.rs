//! The report APIs that are known without looking at a cluster: names, versions, structural
//! schemas and printer columns.
//!
//! The server falls back to it where the cluster has no CRD of a group and the database no schema
//! yet; [`to_crd`] makes CRDs of it for a cluster that has none. The schemas say the same as the
//! vendors' CRDs, field by field (a test compares them); the words are ours.

mod ephemeral;
mod kyverno;
mod openreports;
mod report;
mod resource;
mod schema;
mod wgpolicy;

use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceDefinitionNames,
    CustomResourceDefinitionSpec, CustomResourceDefinitionVersion, CustomResourceSubresources,
    CustomResourceValidation,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
pub use resource::{CatalogResource, CatalogVersion, Column, Scope};

static RESOURCES: LazyLock<Vec<CatalogResource>> = LazyLock::new(|| {
    [
        wgpolicy::resources(),
        ephemeral::resources(),
        openreports::resources(),
        kyverno::resources(),
    ]
    .concat()
});

/// Returns all report APIs of the catalog, groups together.
#[must_use]
pub fn resources() -> &'static [CatalogResource] {
    &RESOURCES
}

/// Returns the report APIs of one group; empty where the catalog does not know it.
pub fn group(group: &str) -> impl Iterator<Item = &'static CatalogResource> {
    resources()
        .iter()
        .filter(move |resource| resource.group == group)
}

/// Returns the groups of the catalog, each once, in the catalog's order.
#[must_use]
pub fn groups() -> Vec<&'static str> {
    let mut groups: Vec<_> = resources().iter().map(|resource| resource.group).collect();
    groups.dedup();
    groups
}

/// Returns the CRD that serves a report API the way the catalog describes it.
///
/// # Errors
/// If a schema cannot be expressed as `JSONSchemaProps`; a test shows that every one can.
pub fn to_crd(resource: &CatalogResource) -> Result<CustomResourceDefinition, serde_json::Error> {
    let owned = |names: &[&str]| {
        (!names.is_empty()).then(|| names.iter().map(|&name| name.to_owned()).collect())
    };
    Ok(CustomResourceDefinition {
        metadata: ObjectMeta {
            name: Some(format!("{}.{}", resource.plural, resource.group)),
            ..ObjectMeta::default()
        },
        spec: CustomResourceDefinitionSpec {
            group: resource.group.to_owned(),
            names: CustomResourceDefinitionNames {
                categories: owned(resource.categories),
                kind: resource.kind.to_owned(),
                list_kind: Some(resource.list_kind.clone()),
                plural: resource.plural.to_owned(),
                short_names: owned(resource.short_names),
                singular: Some(resource.singular.to_owned()),
            },
            scope: resource.scope.as_str().to_owned(),
            versions: resource
                .versions
                .iter()
                .map(to_crd_version)
                .collect::<Result<_, _>>()?,
            ..CustomResourceDefinitionSpec::default()
        },
        status: None,
    })
}

fn to_crd_version(
    version: &CatalogVersion,
) -> Result<CustomResourceDefinitionVersion, serde_json::Error> {
    let columns = version
        .columns
        .iter()
        .map(|column| CustomResourceColumnDefinition {
            name: column.name.to_owned(),
            type_: column.type_.to_owned(),
            json_path: column.json_path.to_owned(),
            priority: (column.priority != 0).then_some(column.priority),
            ..CustomResourceColumnDefinition::default()
        });
    Ok(CustomResourceDefinitionVersion {
        name: version.name.to_owned(),
        served: version.served,
        storage: version.storage,
        schema: Some(CustomResourceValidation {
            open_api_v3_schema: Some(serde_json::from_value(version.schema.clone())?),
        }),
        additional_printer_columns: Some(columns.collect()),
        subresources: Some(CustomResourceSubresources::default()),
        ..CustomResourceDefinitionVersion::default()
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;
    use crate::names::API_GROUP;

    #[test]
    fn names_are_unique_and_consistent() {
        let mut seen = BTreeSet::new();
        for resource in resources() {
            for name in [resource.plural, resource.singular]
                .iter()
                .chain(resource.short_names)
            {
                assert!(
                    seen.insert((resource.group, *name)),
                    "{name} twice in {}",
                    resource.group
                );
            }
            assert_eq!(resource.singular, resource.kind.to_lowercase());
            assert_eq!(resource.list_kind, format!("{}List", resource.kind));
        }
        assert_eq!(
            groups().len(),
            groups().iter().collect::<BTreeSet<_>>().len()
        );
    }

    #[test]
    fn every_resource_has_one_storage_version_and_becomes_a_crd() {
        for resource in resources() {
            assert_eq!(
                resource
                    .versions
                    .iter()
                    .filter(|version| version.storage)
                    .count(),
                1
            );
            let crd = to_crd(resource).unwrap();
            let schema = crd.spec.versions[0]
                .schema
                .clone()
                .unwrap()
                .open_api_v3_schema
                .unwrap();
            let back = serde_json::to_value(schema).unwrap();
            assert_eq!(
                back, resource.versions[0].schema,
                "{} loses something",
                resource.kind
            );
        }
    }

    #[test]
    fn every_field_is_described() {
        fn walk(schema: &Value, path: &str) {
            let text = schema["description"].as_str().unwrap_or_default();
            assert!(text.ends_with('.'), "{path}: description {text:?}");
            let fields = schema["properties"].as_object().into_iter().flatten();
            for (name, child) in fields.filter(|(name, _)| *name != "metadata") {
                walk(child, &format!("{path}.{name}"));
            }
            for (name, child) in schema["items"]["properties"]
                .as_object()
                .into_iter()
                .flatten()
            {
                walk(child, &format!("{path}[].{name}"));
            }
        }
        for resource in resources() {
            walk(&resource.versions[0].schema, resource.kind);
        }
    }

    #[test]
    fn our_own_group_is_never_one_that_the_server_serves() {
        assert!(!groups().contains(&API_GROUP));
        assert!(!groups().contains(&crate::control::GROUP));
        for reserved in ["kyverno.io", "k8s.io", "kubernetes.io"] {
            assert!(API_GROUP != reserved && !API_GROUP.ends_with(&format!(".{reserved}")));
        }
    }
}
