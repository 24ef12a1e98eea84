//! The stream of one watch. The client pulls it: nothing is buffered for a slow one, which falls
//! behind in the log that all share, until the events that it needs next are compacted.

use std::sync::Arc;

use apimachinery::error::ApiError;
use apimachinery::mutation::{Mutation, broken};
use bytes::{Bytes, BytesMut};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use storage::cache::{Cursor, CursorError, Event};
use storage::model::StoredObject;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::frame;
use super::onward::Onward;
use super::schedule::Schedule;
use super::transition;
use crate::api::options::ListOptions;
use crate::api::view::View;

/// Most events that are taken at a time.
const BATCH: usize = 128;
/// Bytes after which the finished lines are handed on.
const CHUNK: usize = 128 * 1024;

/// A watch that has begun.
pub struct Watch {
    /// The form of the objects.
    pub view: View,
    /// The selection of the objects.
    pub options: ListOptions,
    /// The namespace, or all.
    pub namespace: Option<String>,
    /// Objects that are there at the beginning.
    pub initial: std::vec::IntoIter<Arc<StoredObject>>,
    /// Version of those objects, while the bookmark that ends them is due.
    pub initial_end: Option<u64>,
    /// The events.
    pub cursor: Cursor,
    /// The times of bookmarks and of the end.
    pub schedule: Schedule,
    /// The time of the next bookmark.
    pub next_bookmark: Instant,
    /// Cancelled when the server stops.
    pub shutdown: CancellationToken,
    /// True when a Table has described its columns already.
    pub described: bool,
    /// True for the garbage collector, which knows objects by their uids alone: those of what was
    /// created in etcd anew are others, of which no event tells.
    pub by_uid: bool,
    /// The rest at the CRD when the resource is given back.
    pub onward: Option<Onward>,
}

/// The place where the lines of a watch come from.
enum Source {
    Here(Box<Watch>),
    Crd(BoxStream<'static, Bytes>),
    Ended,
}

/// The next step after some lines.
enum Then {
    More,
    /// The lines of the CRD behind a version.
    Crd(u64),
    End,
}

impl Source {
    /// Waits for the next piece; returns it with the source of those behind it.
    async fn next(self) -> Result<Option<(Bytes, Self)>, ApiError> {
        let mut pieces = match self {
            Self::Here(mut watch) => {
                let mut out = BytesMut::new();
                let next = match watch.fill(&mut out).await? {
                    Then::More => Self::Here(watch),
                    Then::Crd(rv) => watch.go_on(rv),
                    Then::End if out.is_empty() => return Ok(None),
                    Then::End => Self::Ended,
                };
                return Ok(Some((out.freeze(), next)));
            }
            Self::Crd(pieces) => pieces,
            Self::Ended => return Ok(None),
        };
        let piece = pieces.next().await;
        Ok(piece.map(|piece| (piece, Self::Crd(pieces))))
    }
}

/// An event that a watch waits for.
enum Next {
    Events(Vec<Arc<Event>>),
    Bookmark,
    /// An error for the client, after which the watch ends.
    Fail(ApiError),
    /// The end after all events, with the version up to which the client has them.
    Last,
    End,
}

impl Watch {
    /// Returns the lines of this watch, in pieces.
    pub fn into_stream(self) -> impl Stream<Item = Result<Bytes, ApiError>> + Send {
        futures::stream::try_unfold(Source::Here(Box::new(self)), Source::next)
    }

    /// Returns the source of what is behind `rv` when the CRD serves the resource.
    fn go_on(self, rv: u64) -> Source {
        match self.onward {
            Some(onward) => Source::Crd(onward.open(rv, self.schedule.end)),
            None => Source::Ended,
        }
    }

    /// Waits for the next lines and appends them.
    async fn fill(&mut self, out: &mut BytesMut) -> Result<Then, ApiError> {
        self.fill_initial(out)?;
        while out.is_empty() {
            match self.next().await {
                Next::Events(events) => self.fill_events(out, &events)?,
                Next::Bookmark => {
                    let rv = self.cursor.position();
                    self.bookmark(out, rv, false)?;
                    self.next_bookmark = self.schedule.next_bookmark(Instant::now());
                }
                Next::Fail(error) => {
                    out.extend_from_slice(&frame::error(&self.view, &error)?);
                    return Ok(Then::End);
                }
                Next::Last => return self.fill_last(out),
                Next::End => return Ok(Then::End),
            }
        }
        Ok(Then::More)
    }

    /// Appends the objects that are there at the beginning, then the bookmark that says so.
    fn fill_initial(&mut self, out: &mut BytesMut) -> Result<(), ApiError> {
        while out.len() < CHUNK {
            let Some(object) = self.initial.next() else {
                break;
            };
            let headers = self.headers();
            let line = frame::initial(&self.view, &object, headers)?;
            out.extend_from_slice(&line);
        }
        if self.initial.as_slice().is_empty()
            && let Some(rv) = self.initial_end.take()
            && !broken(Mutation::BookmarkMissing)
        {
            self.bookmark(out, rv, true)?;
        }
        Ok(())
    }

    fn fill_events(&mut self, out: &mut BytesMut, events: &[Arc<Event>]) -> Result<(), ApiError> {
        for event in events {
            let seen = transition::seen(event, self.namespace.as_deref(), &self.options);
            if let Some(seen) = seen {
                let headers = self.headers();
                out.extend_from_slice(&frame::event(&self.view, event, &seen, headers)?);
            }
        }
        Ok(())
    }

    /// Appends the end: the CRD serves the resource from now on. The stored objects were written to
    /// etcd anew, so a client may only resume from a version above all of those: a bookmark tells
    /// it, and a client that takes none is sent back to list rather than shown old states as news.
    fn fill_last(&mut self, out: &mut BytesMut) -> Result<Then, ApiError> {
        if self.follows() {
            let rv = self.cursor.position();
            self.bookmark(out, rv, false)?;
            return Ok(Then::Crd(rv));
        }
        let error = list_at_the_crd();
        out.extend_from_slice(&frame::error(&self.view, &error)?);
        Ok(Then::End)
    }

    /// Returns whether the client goes on at the CRD without a list.
    fn follows(&self) -> bool {
        self.options.allow_watch_bookmarks && !self.by_uid
    }

    fn bookmark(&mut self, out: &mut BytesMut, rv: u64, end: bool) -> Result<(), ApiError> {
        let headers = self.headers();
        out.extend_from_slice(&frame::bookmark(&self.view, rv, end, headers)?);
        Ok(())
    }

    /// Returns the end of a watch that the server does not live to complete. While the resource is
    /// being given back, a client without bookmarks may hold a version below those of what it has
    /// seen and the CRD is about to show.
    fn cut_off(&self) -> Next {
        if self.cursor.gives_back() && !self.follows() {
            return Next::Fail(list_at_the_crd());
        }
        Next::End
    }

    /// Returns whether a Table has to describe its columns: the first one of a watch does.
    fn headers(&mut self) -> bool {
        !std::mem::replace(&mut self.described, true)
    }

    async fn next(&mut self) -> Next {
        let bookmarks = self.options.allow_watch_bookmarks;
        tokio::select! {
            biased;
            () = self.shutdown.cancelled() => self.cut_off(),
            () = sleep_until(self.schedule.end) => Next::End,
            () = sleep_until(self.next_bookmark), if bookmarks => Next::Bookmark,
            event = self.cursor.next_or_milestone(BATCH, bookmarks) => told(event),
        }
    }
}

/// Returns the error that sends a client back to list.
fn list_at_the_crd() -> ApiError {
    ApiError::expired("the resource is served by its CRD from now on, list it again")
}

/// Returns the next step after the answer of a cursor; without events a bookmark is due.
fn told(event: Result<Option<Vec<Arc<Event>>>, CursorError>) -> Next {
    match event {
        Ok(None) => Next::Bookmark,
        Ok(Some(events)) => Next::Events(events),
        Err(CursorError::Closed { complete: true }) => Next::Last,
        Err(CursorError::Closed { complete: false }) => Next::End,
        Err(CursorError::Lagged { position, oldest }) => {
            Next::Fail(ApiError::too_old_resource_version(position, oldest))
        }
        Err(CursorError::Log(error)) => {
            // Nothing was skipped: the client goes on from its last event.
            tracing::warn!(%error, "a watch ends because the change log cannot be read");
            Next::End
        }
    }
}
