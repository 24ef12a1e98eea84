//! `Database`: what the reports are stored in, and how far a move has got.

use axum::response::Response;
use crds::control::{API_VERSION, DATABASE_NAME, DATABASES, Database, DatabaseList, GROUP};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ListMeta, ObjectMeta};

use super::output;
use crate::api::Api;
use crate::http::{ApiError, RequestContext};
use crate::table::Printer;

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

fn printer() -> Result<Printer, ApiError> {
    Printer::new(&output::columns(COLUMNS)).map_err(ApiError::internal)
}

/// Answers a request for it.
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
                metadata: ListMeta {
                    resource_version: Some(api.store.counter().max(1).to_string()),
                    ..ListMeta::default()
                },
                items: vec![describe(api)],
            };
            output::with_columns(ctx, &printer()?, &list)
        }
        ("", "get") if info.name == DATABASE_NAME => {
            output::with_columns(ctx, &printer()?, &describe(api))
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
