//! `digest`: the stored objects, in pages, to compare with etcd.

use apimachinery::error::ApiError;
use axum::response::Response;
use crds::control::DigestSet;
use http::StatusCode;
use storage::store::DigestError;

use super::output;
use super::target::{named, refused};
use crate::api::options::int64;
use crate::api::{Api, failure};
use crate::http::RequestContext;

/// Answers with one page of a digest.
///
/// # Errors
/// 400 for parameters that cannot be read, 410 when so much has changed since the first page that
/// its state is gone: the client begins again.
pub async fn get(api: &Api, ctx: &RequestContext) -> Result<Response, ApiError> {
    let resource = named(api, ctx)?;
    let query = &ctx.info.query;
    let set = match query.get("set") {
        None | Some("" | "Objects") => DigestSet::Objects,
        Some("Imported") => DigestSet::Imported,
        Some(other) => {
            return Err(ApiError::bad_request(format!(
                "set must be Objects or Imported, not {other:?}"
            )));
        }
    };
    let limit = usize::try_from(int64(query, "limit")?.unwrap_or(0)).unwrap_or(0);
    let token = query.get("continue").filter(|token| !token.is_empty());
    let digest = api
        .store
        .digest(&resource.def().resource, set, limit, token)
        .await
        .map_err(|error| match error {
            DigestError::Token => ApiError::bad_request(error.to_string()),
            DigestError::Snapshot(error) => failure::snapshot(error, 0),
            DigestError::Body(error) => ApiError::internal(error),
            DigestError::Store(error) => refused(ctx, "Digest", error),
        })?;
    output::plain(ctx, StatusCode::OK, &digest)
}
