//! `create`.

use apimachinery::error::ApiError;
use axum::response::Response;

use super::Api;
use super::options::{WriteKind, WriteOptions};
use super::scope::Scope;
use super::view::View;
use crate::http::negotiation::Offer;

/// Answers a create.
///
/// # Errors
/// The refusals of the kube-apiserver; see the modules that each step calls.
pub async fn create(api: &Api, scope: &Scope, bytes: &[u8]) -> Result<Response, ApiError> {
    let view = View::new(scope, scope.ctx.accept(Offer::Objects)?, false)?;
    let encoding = scope.body_encoding()?;
    let options = WriteOptions::parse(&scope.ctx.info.query, WriteKind::Create)?;
    let objects = scope.collection(api);
    let object = objects.read(bytes, encoding, options.field_validation)?;
    view.respond_outcome(objects.create(object, &options).await?)
}
