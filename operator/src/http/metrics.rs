//! `/metrics`.

use axum::Router;
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::access::{Access, PATH, Refusal, refusal};
use crate::metrics::Metrics;

/// Media type of the `OpenMetrics` text format.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The way in which a reader proves who it is.
const BEARER: &str = "Bearer";

#[derive(Clone)]
struct Shared {
    metrics: Metrics,
    access: Option<Access>,
}

/// Returns the endpoint, for those whom `access` admits; for everybody without.
pub(super) fn router(metrics: Metrics, access: Option<Access>) -> Router {
    Router::new()
        .route(PATH, get(serve))
        .with_state(Shared { metrics, access })
}

async fn serve(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    if let Some(access) = &shared.access {
        let verdict = access.decide(&headers).await;
        if let Some(refusal) = refusal(&verdict) {
            return refused(refusal);
        }
    }
    match shared.metrics.encode() {
        Ok(text) => ([(CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

fn refused(refusal: Refusal) -> Response {
    let Refusal { code, message } = refusal;
    if code == StatusCode::UNAUTHORIZED {
        return (code, [(WWW_AUTHENTICATE, BEARER)], message).into_response();
    }
    (code, message).into_response()
}
