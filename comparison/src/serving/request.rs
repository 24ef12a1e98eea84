//! Requests of raw bytes through a kube-apiserver, and their answers.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;

use super::ServingError;

/// Longest wait for an answer, and for the next line of a watch that must come.
const PATIENCE: Duration = Duration::from_mins(1);

/// A request to send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outgoing {
    /// `GET`, `POST`, …
    pub method: String,
    /// Path and query.
    pub uri: String,
    /// Headers in the order in which they are sent.
    pub headers: Vec<(String, String)>,
    /// Body; empty for none.
    pub body: Vec<u8>,
}

impl Outgoing {
    /// Returns a get of `uri`.
    #[must_use]
    pub fn get(uri: impl Into<String>) -> Self {
        Self::new("GET", uri)
    }

    /// Returns a request without headers and body.
    #[must_use]
    pub fn new(method: impl Into<String>, uri: impl Into<String>) -> Self {
        Self {
            method: method.into(),
            uri: uri.into(),
            ..Self::default()
        }
    }

    /// Returns the request with one more header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Returns the request with a body of JSON.
    #[must_use]
    pub fn json(mut self, body: &Value) -> Self {
        self.body = body.to_string().into_bytes();
        self.header("content-type", "application/json")
    }

    fn request(&self) -> Result<http::Request<Body>, ServingError> {
        let mut request = http::Request::builder()
            .method(self.method.as_str())
            .uri(&self.uri);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request
            .body(Body::from(self.body.clone()))
            .map_err(|error| ServingError::Request {
                method: self.method.clone(),
                uri: self.uri.clone(),
                why: error.to_string(),
            })
    }
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Status.
    pub code: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

impl Answer {
    /// Returns the body as text; bytes that are no UTF-8 are replaced.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the body as JSON.
    ///
    /// # Errors
    /// If it is none; the error has the text.
    pub fn json(&self) -> Result<Value, ServingError> {
        serde_json::from_slice(&self.body)
            .map_err(|error| ServingError::Body(format!("{error}: {}", self.text())))
    }
}

/// A stream of lines, each a JSON text: a watch.
pub struct Lines {
    body: Body,
    buffer: Vec<u8>,
}

impl Lines {
    /// Returns the next line without its end; `None` at the end of the stream, or where it breaks
    /// off.
    ///
    /// # Errors
    /// If nothing comes for a minute.
    pub async fn next_line(&mut self) -> Result<Option<Vec<u8>>, ServingError> {
        self.line_within(PATIENCE)
            .await
            .ok_or_else(|| ServingError::Body("no event within a minute".to_owned()))
    }

    /// Returns the next line as [`Lines::next_line`] does; `None` when nothing comes within
    /// `patience`. Nothing is lost then.
    pub async fn line_within(&mut self, patience: Duration) -> Option<Option<Vec<u8>>> {
        tokio::time::timeout(patience, self.line()).await.ok()
    }

    async fn line(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.buffer.drain(..=end).collect();
                line.pop();
                return Some(line);
            }
            if !self.read().await {
                return self.left();
            }
        }
    }

    /// Waits until something has come that can be read; returns false when nothing does within
    /// `patience`, or the stream has ended.
    pub async fn begun_within(&mut self, patience: Duration) -> bool {
        !self.buffer.is_empty()
            || tokio::time::timeout(patience, self.read())
                .await
                .unwrap_or(false)
    }

    /// Returns the next message as [`Lines::line_within`] does for a stream in which each message
    /// has its length in front, in four bytes.
    pub async fn frame_within(&mut self, patience: Duration) -> Option<Option<Vec<u8>>> {
        tokio::time::timeout(patience, self.message()).await.ok()
    }

    async fn message(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some((length, rest)) = self.buffer.split_first_chunk::<4>() {
                let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
                if rest.len() >= length {
                    let message = rest[..length].to_vec();
                    self.buffer.drain(..4 + length);
                    return Some(message);
                }
            }
            if !self.read().await {
                return self.left();
            }
        }
    }

    /// Reads on; returns false at the end of the stream.
    async fn read(&mut self) -> bool {
        let Some(Ok(frame)) = self.body.frame().await else {
            return false;
        };
        if let Some(data) = frame.data_ref() {
            self.buffer.extend_from_slice(data);
        }
        true
    }

    /// Returns the rest that is no whole message, shown as it is.
    fn left(&mut self) -> Option<Vec<u8>> {
        let left = std::mem::take(&mut self.buffer);
        (!left.is_empty()).then_some(left)
    }

    /// Returns everything that comes until the end of the stream.
    ///
    /// # Errors
    /// If it does not end within a minute, or breaks off.
    pub async fn rest(self) -> Result<Bytes, ServingError> {
        let mut bytes = self.buffer;
        let rest = tokio::time::timeout(PATIENCE, self.body.collect())
            .await
            .map_err(|_| ServingError::Body("does not end within a minute".to_owned()))?
            .map_err(|error| ServingError::Body(error.to_string()))?;
        bytes.extend_from_slice(&rest.to_bytes());
        Ok(bytes.into())
    }
}

/// Sends a request; returns status, headers, and the body to be read.
///
/// # Errors
/// If it is no request, or the connection breaks.
pub async fn open(
    client: &kube::Client,
    request: &Outgoing,
) -> Result<(u16, HeaderMap, Lines), ServingError> {
    let sent = tokio::time::timeout(PATIENCE, client.send(request.request()?)).await;
    let response =
        sent.map_err(|_| ServingError::Body("no answer within a minute".to_owned()))??;
    let (head, body) = response.into_parts();
    let buffer = Vec::new();
    Ok((head.status.as_u16(), head.headers, Lines { body, buffer }))
}

/// Sends a request and reads the whole answer.
///
/// # Errors
/// As [`open`], and when the body does not end within a minute.
pub async fn send(client: &kube::Client, request: &Outgoing) -> Result<Answer, ServingError> {
    let (code, headers, lines) = open(client, request).await?;
    let body = lines.rest().await?;
    Ok(Answer {
        code,
        headers,
        body,
    })
}
