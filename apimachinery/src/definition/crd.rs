//! Reading a CustomResourceDefinition.

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceDefinitionSpec,
    CustomResourceDefinitionVersion,
};

use super::{ResourceDefinition, SIDE_DOOR_VERSION, VersionDefinition, compare_versions};
use crate::meta_v1::object_meta_description;
use crate::schema::Structural;
use crate::table::{Column, Printer};

/// The reason why a CustomResourceDefinition cannot be served here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct DefinitionError {
    /// Path of the field in the CustomResourceDefinition.
    pub field: String,
    /// The fault of the field, as a sentence without a full stop.
    pub reason: String,
}

fn error(field: impl Into<String>, reason: impl Into<String>) -> DefinitionError {
    DefinitionError {
        field: field.into(),
        reason: reason.into(),
    }
}

impl ResourceDefinition {
    /// Returns the definition of a CustomResourceDefinition.
    ///
    /// The names are those of `spec`; `status` is not looked at. A side door
    /// ([`SIDE_DOOR_VERSION`]) is passed over.
    ///
    /// # Errors
    /// The first field that asks for something which this server does not do: conversion by
    /// webhook, `status` and `scale` subresources, selectable fields, rules in CEL, formats and
    /// schema constructs that it cannot check.
    pub fn from_crd(crd: &CustomResourceDefinition) -> Result<Self, DefinitionError> {
        let spec = &crd.spec;
        refuse_unsupported(spec)?;
        let mut versions = spec
            .versions
            .iter()
            .enumerate()
            .filter(|(_, version)| version.name != SIDE_DOOR_VERSION)
            .map(|(index, version)| version_definition(spec, index, version))
            .collect::<Result<Vec<_>, _>>()?;
        versions.sort_by(|a, b| compare_versions(&a.name, &b.name));
        if !versions.iter().any(|version| version.served) {
            return Err(error("spec.versions", "must serve at least one version"));
        }
        let names = &spec.names;
        let kind = names.kind.clone();
        Ok(Self {
            group: spec.group.clone(),
            plural: names.plural.clone(),
            singular: names
                .singular
                .clone()
                .unwrap_or_else(|| kind.to_lowercase()),
            list_kind: names
                .list_kind
                .clone()
                .unwrap_or_else(|| format!("{kind}List")),
            kind,
            short_names: names.short_names.clone().unwrap_or_default(),
            categories: names.categories.clone().unwrap_or_default(),
            namespaced: spec.scope == "Namespaced",
            versions,
            field_managers: OnceLock::new(),
        })
    }
}

fn refuse_unsupported(spec: &CustomResourceDefinitionSpec) -> Result<(), DefinitionError> {
    if let Some(conversion) = &spec.conversion
        && conversion.strategy != "None"
    {
        let reason = format!(
            "conversion by {:?} is not supported: only the strategy None is",
            conversion.strategy
        );
        return Err(error("spec.conversion.strategy", reason));
    }
    if spec.preserve_unknown_fields == Some(true) {
        let reason = "must be false: objects are pruned by their schema";
        return Err(error("spec.preserveUnknownFields", reason));
    }
    match spec.scope.as_str() {
        "Namespaced" | "Cluster" => Ok(()),
        other => Err(error("spec.scope", format!("unknown scope {other:?}"))),
    }
}

fn version_definition(
    spec: &CustomResourceDefinitionSpec,
    index: usize,
    version: &CustomResourceDefinitionVersion,
) -> Result<VersionDefinition, DefinitionError> {
    let path = format!("spec.versions[{index}]");
    if let Some(subresources) = &version.subresources
        && (subresources.status.is_some() || subresources.scale.is_some())
    {
        let reason = "the subresources status and scale are not supported";
        return Err(error(format!("{path}.subresources"), reason));
    }
    if version
        .selectable_fields
        .as_ref()
        .is_some_and(|fields| !fields.is_empty())
    {
        let reason = "selectable fields are not supported";
        return Err(error(format!("{path}.selectableFields"), reason));
    }
    let schema_path = format!("{path}.schema.openAPIV3Schema");
    let Some(props) = version
        .schema
        .as_ref()
        .and_then(|s| s.open_api_v3_schema.as_ref())
    else {
        return Err(error(schema_path, "Required value: schemas are required"));
    };
    let schema = Structural::parse(props).map_err(|err| match err.field.as_str() {
        "" => error(schema_path.as_str(), err.reason),
        field => error(format!("{schema_path}.{field}"), err.reason),
    })?;
    let open_api =
        serde_json::to_value(props).map_err(|err| error(schema_path.as_str(), err.to_string()))?;
    let types = fieldmanager::Schema::from_openapi(&open_api).map_err(|err| {
        let field = format!("{schema_path}.{}", err.path);
        error(field.trim_end_matches('.'), err.reason)
    })?;
    let columns = columns(version);
    let printer = Printer::new(&columns)
        .map_err(|err| error(format!("{path}.additionalPrinterColumns"), err.to_string()))?;
    Ok(VersionDefinition {
        name: version.name.clone(),
        served: version.served,
        storage: version.storage,
        deprecation_warning: deprecation_warning(spec, version),
        schema: Arc::new(schema),
        types,
        open_api: Arc::new(open_api),
        printer: Arc::new(printer),
        columns,
    })
}

/// Returns the CRD's own words, or the kube-apiserver's, which recommend the best newer version.
fn deprecation_warning(
    spec: &CustomResourceDefinitionSpec,
    version: &CustomResourceDefinitionVersion,
) -> Option<String> {
    if version.deprecated != Some(true) {
        return None;
    }
    if let Some(warning) = &version.deprecation_warning {
        return Some(warning.clone());
    }
    let (group, kind) = (&spec.group, &spec.names.kind);
    let better = spec
        .versions
        .iter()
        .filter(|other| other.served && other.deprecated != Some(true))
        .filter(|other| other.name != SIDE_DOOR_VERSION)
        .filter(|other| compare_versions(&other.name, &version.name).is_lt())
        .min_by(|a, b| compare_versions(&a.name, &b.name));
    let mut warning = format!("{group}/{} {kind} is deprecated", version.name);
    if let Some(better) = better {
        let _ = write!(warning, "; use {group}/{} {kind}", better.name);
    }
    Some(warning)
}

fn columns(version: &CustomResourceDefinitionVersion) -> Vec<Column> {
    match version.additional_printer_columns.as_deref() {
        None | Some([]) => vec![age()],
        Some(given) => given.iter().map(column_definition).collect(),
    }
}

fn column_definition(column: &CustomResourceColumnDefinition) -> Column {
    Column {
        name: column.name.clone(),
        type_: column.type_.clone(),
        format: column.format.clone().unwrap_or_default(),
        description: column.description.clone().unwrap_or_default(),
        priority: column.priority.unwrap_or(0),
        json_path: column.json_path.clone(),
    }
}

/// Returns the column that the kube-apiserver shows where a CRD names none.
fn age() -> Column {
    Column {
        name: "Age".to_owned(),
        type_: "date".to_owned(),
        format: String::new(),
        description: object_meta_description("creationTimestamp").to_owned(),
        priority: 0,
        json_path: ".metadata.creationTimestamp".to_owned(),
    }
}
