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

/// Bytes after which a piece is handed on.
const CHUNK: usize = 256 * 1024;

/// The part of a list that is still to be written.
struct Rest {
    view: View,
    objects: std::vec::IntoIter<Arc<StoredObject>>,
    first: bool,
    tail: Option<Vec<u8>>,
}

impl Rest {
    /// Appends the next piece to `out`; returns true when it was the last.
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

/// Returns an answer with a list in compact JSON. A small one is sent whole, with its length.
///
/// # Errors
/// If an object of the first piece cannot be read. Later the stream breaks off, which a client sees
/// as a failed request.
pub fn respond(
    view: View,
    objects: Vec<Arc<StoredObject>>,
    meta: &ListMeta,
) -> Result<Response, ApiError> {
    let content_type = view.accepted.content_type();
    let (mut out, tail) = view.list_frame(meta);
    let mut rest = Rest {
        view,
        objects: objects.into_iter(),
        first: true,
        tail: Some(tail),
    };
    if rest.fill(&mut out)? {
        return Ok(response::bytes(StatusCode::OK, content_type, out));
    }
    let pieces = stream::try_unfold(Some((rest, out)), |state| async move {
        let Some((mut rest, ready)) = state else {
            return Ok(None);
        };
        if !ready.is_empty() {
            return Ok(Some((Bytes::from(ready), Some((rest, Vec::new())))));
        }
        let mut out = Vec::with_capacity(CHUNK + CHUNK / 4);
        let next = if rest.fill(&mut out)? {
            None
        } else {
            Some((rest, Vec::new()))
        };
        Ok::<_, ApiError>(Some((Bytes::from(out), next)))
    });
    Ok(response::bytes(
        StatusCode::OK,
        content_type,
        Body::from_stream(pieces),
    ))
}
