//! Plain HTTP to a cluster's own endpoints: health checks, etcd's JSON gateway.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

/// Longest time until the whole answer is there. A client that asks for a state asks again, which a
/// server that accepts a connection and never answers must not prevent.
const LOOK_LIMIT: Duration = Duration::from_secs(10);
/// Longest time for a request that changes something.
const WORK_LIMIT: Duration = Duration::from_mins(1);

/// Returns status and body of the answer to a GET.
///
/// # Errors
/// The reason why there is no answer.
pub async fn get(address: SocketAddr, path: &str) -> Result<(StatusCode, Bytes), String> {
    let request = Request::get(format!("http://{address}{path}")).body(Full::default());
    send(request, LOOK_LIMIT).await
}

/// Returns status and body of the answer to a POST of JSON.
///
/// # Errors
/// The reason why there is no answer.
pub async fn post(
    address: SocketAddr,
    path: &str,
    body: &serde_json::Value,
) -> Result<(StatusCode, Bytes), String> {
    let request = Request::post(format!("http://{address}{path}"))
        .header("content-type", "application/json")
        .body(Full::from(body.to_string()));
    send(request, WORK_LIMIT).await
}

async fn send(
    request: http::Result<Request<Full<Bytes>>>,
    limit: Duration,
) -> Result<(StatusCode, Bytes), String> {
    let request = request.map_err(|error| error.to_string())?;
    tokio::time::timeout(limit, exchange(request))
        .await
        .unwrap_or_else(|_| Err(format!("no answer within {limit:?}")))
}

async fn exchange(request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), String> {
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

/// Returns the text of an error with its causes: hyper's own text hides them.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
