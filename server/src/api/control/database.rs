//! `Database`: the database of the reports, and the progress of a move.

use apimachinery::error::ApiError;
use axum::response::Response;
use crds::control::{API_VERSION, DATABASE_NAME, DATABASES, Database, DatabaseList, GROUP};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::output;
use crate::api::Api;
use crate::http::RequestContext;

/// Heading, type, path and priority of the columns after `Name`.
const COLUMNS: &[(&str, &str, &str, i32)] = &[
    ("Engine", "string", ".status.engine", 0),
    ("Sequence", "integer", ".status.sequence", 0),
    ("ResourceVersion", "string", ".status.resourceVersion", 0),
    ("Move", "string", ".status.move.phase", 0),
    ("Copied", "integer", ".status.move.objectsCopied", 0),
    ("Of", "integer", ".status.move.objectsTotal", 0),
    ("Message", "string", ".status.move.message", 1),
];

/// Answers a request for a database.
///
/// # Errors
/// 404 for another name, 405 for verbs that change something, 406.
pub fn dispatch(api: &Api, ctx: &RequestContext) -> Result<Response, ApiError> {
    let info = &ctx.info;
    match (info.subresource.as_str(), info.verb.as_str()) {
        ("", "list") => {
            let list = DatabaseList {
                api_version: API_VERSION.to_owned(),
                kind: "DatabaseList".to_owned(),
                metadata: output::list_meta(api),
                items: vec![describe(api)],
            };
            output::with_columns(ctx, &output::printer(COLUMNS)?, &list)
        }
        ("", "get") if info.name == DATABASE_NAME => {
            output::with_columns(ctx, &output::printer(COLUMNS)?, &describe(api))
        }
        ("", "get") => Err(ApiError::not_found(GROUP, DATABASES, &info.name)),
        ("", verb) => Err(ApiError::method_not_allowed(GROUP, DATABASES, verb)),
        _ => Err(ApiError::not_found(GROUP, DATABASES, &info.name)),
    }
}

fn describe(api: &Api) -> Database {
    Database {
        api_version: API_VERSION.to_owned(),
        kind: "Database".to_owned(),
        metadata: ObjectMeta {
            name: Some(DATABASE_NAME.to_owned()),
            ..ObjectMeta::default()
        },
        status: api.store.database(),
    }
}
