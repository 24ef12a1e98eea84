//! `/healthz` and `/readyz`.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::sync::watch;

/// Returns both endpoints. `ready` decides the answer of `/readyz`.
pub(super) fn router(ready: watch::Receiver<bool>) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(readyz))
        .with_state(ready)
}

async fn readyz(State(ready): State<watch::Receiver<bool>>) -> Response {
    let is_ready = *ready.borrow();
    if is_ready {
        "ok".into_response()
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "the kube-apiserver has not answered yet",
        )
            .into_response()
    }
}
