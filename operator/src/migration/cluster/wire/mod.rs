//! Plain JSON requests through a [`kube::Client`], with what its typed API hides: response
//! headers, `Retry-After`, and watches whose objects lose no unknown field.

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, Method, Request, header};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::leader::Expired;

/// Longest time for the whole of one request that is not a watch. A request that meets a held
/// gate waits up to 30 s at the server, so this must be longer.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(45);
/// Longest time until a watch answers with its headers.
const WATCH_OPEN_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest response body: a page of 1000 objects, each far below etcd's limit of 1.5 MiB.
const MAX_RESPONSE: usize = 512 << 20;
/// Longest line of a watch: one event holds one object, which etcd bounds.
const MAX_EVENT: usize = 16 << 20;
/// Header that our server sets on every response; the kube-aggregator passes it on.
pub const SERVER_HEADER: &str = "x-reports-server";

/// The reason why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The API answered with an error status.
    #[error("{method} {path}: {code} {reason}: {message}")]
    Status {
        /// Method of the request.
        method: Method,
        /// Path of the request, without its query.
        path: String,
        /// HTTP status code.
        code: u16,
        /// `reason` of the Status object, empty without one.
        reason: String,
        /// `message` of the Status object, else the start of the body.
        message: String,
        /// Value of `Retry-After`.
        retry_after: Option<Duration>,
    },
    /// The request did not reach the API, or its answer did not come back.
    #[error("{path}: the kube-apiserver cannot be reached: {source}")]
    Transport {
        /// Path of the request, without its query.
        path: String,
        /// The error of the client.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The request is a write, and was not sent: this process may not lead any more.
    #[error("{path}: {source}")]
    Expired {
        /// Path of the request, without its query.
        path: String,
        /// The words for it.
        source: Expired,
    },
    /// No answer in time.
    #[error("{path}: no answer within {} s", .after.as_secs())]
    Timeout {
        /// Path of the request, without its query.
        path: String,
        /// The time that was allowed.
        after: Duration,
    },
    /// The answer is not what the API promises.
    #[error("{path}: the answer cannot be read: {source}")]
    Decode {
        /// Path of the request, without its query.
        path: String,
        /// The error of the decoder.
        source: serde_json::Error,
    },
    /// The request cannot be expressed.
    #[error("{path}: the request cannot be built: {message}")]
    Build {
        /// Path of the request, without its query.
        path: String,
        /// The reason.
        message: String,
    },
}

impl WireError {
    /// Returns the HTTP status code, where the API answered.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Status { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Returns the path of the request, without its query.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Self::Status { path, .. }
            | Self::Transport { path, .. }
            | Self::Expired { path, .. }
            | Self::Timeout { path, .. }
            | Self::Decode { path, .. }
            | Self::Build { path, .. } => path,
        }
    }

    /// Returns whether the same request may succeed later without anybody's action.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Status { code, .. } => matches!(code, 408 | 429 | 500 | 502 | 503 | 504),
            Self::Transport { .. } | Self::Timeout { .. } => true,
            // Whoever leads by now goes on; this process waits for its end.
            Self::Expired { .. } | Self::Decode { .. } | Self::Build { .. } => false,
        }
    }

    /// Returns whether this process may not lead any more. That says nothing of what was asked.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        matches!(self, Self::Expired { .. })
    }

    /// Returns the time that the API asks to wait for.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

/// An answer and its headers.
#[derive(Debug)]
pub struct Reply {
    /// Response headers.
    pub headers: HeaderMap,
    body: Bytes,
    path: String,
}

impl Reply {
    /// Returns whether our server answered, and not a CRD.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.headers.contains_key(SERVER_HEADER)
    }

    /// Decodes the JSON body.
    ///
    /// # Errors
    /// [`WireError::Decode`] when the body is not JSON of that type.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, WireError> {
        serde_json::from_slice(&self.body).map_err(|source| WireError::Decode {
            path: self.path.clone(),
            source,
        })
    }
}

/// Requests to one address of the cluster.
#[derive(Clone)]
pub struct Wire {
    client: kube::Client,
}

impl Wire {
    /// Sends requests through `client`.
    #[must_use]
    pub fn new(client: kube::Client) -> Self {
        Self { client }
    }

    /// Sends GET and reads JSON.
    ///
    /// # Errors
    /// See [`WireError`].
    pub async fn get(&self, uri: &str) -> Result<Reply, WireError> {
        self.call(Method::GET, uri, "application/json", None).await
    }

    /// Sends GET for a list with the metadata of its objects only.
    ///
    /// # Errors
    /// See [`WireError`].
    pub async fn get_metadata(&self, uri: &str) -> Result<Reply, WireError> {
        let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        let request = build(Method::GET, uri, None, accept)?;
        self.finish(Method::GET, uri, request).await
    }

    /// Sends GET for a list as a table, whose columns the serving version names.
    ///
    /// # Errors
    /// See [`WireError`].
    pub async fn get_table(&self, uri: &str) -> Result<Reply, WireError> {
        let accept = "application/json;as=Table;g=meta.k8s.io;v=v1";
        let request = build(Method::GET, uri, None, accept)?;
        self.finish(Method::GET, uri, request).await
    }

    /// Sends any method with a JSON body of `content_type`.
    ///
    /// # Errors
    /// See [`WireError`].
    pub async fn call(
        &self,
        method: Method,
        uri: &str,
        content_type: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Reply, WireError> {
        let body = body.map(|bytes| (content_type, bytes));
        let request = build(method.clone(), uri, body, "application/json")?;
        self.finish(method, uri, request).await
    }

    async fn finish(
        &self,
        method: Method,
        uri: &str,
        request: Request<Body>,
    ) -> Result<Reply, WireError> {
        let path = path_of(uri);
        let exchange = async {
            let response = self
                .client
                .send(request)
                .await
                .map_err(|e| unanswered(&path, e))?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, MAX_RESPONSE)
                .collect()
                .await
                .map_err(|source| WireError::Transport {
                    path: path.clone(),
                    source,
                })?
                .to_bytes();
            if head.status.is_success() {
                return Ok(Reply {
                    headers: head.headers,
                    body,
                    path: path.clone(),
                });
            }
            Err(status_error(
                method,
                path.clone(),
                head.status.as_u16(),
                &head.headers,
                &body,
            ))
        };
        tokio::time::timeout(REQUEST_TIMEOUT, exchange)
            .await
            .unwrap_or_else(|_| {
                Err(WireError::Timeout {
                    path: path_of(uri),
                    after: REQUEST_TIMEOUT,
                })
            })
    }

    /// Opens a watch; `uri` carries `watch=1` and the rest.
    ///
    /// # Errors
    /// See [`WireError`]; a refusal that comes as the first event is not an error here.
    pub async fn watch(&self, uri: &str) -> Result<WatchStream, WireError> {
        let path = path_of(uri);
        let mut request = build(Method::GET, uri, None, "application/json")?;
        request.headers_mut().insert(
            header::ACCEPT_ENCODING,
            header::HeaderValue::from_static("identity"),
        );
        let response = tokio::time::timeout(WATCH_OPEN_TIMEOUT, self.client.send(request))
            .await
            .map_err(|_| WireError::Timeout {
                path: path.clone(),
                after: WATCH_OPEN_TIMEOUT,
            })?
            .map_err(|e| transport(&path, e))?;
        let (head, body) = response.into_parts();
        if !head.status.is_success() {
            let body = Limited::new(body, MAX_EVENT)
                .collect()
                .await
                .map_err(|source| WireError::Transport {
                    path: path.clone(),
                    source,
                })?
                .to_bytes();
            let code = head.status.as_u16();
            return Err(status_error(Method::GET, path, code, &head.headers, &body));
        }
        Ok(WatchStream {
            headers: head.headers,
            body,
            buffer: BytesMut::new(),
            path,
        })
    }
}

/// One event of a watch.
#[derive(Clone, Debug, PartialEq)]
pub struct RawEvent {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub type_: String,
    /// The object, or the Status of an `ERROR`.
    pub object: Value,
}

/// An open watch.
pub struct WatchStream {
    headers: HeaderMap,
    body: Body,
    buffer: BytesMut,
    path: String,
}

impl WatchStream {
    /// Returns whether our server answered, and not a CRD.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.headers.contains_key(SERVER_HEADER)
    }

    /// Returns the next event; `None` when the server has ended the stream cleanly, between two
    /// events. Cancel safe.
    ///
    /// # Errors
    /// [`WireError::Transport`] when the stream broke, [`WireError::Decode`] for what is no event.
    pub async fn next(&mut self) -> Result<Option<RawEvent>, WireError> {
        loop {
            if let Some(line) = take_line(&mut self.buffer) {
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return decode_event(&line, &self.path).map(Some);
            }
            if self.buffer.len() > MAX_EVENT {
                return Err(transport(&self.path, "an event is longer than 16 MiB"));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Some(Err(e)) => return Err(transport(&self.path, e)),
                None if self.buffer.is_empty() => return Ok(None),
                None => {
                    let rest = self.buffer.split();
                    return decode_event(&rest, &self.path).map(Some);
                }
            }
        }
    }
}

fn take_line(buffer: &mut BytesMut) -> Option<BytesMut> {
    let end = buffer.iter().position(|b| *b == b'\n')?;
    let line = buffer.split_to(end);
    buffer.advance(1);
    Some(line)
}

fn decode_event(line: &[u8], path: &str) -> Result<RawEvent, WireError> {
    #[derive(serde::Deserialize)]
    struct Event {
        #[serde(rename = "type")]
        type_: String,
        object: Value,
    }
    let event: Event = serde_json::from_slice(line).map_err(|source| WireError::Decode {
        path: path.to_owned(),
        source,
    })?;
    Ok(RawEvent {
        type_: event.type_,
        object: event.object,
    })
}

fn build(
    method: Method,
    uri: &str,
    body: Option<(&str, Vec<u8>)>,
    accept: &str,
) -> Result<Request<Body>, WireError> {
    let mut request = Request::builder()
        .method(method)
        .uri(uri)
        .header(header::ACCEPT, accept);
    let bytes = match body {
        Some((content_type, bytes)) => {
            request = request.header(header::CONTENT_TYPE, content_type);
            bytes
        }
        None => Vec::new(),
    };
    request
        .body(Body::from(bytes))
        .map_err(|e| WireError::Build {
            path: path_of(uri),
            message: e.to_string(),
        })
}

fn status_error(
    method: Method,
    path: String,
    code: u16,
    headers: &HeaderMap,
    body: &[u8],
) -> WireError {
    let retry_after = headers
        .get(header::RETRY_AFTER)
        .and_then(|v| v.to_str().ok())
        .and_then(|v| v.parse().ok())
        .map(Duration::from_secs);
    let status: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |key: &str| status.get(key).and_then(Value::as_str).map(str::to_owned);
    let message = text("message").unwrap_or_else(|| {
        String::from_utf8_lossy(body)
            .trim()
            .chars()
            .take(200)
            .collect()
    });
    let reason = text("reason").unwrap_or_default();
    WireError::Status {
        method,
        path,
        code,
        reason,
        message,
        retry_after,
    }
}

/// Returns the error of a request that has no answer.
fn unanswered(path: &str, error: kube::Error) -> WireError {
    match error {
        kube::Error::Service(source) if Expired::is_behind(&*source) => WireError::Expired {
            path: path.to_owned(),
            source: Expired,
        },
        error => transport(path, error),
    }
}

fn transport(path: &str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> WireError {
    WireError::Transport {
        path: path.to_owned(),
        source: source.into(),
    }
}

fn path_of(uri: &str) -> String {
    uri.split('?').next().unwrap_or_default().to_owned()
}

/// Returns the path of a resource in one version of its group, across namespaces.
#[must_use]
pub fn collection(group: &str, version: &str, plural: &str) -> String {
    format!("/apis/{group}/{version}/{plural}")
}

/// Returns the path of a resource in one namespace; an empty one means cluster-scoped objects.
#[must_use]
pub fn collection_of(group: &str, version: &str, plural: &str, namespace: &str) -> String {
    if namespace.is_empty() {
        collection(group, version, plural)
    } else {
        format!("/apis/{group}/{version}/namespaces/{namespace}/{plural}")
    }
}

/// Returns the path of one object; an empty namespace means a cluster-scoped one.
#[must_use]
pub fn object(group: &str, version: &str, plural: &str, namespace: &str, name: &str) -> String {
    let collection = collection_of(group, version, plural, namespace);
    format!("{collection}/{name}")
}

/// Appends query parameters to a path, percent-encoded.
#[must_use]
pub fn query(path: &str, pairs: &[(&str, &str)]) -> String {
    let mut encoded = form_urlencoded::Serializer::new(String::new());
    for (key, value) in pairs {
        encoded.append_pair(key, value);
    }
    format!("{path}?{}", encoded.finish())
}

#[cfg(test)]
mod tests;
