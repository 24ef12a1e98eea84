//! Bodies on their way in and out.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use apimachinery::error::{ApiError, MAX_BODY_BYTES};
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bounds the memory that request bodies take together.
#[derive(Clone, Debug)]
pub struct BodyBudget(Arc<Semaphore>);

/// A unit of the budget in bytes.
const BUDGET_UNIT: usize = 1024;

/// A body and its share of the budget.
#[derive(Debug)]
pub struct Budgeted {
    /// The whole body.
    pub bytes: Bytes,
    _share: OwnedSemaphorePermit,
}

impl BodyBudget {
    /// Returns a budget of this many bytes, at least one body of full size.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new(
            bytes.max(MAX_BODY_BYTES + BUDGET_UNIT) / BUDGET_UNIT,
        )))
    }

    fn take(&self, bytes: usize) -> Result<OwnedSemaphorePermit, ApiError> {
        let units = u32::try_from(bytes.div_ceil(BUDGET_UNIT)).unwrap_or(u32::MAX);
        self.0.clone().try_acquire_many_owned(units).map_err(|_| {
            ApiError::too_many_requests("Too many requests, please try again later.", 1)
        })
    }

    /// Reads a request's body, at most [`MAX_BODY_BYTES`].
    ///
    /// # Errors
    /// 413 for a larger one, 429 when the budget is used up, 400 when the body ends too soon.
    pub async fn read<B>(&self, headers: &HeaderMap, mut body: B) -> Result<Budgeted, ApiError>
    where
        B: HttpBody<Data = Bytes> + Unpin,
        B::Error: std::fmt::Display,
    {
        let announced = announced(headers);
        if announced.is_some_and(|length| length > MAX_BODY_BYTES as u64) {
            return Err(ApiError::body_too_large());
        }
        let announced = announced
            .and_then(|length| usize::try_from(length).ok())
            .unwrap_or(0);
        let mut share = self.take(announced)?;
        let mut paid = announced;
        // What is announced may never come: memory grows with what arrives.
        let mut all = BytesMut::with_capacity(announced.min(64 * 1024));
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                ApiError::bad_request(format!("cannot read the body of the request: {error}"))
            })?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            let length = all.len() + data.len();
            if length > MAX_BODY_BYTES {
                return Err(ApiError::body_too_large());
            }
            if length > paid {
                share.merge(self.take(length - paid)?);
                paid = length;
            }
            all.extend_from_slice(&data);
        }
        Ok(Budgeted {
            bytes: all.freeze(),
            _share: share,
        })
    }
}

fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// A body that keeps something alive until it has been sent or given up.
pub struct Guarded<G> {
    inner: Body,
    _guard: G,
}

impl<G: Send + Unpin + 'static> Guarded<G> {
    /// Ties `guard` to `inner`.
    pub fn wrap(inner: Body, guard: G) -> Body {
        Body::new(Self {
            inner,
            _guard: guard,
        })
    }
}

impl<G: Unpin> HttpBody for Guarded<G> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.inner).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
