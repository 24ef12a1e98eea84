//! `delete`.

use apimachinery::error::ApiError;
use apimachinery::status::Status;
use axum::response::Response;
use http::StatusCode;

use super::Api;
use super::options::DeleteOptions;
use super::scope::Scope;
use super::view::View;
use crate::http::negotiation::Offer;
use crate::http::response;
use crate::registry::Deleted;

/// Answers a delete.
///
/// # Errors
/// 404, 409 for preconditions, and the refusals of the options and the store.
pub async fn delete(api: &Api, scope: &Scope, bytes: &[u8]) -> Result<Response, ApiError> {
    let name = scope.object_name()?;
    let accepted = scope.ctx.accept(Offer::Objects)?;
    let view = View::new(scope, accepted, false)?;
    let options = DeleteOptions::read(&scope.ctx, bytes)?;
    match scope.collection(api).delete(name, &options).await? {
        Deleted::Gone(uid) => {
            let definition = &scope.definition;
            let status = Status::deleted(&definition.group, &definition.plural, name, &uid);
            response::object(StatusCode::OK, accepted, &status)
        }
        Deleted::Waiting(object) if options.accepted_when_waiting => {
            view.respond_form(StatusCode::ACCEPTED, object)
        }
        Deleted::Waiting(object) => view.respond_form(StatusCode::OK, object),
    }
}
