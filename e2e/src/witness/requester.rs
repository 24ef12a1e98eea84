//! Requests that are sent once: a failure is recorded, not tried again.

use std::sync::Arc;
use std::time::Instant;

use http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::{Client, Config};
use serde_json::Value;

use super::WitnessError;
use super::ledger::Ledger;

/// Returns a client without the retries that kube turns on by default.
///
/// # Errors
/// If the configuration holds unusable certificates.
pub fn strict_client(mut config: Config) -> Result<Client, WitnessError> {
    config.default_retry = false;
    Client::try_from(config).map_err(|error| WitnessError::Request {
        doing: "make a client",
        reason: error.to_string(),
    })
}

/// The sender of requests on behalf of a writer or watcher.
#[derive(Clone)]
pub struct Requester {
    client: Client,
    /// The ledger of the answers.
    pub ledger: Arc<Ledger>,
    timed: bool,
}

impl Requester {
    /// Returns a requester that writes into `ledger`.
    pub fn new(client: Client, ledger: Arc<Ledger>) -> Self {
        Self {
            client,
            ledger,
            timed: true,
        }
    }

    /// Returns the same requester for lists of everything, whose time is that of their size: they
    /// do not count for the longest wait.
    pub fn untimed(self) -> Self {
        Self {
            timed: false,
            ..self
        }
    }

    /// Sends a request; an answer that is none of `expected`, or none at all, is a failure and
    /// returns `None`.
    pub async fn call(
        &self,
        method: Method,
        uri: &str,
        body: Option<&Value>,
        expected: &[StatusCode],
    ) -> Option<(StatusCode, Value)> {
        let what = format!("{method} {uri}");
        let started = Instant::now();
        let answer = self.send(method, uri, body, "application/json").await;
        let answer = match answer {
            Ok((status, response)) => response.collect().await.map_or_else(
                |error| Err(error.to_string()),
                |collected| Ok((status, collected.to_bytes())),
            ),
            Err(error) => Err(error),
        };
        self.ledger
            .answered(&what, self.timed.then(|| started.elapsed()));
        match answer {
            Ok((status, bytes)) if expected.contains(&status) => {
                if let Ok(value) = serde_json::from_slice(&bytes) {
                    return Some((status, value));
                }
                self.ledger
                    .fail(format!("{what}: {status} with a body that is not JSON"));
            }
            Ok((status, bytes)) => {
                let text = String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).into_owned();
                self.ledger.fail(format!("{what}: {status} {text}"));
            }
            Err(error) => self.ledger.fail(format!("{what}: {error}")),
        }
        None
    }

    /// Sends a request and returns the body as it streams in.
    pub async fn send(
        &self,
        method: Method,
        uri: &str,
        body: Option<&Value>,
        accept: &str,
    ) -> Result<(StatusCode, Body), String> {
        let mut request = Request::builder()
            .method(method)
            .uri(uri)
            .header(header::ACCEPT, accept);
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let bytes = body.map_or_else(Vec::new, |value| value.to_string().into_bytes());
        let request = request
            .body(Body::from(bytes))
            .map_err(|error| error.to_string())?;
        let response = self
            .client
            .send(request)
            .await
            .map_err(|error| chain(&error))?;
        let (parts, body) = response.into_parts();
        Ok((parts.status, body))
    }
}

/// Returns an error with all its causes on one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
