//! `patch`: JSON patch, JSON merge patch, and apply.

use apimachinery::error::ApiError;
use axum::response::Response;

use super::Api;
use super::options::{WriteKind, WriteOptions};
use super::scope::Scope;
use super::view::View;
use crate::http::negotiation::{BodyType, Offer, body_type};
use crate::registry::PatchType;

/// The kinds of patches that are applied. The garbage collector tries a strategic merge patch first
/// and falls back to a merge patch on 415, so the type is judged before anything else.
const ALLOWED: [BodyType; 3] = [
    BodyType::JsonPatch,
    BodyType::MergePatch,
    BodyType::ApplyYaml,
];

/// Answers a patch.
///
/// # Errors
/// 415 for other kinds of patches, and the refusals of the kube-apiserver.
pub async fn patch(api: &Api, scope: &Scope, bytes: &[u8]) -> Result<Response, ApiError> {
    let type_ = body_type(&scope.ctx.headers, &ALLOWED)?;
    let kind = match type_ {
        BodyType::ApplyYaml => WriteKind::Apply,
        _ => WriteKind::Patch,
    };
    let name = scope.object_name()?;
    let view = View::new(scope, scope.ctx.accept(Offer::Objects)?, false)?;
    let options = WriteOptions::parse(&scope.ctx.info.query, kind)?;
    let objects = scope.collection(api);
    let outcome = match type_ {
        BodyType::ApplyYaml => {
            let may_create = || scope.ctx.require("create");
            objects.apply(name, bytes, &options, may_create).await?
        }
        BodyType::JsonPatch => {
            let patch = PatchType::Json;
            objects.patch(name, patch, bytes, &options).await?
        }
        _ => {
            let patch = PatchType::Merge;
            objects.patch(name, patch, bytes, &options).await?
        }
    };
    view.respond_outcome(outcome)
}
