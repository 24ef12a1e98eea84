//! What a request for a resource does: one file a verb, over `registry`, `cache` and `store`.

mod apply;
mod body;
mod control;
mod create;
mod delete;
mod deletecollection;
mod escape;
mod failure;
mod gate;
mod get;
mod list;
mod namespace;
pub mod options;
mod owners;
mod patch;
mod read;
mod scope;
mod select;
mod stream;
pub mod token;
mod update;
mod view;
mod warnings;
mod watch;
mod write;

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use axum::response::Response;
use bytes::Bytes;
use tokio::sync::watch::Receiver;

use self::scope::Scope;
use crate::cluster::{Attachments, EffectiveDefinitions, NamespaceLookup};
use crate::definition::ResourceDefinition;
use crate::http::negotiation::accept_error;
use crate::http::{ApiError, ApiHandler, RequestContext};
use crate::store::Store;

/// Answers requests for resources.
#[derive(Clone)]
pub struct Api {
    store: Store,
    definitions: Arc<EffectiveDefinitions>,
    namespaces: Arc<dyn NamespaceLookup>,
    attachments: Arc<Attachments>,
    refused_writers: Receiver<BTreeSet<String>>,
}

impl Api {
    /// An API over a store, serving what `definitions` say.
    #[must_use]
    pub fn new(
        store: Store,
        definitions: Arc<EffectiveDefinitions>,
        namespaces: Arc<dyn NamespaceLookup>,
    ) -> Self {
        Self {
            store,
            definitions,
            namespaces,
            attachments: Arc::default(),
            refused_writers: tokio::sync::watch::channel(BTreeSet::new()).1,
        }
    }

    /// The same, which refuses the writes of some users whatever their rights.
    #[must_use]
    pub fn refusing(mut self, writers: Receiver<BTreeSet<String>>) -> Self {
        self.refused_writers = writers;
        self
    }

    /// # Errors
    /// 403 for a write of a user whose writes are refused.
    fn check_writer(&self, scope: &Scope) -> Result<(), ApiError> {
        let user = scope.ctx.user.username.as_str();
        if !scope.ctx.info.is_mutating() || !self.refused_writers.borrow().contains(user) {
            return Ok(());
        }
        let ResourceDefinition { group, plural, .. } = &*scope.definition;
        let why = format!(
            "{user} is the server that {group} was taken over from, and may not write to it"
        );
        Err(ApiError::forbidden(
            group,
            plural,
            &scope.ctx.info.name,
            &why,
        ))
    }

    /// The same, whose requests wait while the kube-aggregator does not send them here.
    #[must_use]
    pub fn attached(mut self, attachments: Arc<Attachments>) -> Self {
        self.attachments = attachments;
        self
    }

    /// Makes sure that what is read from now on is not older than any write that was answered.
    async fn caught_up(&self) -> Result<(), ApiError> {
        self.store
            .consistent()
            .await
            .map_err(|error| failure::store(&error))
    }

    async fn objects(&self, ctx: RequestContext, body: &[u8]) -> Result<Response, ApiError> {
        let scope = Arc::new(Scope::resolve(self, ctx)?);
        self.check_writer(&scope)?;
        // A watch is opened first and waits then.
        if scope.ctx.info.verb != "watch" {
            gate::admit(&self.attachments, &scope).await?;
        }
        scope.notes.add(scope.version.deprecation_warning.clone());
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
        let notes = scope.notes.take();
        if notes.is_empty() {
            return answered;
        }
        // Who is refused is warned, too.
        let mut response = answered.unwrap_or_else(|error| {
            let form = accept_error(&scope.ctx.headers, &scope.ctx.info.query);
            error.into_response(form)
        });
        warnings::add(&mut response, notes);
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
