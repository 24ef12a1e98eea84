//! Answers of the control API.

use apimachinery::error::ApiError;
use apimachinery::table::Column;
use apimachinery::table::{
    IncludeObject, Printer, RowOptions, partial_metadata, partial_metadata_list,
};
use axum::response::Response;
use http::StatusCode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use serde::Serialize;
use serde_json::Value;

use crate::api::Api;
use crate::http::negotiation::{MetaVersion, Offer, Transform};
use crate::http::{RequestContext, response};

/// Returns a printer with these columns: heading, type, path and priority of each.
///
/// # Errors
/// If a path is none.
pub fn printer(columns: &[(&str, &str, &str, i32)]) -> Result<Printer, ApiError> {
    let columns: Vec<Column> = columns
        .iter()
        .map(|(name, type_, path, priority)| Column {
            name: (*name).to_owned(),
            type_: (*type_).to_owned(),
            format: String::new(),
            description: String::new(),
            priority: *priority,
            json_path: (*path).to_owned(),
        })
        .collect();
    Printer::new(&columns).map_err(ApiError::internal)
}

/// Returns the metadata of a list of the control API, with the version of its data.
pub fn list_meta(api: &Api) -> ListMeta {
    ListMeta {
        resource_version: Some(api.store.counter().max(1).to_string()),
        ..ListMeta::default()
    }
}

/// Returns an answer with an object that has no other form.
///
/// # Errors
/// 406, or when it cannot be encoded.
pub fn plain(
    ctx: &RequestContext,
    code: StatusCode,
    object: &impl Serialize,
) -> Result<Response, ApiError> {
    response::object(code, ctx.accept(Offer::Plain)?, object)
}

/// Returns an answer with an object or a list of them, as Table or metadata where that is asked
/// for.
///
/// # Errors
/// 406, 400 for an unknown `includeObject`, or when it cannot be encoded.
pub fn with_columns(
    ctx: &RequestContext,
    printer: &Printer,
    object: &impl Serialize,
) -> Result<Response, ApiError> {
    let accepted = ctx.accept(Offer::Objects)?;
    let mut value = serde_json::to_value(object).map_err(ApiError::internal)?;
    let items = match value.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => Some(items),
        _ => None,
    };
    let metadata = value["metadata"].clone();
    let value = match (accepted.transform, items) {
        (Transform::None, None) => value,
        (Transform::None, Some(items)) => {
            value["items"] = Value::Array(items);
            value
        }
        (Transform::Table(version), items) => {
            let include = ctx.info.query.get("includeObject").unwrap_or_default();
            let include = IncludeObject::parse(include).map_err(ApiError::bad_request)?;
            let version = meta_version(version);
            let options = RowOptions {
                include,
                version,
                now: jiff::Timestamp::now(),
            };
            let list = items.is_some();
            let rows = items.unwrap_or_else(|| vec![value]);
            let rows = rows
                .into_iter()
                .map(|item| printer.row(item, &options))
                .collect();
            let metadata = if list {
                metadata
            } else {
                Value::Object(serde_json::Map::new())
            };
            printer.table(metadata, rows, true, version)
        }
        (Transform::PartialObjectMetadataList(version), Some(items)) => {
            partial_metadata_list(metadata, items, meta_version(version))
        }
        (Transform::PartialObjectMetadata(version), None) => {
            partial_metadata(value, meta_version(version))
        }
        _ => {
            return Err(ApiError::not_acceptable_because(
                "the answer has no such form",
            ));
        }
    };
    response::object(StatusCode::OK, accepted, &value)
}

fn meta_version(version: MetaVersion) -> apimachinery::table::MetaVersion {
    match version {
        MetaVersion::V1 => apimachinery::table::MetaVersion::V1,
        MetaVersion::V1Beta1 => apimachinery::table::MetaVersion::V1Beta1,
    }
}
