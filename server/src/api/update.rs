//! `update`.

use apimachinery::error::ApiError;
use axum::response::Response;

use super::Api;
use super::options::{WriteKind, WriteOptions};
use super::scope::Scope;
use super::view::View;
use crate::http::negotiation::Offer;

/// Answers an update.
///
/// # Errors
/// The refusals of the kube-apiserver; see the modules that each step calls.
pub async fn update(api: &Api, scope: &Scope, bytes: &[u8]) -> Result<Response, ApiError> {
    let name = scope.object_name()?;
    let view = View::new(scope, scope.ctx.accept(Offer::Objects)?, false)?;
    let options = WriteOptions::parse(&scope.ctx.info.query, WriteKind::Update)?;
    let encoding = scope.body_encoding()?;
    let objects = scope.collection(api);
    let object = objects.read(bytes, encoding, options.field_validation)?;
    view.respond_outcome(objects.update(name, object, &options).await?)
}
