//! Lists in gzip that are joined from the pieces of their objects, which are kept from one list to
//! the next: a list that is asked for again costs little more than a copy.

use std::sync::Arc;

use apimachinery::error::ApiError;
use axum::response::Response;
use storage::model::StoredObject;

use super::pieces::{Kept, Pieces, Representation};
use super::scope::Scope;
use super::stream;
use super::stream::Parts;
use super::view::{ListMeta, View};
use crate::http::gzip;
use crate::http::gzip::{Deflater, Joiner};

/// Objects at the beginning of a list by which it is judged.
const SAMPLE: usize = 64;
/// Least text of these in bytes. So the list is larger than what is sent as it is, and its objects
/// have 4 KiB or more: of smaller ones, gzip finds several within its window, and a list that is
/// compressed as a whole is far smaller.
const LEAST_TEXT: usize = 256 * 1024;
/// Bytes after which a part is handed on.
const CHUNK: usize = 64 * 1024;

/// Returns true when a list is to be joined from pieces: the client takes gzip, the text of an
/// object depends on nothing but its state and the version, and the objects are not too few or too
/// small.
#[must_use]
pub fn applies(scope: &Scope, view: &View, objects: &[Arc<StoredObject>]) -> bool {
    let sample = objects.iter().take(SAMPLE);
    let text: usize = sample.map(|object| object.body.json_len()).sum();
    text >= LEAST_TEXT && view.is_plain() && gzip::accepted(&scope.ctx.headers)
}

/// The part of a list that is still to be written.
struct Rest {
    view: View,
    kept: Representation,
    objects: std::vec::IntoIter<Arc<StoredObject>>,
    tail: Vec<u8>,
    joiner: Joiner,
    /// Made for the first object without a piece.
    deflater: Option<Deflater>,
    /// Memory for the texts of such objects.
    text: Vec<u8>,
}

impl Rest {
    /// Returns the piece of an object, and the length of the text that was compressed for it.
    fn piece(&mut self, object: &Arc<StoredObject>) -> Result<(Arc<Kept>, usize), ApiError> {
        if let Some(kept) = self.kept.get(object) {
            return Ok((kept, 0));
        }
        self.text.clear();
        self.view.append_item(&mut self.text, object)?;
        let deflater = self.deflater.get_or_insert_default();
        let piece = deflater.piece(&self.text).map_err(ApiError::internal)?;
        Ok((self.kept.keep(object, piece), self.text.len()))
    }
}

impl Parts for Rest {
    const ROOM: usize = CHUNK + CHUNK / 4;

    fn fill(&mut self, out: &mut Vec<u8>) -> Result<bool, ApiError> {
        let mut compressed = 0;
        while out.len() < CHUNK && compressed < gzip::STEP {
            let Some(object) = self.objects.next() else {
                self.joiner.end(out);
                self.kept.settle();
                return Ok(true);
            };
            let (kept, length) = self.piece(&object)?;
            compressed += length;
            let last = self.objects.as_slice().is_empty();
            let behind: &[u8] = if last { &self.tail } else { b"," };
            self.joiner.append(out, &kept.piece, behind);
        }
        Ok(false)
    }
}

/// Returns an answer with a list that is not empty, in compact JSON and gzip.
///
/// # Errors
/// As [`stream::answer`].
pub fn respond(
    scope: &Scope,
    view: View,
    pieces: &Arc<Pieces>,
    objects: Vec<Arc<StoredObject>>,
    meta: &ListMeta,
) -> Result<Response, ApiError> {
    let content_type = view.accepted.content_type();
    let (head, mut tail) = view.list_frame(meta);
    tail.push(b'\n');
    let mut out = Vec::with_capacity(Rest::ROOM);
    let joiner = Joiner::begin(&mut out, &head);
    let rest = Rest {
        view,
        kept: pieces.of(representation(scope)),
        objects: objects.into_iter(),
        tail,
        joiner,
        deflater: None,
        text: Vec::new(),
    };
    let mut response = stream::answer(content_type, out, rest)?;
    gzip::announce(response.headers_mut());
    Ok(response)
}

/// Returns the name of what the objects of a request are shown as.
fn representation(scope: &Scope) -> String {
    let (definition, version) = (&scope.definition, &scope.version.name);
    format!("{} {}", definition.plural, definition.api_version(version))
}
