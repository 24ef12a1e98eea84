//! Requests as client-go sends them: a request that is refused with a time to wait is tried again
//! after it; the caller judges everything else.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::Value;

use super::tally::{Note, Tally};
use testcluster::http::chain;

/// Number of further tries of client-go.
const TRIES: u32 = 10;
/// Longest wait for an answer: far more than any request is held.
const LIMIT: Duration = Duration::from_mins(2);

/// Media types of bodies.
pub mod media {
    /// An object, or delete options.
    pub const JSON: &str = "application/json";
    /// RFC 7386.
    pub const MERGE_PATCH: &str = "application/merge-patch+json";
    /// RFC 6902.
    pub const JSON_PATCH: &str = "application/json-patch+json";
    /// Server-side apply; JSON is YAML.
    pub const APPLY: &str = "application/apply-patch+yaml";
}

/// The outcome of a request.
#[derive(Clone, Debug)]
pub enum Answer {
    /// A whole answer.
    Said(StatusCode, Value),
    /// No answer that could be read.
    Unclear(String),
}

impl Answer {
    /// Returns the answer in a few words, for examples.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Said(status, value) => {
                let message = value["message"].as_str().unwrap_or_default();
                format!("{status} {message}")
            }
            Self::Unclear(why) => why.clone(),
        }
    }

    /// Returns whether the write was surely not carried out.
    #[must_use]
    pub fn refuses(&self) -> bool {
        matches!(self, Self::Said(status, _) if status.is_client_error())
    }
}

/// The sender of the requests of one client.
#[derive(Clone)]
pub struct Requester {
    client: Client,
    /// The kube-apiserver of the client.
    apiserver: usize,
    /// The count of everything.
    pub tally: Arc<Tally>,
}

impl Requester {
    /// Returns a requester on a client of one kube-apiserver that does not retry by itself.
    #[must_use]
    pub fn new(client: Client, apiserver: usize, tally: Arc<Tally>) -> Self {
        Self {
            client,
            apiserver,
            tally,
        }
    }

    /// Sends a request; waits and sends it again as long as it is told to.
    pub async fn call(&self, method: Method, uri: &str, body: Option<(&str, &Value)>) -> Answer {
        let started = Instant::now();
        let answer = self.tried(&method, uri, body).await;
        if method != Method::GET {
            let what = format!("{method} {uri}");
            self.tally.waited(started.elapsed(), &what);
        }
        answer
    }

    async fn tried(&self, method: &Method, uri: &str, body: Option<(&str, &Value)>) -> Answer {
        for tries in 0.. {
            self.tally.ready(self.apiserver).await;
            let once = self.once(method, uri, body);
            let once = tokio::time::timeout(LIMIT, once).await;
            let (status, headers, value) = match once {
                Ok(Ok(answer)) => answer,
                Ok(Err(why)) => return Answer::Unclear(why),
                Err(_) => return Answer::Unclear(format!("no answer within {LIMIT:?}")),
            };
            match self.pause(status, &headers) {
                Some(pause) if tries < TRIES => tokio::time::sleep(pause).await,
                _ => return Answer::Said(status, value),
            }
        }
        Answer::Unclear("not tried".to_owned())
    }

    async fn once(
        &self,
        method: &Method,
        uri: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<(StatusCode, HeaderMap, Value), String> {
        let (status, headers, stream) = self.send(method, uri, body, media::JSON).await?;
        let collected = stream.collect().await.map_err(|error| chain(&error))?;
        let bytes = collected.to_bytes();
        // Not every refusal is a Status object.
        let value = serde_json::from_slice(&bytes).unwrap_or_else(|_| {
            let text = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
            serde_json::json!({"message": text})
        });
        Ok((status, headers, value))
    }

    /// Sends a request once and returns the body as it streams in.
    ///
    /// # Errors
    /// If no answer begins.
    pub async fn send(
        &self,
        method: &Method,
        uri: &str,
        body: Option<(&str, &Value)>,
        accept: &str,
    ) -> Result<(StatusCode, HeaderMap, Body), String> {
        self.tally.note(Note::Requests);
        let mut request = Request::builder()
            .method(method)
            .uri(uri)
            .header(header::ACCEPT, accept);
        let mut bytes = Vec::new();
        if let Some((media_type, value)) = body {
            request = request.header(header::CONTENT_TYPE, media_type);
            bytes = value.to_string().into_bytes();
        }
        let request = request
            .body(Body::from(bytes))
            .map_err(|error| error.to_string())?;
        let response = self.client.send(request).await;
        let response = response.map_err(|error| chain(&error))?;
        let (parts, body) = response.into_parts();
        Ok((parts.status, parts.headers, body))
    }

    /// Returns the time to wait before the request is sent again; counts the refusal.
    #[must_use]
    pub fn pause(&self, status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
        if !matches!(
            status,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
        ) {
            return None;
        }
        let pause = retry_after(headers);
        self.tally.note(if pause.is_some() {
            Note::Throttled
        } else {
            Note::RefusedWithoutRetryAfter
        });
        pause
    }
}

/// Returns the header `Retry-After` in seconds.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_seconds_are_waited_for() {
        let mut headers = HeaderMap::new();
        assert_eq!(retry_after(&headers), None);
        headers.insert(header::RETRY_AFTER, header::HeaderValue::from_static("2"));
        assert_eq!(retry_after(&headers), Some(Duration::from_secs(2)));
    }

    #[test]
    fn an_error_of_the_client_is_a_clear_no() {
        let said = |status| Answer::Said(status, Value::Null).refuses();
        assert!(said(StatusCode::CONFLICT));
        assert!(!said(StatusCode::GATEWAY_TIMEOUT));
        assert!(!said(StatusCode::OK));
        assert!(!Answer::Unclear(String::new()).refuses());
    }
}
