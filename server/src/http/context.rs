//! The context of a request on its way down, and the place where the API takes over.

use std::sync::Arc;

use apimachinery::error::ApiError;
use apimachinery::request_info::RequestInfo;
use async_trait::async_trait;
use axum::response::Response;
use bytes::Bytes;
use http::header::USER_AGENT;
use http::{HeaderMap, Method};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::negotiation::{self, Accepted, Offer};
use crate::auth::{Attributes, Authority, UserInfo};

/// An authenticated and authorized request for a resource.
#[derive(Clone, Debug)]
pub struct RequestContext {
    /// The information about the request.
    pub info: RequestInfo,
    /// HTTP method; `HEAD` is answered like `GET`, the server drops the body.
    pub method: Method,
    /// Headers, without those that carried the identity.
    pub headers: HeaderMap,
    /// The user who asks.
    pub user: Arc<UserInfo>,
    /// Decides whether the user may do it.
    pub authority: Authority,
    /// Identifies the request in the logs: the kube-apiserver's `Audit-ID`, else made here.
    pub request_id: Arc<str>,
    /// The time at which the request is given up with 504; `None` for a watch.
    pub deadline: Option<Instant>,
    /// Cancelled when the server shuts down: a watch then ends its stream cleanly.
    pub shutdown: CancellationToken,
}

impl RequestContext {
    /// Returns the agreed form of the answer.
    ///
    /// # Errors
    /// 406.
    pub fn accept(&self, offer: Offer) -> Result<Accepted, ApiError> {
        negotiation::accept(&self.headers, &self.info.query, offer)
    }

    /// Returns the `User-Agent`, or an empty text.
    #[must_use]
    pub fn user_agent(&self) -> &str {
        self.headers
            .get(USER_AGENT)
            .and_then(|value| std::str::from_utf8(value.as_bytes()).ok())
            .unwrap_or_default()
    }

    /// Makes sure that the sender may use another verb too on the object of the request.
    ///
    /// # Errors
    /// 403, and 500 when nobody could be asked.
    pub async fn require(&self, verb: &str) -> Result<(), ApiError> {
        let attributes = Attributes {
            verb: verb.to_owned(),
            ..Attributes::of(&self.info, self.user.clone())
        };
        self.authority.require(&attributes).await
    }
}

/// The handler of requests for resources: everything below `/apis/<group>/<version>/`.
///
/// It is called after authentication, authorization and the limits, with the whole body (at most
/// [`super::MAX_BODY_BYTES`]). The future is dropped when the client goes away or the deadline
/// passes, so a write that must not be half done belongs into a task of its own.
#[async_trait]
pub trait ApiHandler: Send + Sync + 'static {
    /// Answers one request.
    async fn dispatch(&self, ctx: RequestContext, body: Bytes) -> Result<Response, ApiError>;
}
