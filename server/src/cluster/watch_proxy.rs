//! Watches that go on at the CRDs: the server passes on what a kube-apiserver sends.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use tokio::sync::Semaphore;

use super::client::{ClientError, patient_client};

/// The `User-Agent` of these requests: the server that one of them reaches refuses it.
pub const WATCH_PROXY: &str = "reports-server-watch-proxy";

/// Most watches that go on at one time: each has a connection of its own.
const MOST: usize = 512;

/// A watch cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum WatchProxyError {
    /// There are too many.
    #[error("{MOST} watches go on already")]
    TooMany,
    /// The request has no form.
    #[error("cannot make the request: {0}")]
    Request(#[from] http::Error),
    /// Nobody answers.
    #[error("cannot ask the kube-apiserver: {0}")]
    Unanswered(#[from] kube::Error),
    /// The answer is no watch, or none of the wanted form.
    #[error("the kube-apiserver answers {status} in the form {form:?}")]
    Refused {
        /// The status.
        status: StatusCode,
        /// The `Content-Type`.
        form: String,
    },
}

/// The way to watch what a kube-apiserver itself serves.
#[async_trait]
pub trait WatchProxy: Send + Sync + 'static {
    /// Watches `uri`, a path and query; `accept` is the client's `Accept`, and `form` the
    /// `Content-Type` that it was answered with. Returns the bytes of the answer, up to its end or a
    /// failure.
    ///
    /// # Errors
    /// If there is no answer, or one of another form.
    async fn watch(
        &self,
        uri: String,
        accept: Option<String>,
        form: &str,
    ) -> Result<BoxStream<'static, Bytes>, WatchProxyError>;
}

/// The kube-apiserver that the server knows.
pub struct KubeWatches {
    client: Client,
    places: Arc<Semaphore>,
}

impl KubeWatches {
    /// Returns the kube-apiserver of a kubeconfig, else that of the pod.
    ///
    /// # Errors
    /// If the credentials cannot be read. Nothing is asked yet.
    pub async fn new(kubeconfig: Option<&Path>) -> Result<Self, ClientError> {
        Ok(Self {
            client: patient_client(kubeconfig).await?,
            places: Arc::new(Semaphore::new(MOST)),
        })
    }
}

#[async_trait]
impl WatchProxy for KubeWatches {
    async fn watch(
        &self,
        uri: String,
        accept: Option<String>,
        form: &str,
    ) -> Result<BoxStream<'static, Bytes>, WatchProxyError> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        let place = place.map_err(|_| WatchProxyError::TooMany)?;
        let mut request = Request::get(uri).header(USER_AGENT, WATCH_PROXY);
        if let Some(accept) = accept {
            request = request.header(ACCEPT, accept);
        }
        let response = self.client.send(request.body(Body::empty())?).await?;
        let status = response.status();
        let told = response.headers().get(CONTENT_TYPE);
        let told = String::from_utf8_lossy(told.map(AsRef::as_ref).unwrap_or_default());
        if status != StatusCode::OK || told != form {
            let form = told.into_owned();
            return Err(WatchProxyError::Refused { status, form });
        }
        let pieces = response.into_body().into_data_stream();
        // The place is free when the stream is dropped.
        Ok(pieces
            .scan(place, |_, piece| futures::future::ready(piece.ok()))
            .boxed())
    }
}
