//! Plain HTTP to a cluster's own endpoints: health checks, etcd's JSON gateway.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};

/// An answer's status and body, or why there is none.
pub(crate) async fn get(address: SocketAddr, path: &str) -> Result<(StatusCode, Bytes), String> {
    let request = Request::get(format!("http://{address}{path}")).body(Full::default());
    send(request).await
}

/// The same for a POST of JSON.
pub(crate) async fn post(
    address: SocketAddr,
    path: &str,
    body: &serde_json::Value,
) -> Result<(StatusCode, Bytes), String> {
    let request = Request::post(format!("http://{address}{path}"))
        .header("content-type", "application/json")
        .body(Full::from(body.to_string()));
    send(request).await
}

async fn send(request: http::Result<Request<Full<Bytes>>>) -> Result<(StatusCode, Bytes), String> {
    let request = request.map_err(|error| error.to_string())?;
    let client = Client::builder(TokioExecutor::new()).build_http();
    let response = client
        .request(request)
        .await
        .map_err(|error| chain(&error))?;
    let status = response.status();
    let body = response
        .into_body()
        .collect()
        .await
        .map_err(|error| chain(&error))?;
    Ok((status, body.to_bytes()))
}

/// An error with its causes: hyper's own text hides them.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
