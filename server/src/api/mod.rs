//! Requests for resources: one file a verb, which reads options, calls the registry or the cache,
//! and encodes what it gets.

mod compressed;
mod control;
mod copies;
mod create;
mod delete;
mod deletecollection;
mod escape;
mod failure;
mod gate;
mod get;
mod list;
pub mod options;
mod patch;
mod pieces;
mod read;
mod scope;
mod select;
mod service;
mod stream;
pub mod token;
mod update;
mod view;
mod warnings;
mod watch;

use std::sync::Arc;

use apimachinery::error::ApiError;
use async_trait::async_trait;
use axum::response::Response;
use bytes::Bytes;

use self::scope::Scope;
use crate::http::negotiation::accept_error;
use crate::http::response;
use crate::http::{ApiHandler, RequestContext};

pub use copies::Copies;
pub use pieces::Pieces;
pub use service::Api;

impl Api {
    async fn objects(&self, ctx: RequestContext, body: &[u8]) -> Result<Response, ApiError> {
        let scope = Arc::new(Scope::resolve(self, ctx)?);
        self.check_predecessor(&scope)?;
        // A watch is opened first and waits then.
        if scope.ctx.info.verb != "watch" {
            gate::admit(&self.attachments, &scope).await?;
        }
        scope
            .warnings
            .add(scope.version.deprecation_warning.clone());
        let answered = match scope.ctx.info.verb.as_str() {
            "get" => get::get(self, &scope).await,
            "list" => list::list(self, &scope).await,
            "watch" => watch::watch(self, &scope).await,
            "create" => create::create(self, &scope, body).await,
            "update" => update::update(self, &scope, body).await,
            "patch" => patch::patch(self, &scope, body).await,
            "delete" => delete::delete(self, &scope, body).await,
            "deletecollection" => deletecollection::deletecollection(self, &scope, body).await,
            verb => {
                let definition = &scope.definition;
                Err(ApiError::method_not_allowed(
                    &definition.group,
                    &definition.plural,
                    verb,
                ))
            }
        };
        let warned = scope.warnings.take();
        if warned.is_empty() {
            return answered;
        }
        // Who is refused is warned, too.
        let mut response = answered.unwrap_or_else(|error| {
            let form = accept_error(&scope.ctx.headers, &scope.ctx.info.query);
            response::error(error, form)
        });
        warnings::add(&mut response, warned);
        Ok(response)
    }
}

#[async_trait]
impl ApiHandler for Api {
    async fn dispatch(&self, ctx: RequestContext, body: Bytes) -> Result<Response, ApiError> {
        if control::is_addressed(&ctx) {
            return control::dispatch(self, &ctx, &body).await;
        }
        self.objects(ctx, &body).await
    }
}
