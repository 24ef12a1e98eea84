//! The resource that a request is about.

use std::sync::Arc;

use apimachinery::error::ApiError;
use apimachinery::status::StatusCause;
use crds::control::{GROUP, PLURAL};
use storage::cache::Resource;
use storage::model::GroupResource;
use storage::store::StoreError;

use crate::api::Api;
use crate::http::RequestContext;
use crate::registry::store_error;

/// Returns the answer about a resource that is not there.
pub(super) fn not_found(name: &str) -> ApiError {
    ApiError::not_found(GROUP, PLURAL, name)
}

/// Returns the resource that the path names, as `<plural>.<group>`.
pub(super) fn named(api: &Api, ctx: &RequestContext) -> Result<Arc<Resource>, ApiError> {
    let name = ctx.info.name.as_str();
    let (plural, group) = name.split_once('.').ok_or_else(|| not_found(name))?;
    api.store
        .resource(&GroupResource::new(group, plural))
        .ok_or_else(|| not_found(name))
}

/// Returns an error of the store about the resource that the path names; `kind` is that of the
/// body.
pub(super) fn refused(ctx: &RequestContext, kind: &str, error: StoreError) -> ApiError {
    let name = ctx.info.name.as_str();
    match error {
        StoreError::Refused(why) => ApiError::conflict(GROUP, PLURAL, name, &why),
        StoreError::Invalid { field, reason } => {
            let cause = StatusCause::new("FieldValueInvalid", field, reason);
            ApiError::invalid(GROUP, kind, name, vec![cause])
        }
        other => store_error(&other),
    }
}
