//! Lists as a stream of bytes: a list of a hundred megabytes is never in memory at once.

use std::sync::Arc;

use apimachinery::error::ApiError;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use http::StatusCode;
use storage::model::StoredObject;

use super::view::{ListMeta, View};
use crate::http::response;

/// Bytes after which a part is handed on.
const CHUNK: usize = 256 * 1024;

/// A text that is written part by part.
pub trait Parts: Send + 'static {
    /// Memory for a part, in bytes.
    const ROOM: usize;

    /// Appends the next part to `out`; returns true when it was the last.
    ///
    /// # Errors
    /// If an object cannot be read.
    fn fill(&mut self, out: &mut Vec<u8>) -> Result<bool, ApiError>;
}

/// Returns an answer of `begun` and the parts that follow. A small one is sent whole, with its
/// length.
///
/// # Errors
/// If the first part cannot be written. Later the stream breaks off, which a client sees as a
/// failed request.
pub fn answer<P: Parts>(
    content_type: &'static str,
    mut begun: Vec<u8>,
    mut parts: P,
) -> Result<Response, ApiError> {
    if parts.fill(&mut begun)? {
        return Ok(response::bytes(StatusCode::OK, content_type, begun));
    }
    let bytes = stream::try_unfold(Some((parts, begun)), |state| async move {
        let Some((mut parts, ready)) = state else {
            return Ok(None);
        };
        if !ready.is_empty() {
            return Ok(Some((Bytes::from(ready), Some((parts, Vec::new())))));
        }
        let mut out = Vec::with_capacity(P::ROOM);
        let next = if parts.fill(&mut out)? {
            None
        } else {
            Some((parts, Vec::new()))
        };
        Ok::<_, ApiError>(Some((Bytes::from(out), next)))
    });
    Ok(response::bytes(
        StatusCode::OK,
        content_type,
        Body::from_stream(bytes),
    ))
}

/// The part of a list that is still to be written.
struct Rest {
    view: View,
    objects: std::vec::IntoIter<Arc<StoredObject>>,
    first: bool,
    tail: Option<Vec<u8>>,
}

impl Parts for Rest {
    const ROOM: usize = CHUNK + CHUNK / 4;

    fn fill(&mut self, out: &mut Vec<u8>) -> Result<bool, ApiError> {
        while out.len() < CHUNK {
            let Some(object) = self.objects.next() else {
                out.extend(self.tail.take().unwrap_or_default());
                out.push(b'\n');
                return Ok(true);
            };
            if !std::mem::take(&mut self.first) {
                out.push(b',');
            }
            self.view.append_item(out, &object)?;
        }
        Ok(false)
    }
}

/// Returns an answer with a list in compact JSON.
///
/// # Errors
/// As [`answer`].
pub fn respond(
    view: View,
    objects: Vec<Arc<StoredObject>>,
    meta: &ListMeta,
) -> Result<Response, ApiError> {
    let content_type = view.accepted.content_type();
    let (out, tail) = view.list_frame(meta);
    let rest = Rest {
        view,
        objects: objects.into_iter(),
        first: true,
        tail: Some(tail),
    };
    answer(content_type, out, rest)
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    /// So many parts; then the last, or a failure.
    struct Counted {
        left: usize,
        ends: bool,
    }

    impl Parts for Counted {
        const ROOM: usize = 16;

        fn fill(&mut self, out: &mut Vec<u8>) -> Result<bool, ApiError> {
            if self.left == 0 && !self.ends {
                return Err(ApiError::internal("broken"));
            }
            out.push(b'x');
            self.left = self.left.saturating_sub(1);
            Ok(self.left == 0 && self.ends)
        }
    }

    fn counted(left: usize, ends: bool) -> Result<Response, ApiError> {
        answer("text/plain", b"head".to_vec(), Counted { left, ends })
    }

    #[tokio::test]
    async fn a_failure_is_an_answer_before_the_first_part_and_the_end_of_the_stream_later() {
        assert_eq!(counted(0, false).unwrap_err().code(), 500);
        let response = counted(2, false).unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert!(response.into_body().collect().await.is_err());
    }

    #[tokio::test]
    async fn all_parts_are_sent() {
        for (parts, text) in [(1, "headx"), (2, "headxx"), (5, "headxxxxx")] {
            let body = counted(parts, true).unwrap().into_body();
            let bytes = body.collect().await.unwrap().to_bytes();
            assert_eq!(bytes, text);
        }
    }
}
