//! The path of a request: health, authentication, authorization, limits, then discovery or the API.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use apimachinery::error::ApiError;
use apimachinery::request_info::RequestInfo;
use axum::body::Body;
use axum::response::Response;
use futures::FutureExt;
use http::header::{CONTENT_LENGTH, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body::Body as _;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::audit::Audit;
use super::body::Guarded;
use super::context::{ApiHandler, RequestContext};
use super::health::Health;
use super::limits::Limits;
use super::negotiation::accept_error;
use super::{gzip, record, response, routes, span};
use crate::auth::{
    Attributes, Authentication, AuthenticationError, Authenticator, Authority, Authorizer,
    PeerCertificates, Proof,
};
use crate::cluster::EffectiveDefinitions;
use crate::telemetry::Metrics;

/// Header of every answer; the operator recognises our answers by it.
pub const SERVER_HEADER: HeaderName = HeaderName::from_static("x-reports-server");
/// The kube-apiserver's name for a request.
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
/// Longest `Audit-ID` that is taken over.
const MAX_AUDIT_ID: usize = 64;

/// The parts that requests need.
pub struct Pipeline {
    /// Establishes the sender.
    pub authenticator: Authenticator,
    /// Decides whether the sender may do it.
    pub authorizer: Arc<dyn Authorizer>,
    /// The served resources.
    pub definitions: Arc<EffectiveDefinitions>,
    /// The handler of requests for resources.
    pub api: Arc<dyn ApiHandler>,
    /// Conditions of health.
    pub health: Health,
    /// Bounds of concurrent work.
    pub limits: Limits,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// True when requests of direct clients are logged.
    pub audit: watch::Receiver<bool>,
    /// Cancelled to end all watches.
    pub shutdown: CancellationToken,
}

/// A request on its way.
struct Incoming {
    method: Method,
    headers: HeaderMap,
    body: Body,
    peer: PeerCertificates,
    info: RequestInfo,
    request_id: Arc<str>,
}

impl Pipeline {
    /// Answers a request. Never fails, and survives a panic further down.
    pub async fn answer(&self, peer: PeerCertificates, request: Request<Body>) -> Response {
        let started = Instant::now();
        let (head, body) = request.into_parts();
        let (method, headers) = (head.method, head.headers);
        let request_id = request_id(&headers);
        let logged = tracing::info_span!("request", request_id = &*request_id);
        let (info, unreadable) = match RequestInfo::parse(&method, &head.uri) {
            Ok(info) => (info, None),
            Err(error) => (RequestInfo::default(), Some(error)),
        };
        let form = accept_error(&headers, &info.query);
        let zip = !info.is_long_running() && gzip::accepted(&headers);
        let audit = Audit::of(&info, *self.audit.borrow());
        let seen = record::Seen::new(&info, &headers, started, &self.definitions.load());
        let traced = span::begin(&method, &info, &headers, &request_id, seen.is_known());
        // A direct client has no say in what is recorded.
        if !traced.is_disabled() && self.authenticator.is_front_proxy(&peer) {
            traces::continue_from(&traced, &headers);
        }
        let incoming = Incoming {
            method: method.clone(),
            headers,
            body,
            peer,
            info,
            request_id: request_id.clone(),
        };
        let result = match unreadable {
            Some(error) => Err(ApiError::bad_request(error.to_string())),
            None => AssertUnwindSafe(self.route(incoming, &audit))
                .catch_unwind()
                .instrument(logged.clone())
                .instrument(traced.clone())
                .await
                .unwrap_or_else(|panic| Err(panicked(&request_id, panic.as_ref()))),
        };
        let response = result.unwrap_or_else(|error| response::error(error, form));
        let response = if zip {
            gzip::compress(response)
        } else {
            response
        };
        let response = if method == Method::HEAD {
            without_body(response)
        } else {
            response
        };
        span::finish(&traced, response.status().as_u16());
        logged.in_scope(|| {
            audit.finish(&request_id, response.status().as_u16(), started.elapsed());
            seen.finish(response, &self.metrics.requests)
        })
    }

    async fn route(&self, mut incoming: Incoming, audit: &Audit) -> Result<Response, ApiError> {
        if let Some(answer) = self.health.answer(&incoming.info) {
            return Ok(answer);
        }
        let authenticated = self
            .authenticator
            .authenticate(&incoming.peer, &mut incoming.headers)
            .await;
        audit.sender(&authenticated);
        let Authentication { user, proof } = authenticated.map_err(unauthenticated)?;
        refuse_impersonation(&incoming.headers, proof)?;
        let attributes = Attributes::of(&incoming.info, user);
        if !incoming.info.is_resource_request {
            if let Err(error) = self.authority(proof).require(&attributes).await {
                return Ok(refused(error, &incoming.headers, &incoming.info));
            }
            let Incoming {
                method,
                headers,
                info,
                ..
            } = &incoming;
            return routes::answer(
                method,
                info,
                headers,
                &self.definitions.load(),
                &self.metrics,
            );
        }
        let Some(permit) = self.limits.admit(&incoming.info)? else {
            return self.dispatch(incoming, attributes, proof, None).await;
        };
        let deadline = Instant::now() + self.limits.deadline;
        let work = self.dispatch(incoming, attributes, proof, Some(deadline));
        let result = tokio::time::timeout_at(deadline, work).await;
        drop(permit);
        result.unwrap_or_else(|_| Err(ApiError::request_timeout()))
    }

    /// Hands a request for a resource down.
    async fn dispatch(
        &self,
        incoming: Incoming,
        attributes: Attributes,
        proof: Proof,
        deadline: Option<Instant>,
    ) -> Result<Response, ApiError> {
        let authority = self.authority(proof);
        if let Err(error) = authority.require(&attributes).await {
            return Ok(refused(error, &incoming.headers, &incoming.info));
        }
        let Incoming {
            method,
            headers,
            body,
            info,
            request_id,
            ..
        } = incoming;
        let body = self.limits.bodies.read(&headers, body).await?;
        let shutdown = self.shutdown.clone();
        let user = attributes.user;
        let ctx = RequestContext {
            info,
            method,
            headers,
            user,
            authority,
            request_id,
            deadline,
            shutdown,
        };
        // The share of the budget is held until the answer is there.
        self.api.dispatch(ctx, body.bytes.clone()).await
    }

    fn authority(&self, proof: Proof) -> Authority {
        Authority::new(self.authorizer.clone(), proof)
    }
}

/// Returns the kube-apiserver's `Audit-ID`, so that its audit log and ours can be read side by
/// side, else a new one.
fn request_id(headers: &HeaderMap) -> Arc<str> {
    let given = headers.get(AUDIT_ID).and_then(|value| value.to_str().ok());
    match given.filter(|id| !id.is_empty() && id.len() <= MAX_AUDIT_ID) {
        Some(id) => id.into(),
        None => uuid::Uuid::new_v4().to_string().into(),
    }
}

/// Returns the answer of a refusal. A refusal by authorization has one header more than others, as
/// those of the kube-apiserver do.
fn refused(error: ApiError, headers: &HeaderMap, info: &RequestInfo) -> Response {
    let mut response = response::error(error, accept_error(headers, &info.query));
    if response.status() == StatusCode::FORBIDDEN {
        let nosniff = HeaderValue::from_static("nosniff");
        response
            .headers_mut()
            .insert(X_CONTENT_TYPE_OPTIONS, nosniff);
    }
    response
}

fn unauthenticated(error: AuthenticationError) -> ApiError {
    match error {
        AuthenticationError::Invalid(why) => {
            tracing::info!(why, "unable to authenticate the request");
            ApiError::unauthorized()
        }
        AuthenticationError::NotReady => ApiError::service_unavailable(error.to_string(), 1),
        AuthenticationError::Unavailable(error) => ApiError::internal(error),
    }
}

/// Refuses impersonation by a direct client. Impersonation is the kube-apiserver's business: it
/// leaves none in the requests that it passes on. A direct client that asks for it must not be
/// answered as if it had not.
fn refuse_impersonation(headers: &HeaderMap, proof: Proof) -> Result<(), ApiError> {
    let asked = headers
        .keys()
        .any(|name| name.as_str().starts_with("impersonate-"));
    if asked && proof != Proof::FrontProxy {
        let message = "impersonation is not supported on a direct connection; send the request \
                       through the kube-apiserver";
        return Err(ApiError::bad_request(message));
    }
    Ok(())
}

fn panicked(request_id: &str, panic: &(dyn Any + Send)) -> ApiError {
    let what = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    tracing::error!(request_id, what, "a request made the server panic");
    ApiError::internal(format!(
        "this request made the server panic; its log names {request_id}"
    ))
}

/// Returns the answer to HEAD: the length stays, the body goes.
fn without_body(response: Response) -> Response {
    let (mut head, body) = response.into_parts();
    if let Some(length) = body.size_hint().exact() {
        head.headers
            .insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    Response::from_parts(head, Body::empty())
}

/// Ties a guard to the body of an answer.
pub(super) fn guarded<G: Send + Unpin + 'static>(response: Response, guard: G) -> Response {
    let (head, body) = response.into_parts();
    Response::from_parts(head, Guarded::wrap(body, guard))
}
