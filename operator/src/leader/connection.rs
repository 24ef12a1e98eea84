//! A connection that sends nothing once a term is over.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};

use super::term::{Expired, Term};

/// A connection, and the term within which it may send. What arrives is read at any time.
pub(super) struct Bounded<T> {
    io: T,
    term: Term,
}

impl<T> Bounded<T> {
    /// Returns the connection, bounded by `term`.
    pub(super) fn new(io: T, term: Term) -> Self {
        Self { io, term }
    }

    /// Asked before each call that hands bytes to the system: those are sent, whatever becomes of this
    /// process. Of a request that is cut off, the other side makes nothing.
    fn ask(&self) -> io::Result<()> {
        if self.term.is_over() {
            return Err(io::Error::other(Expired));
        }
        Ok(())
    }
}

impl<T: Read + Unpin> Read for Bounded<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl<T: Write + Unpin> Write for Bounded<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.ask()?;
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.ask()?;
        Pin::new(&mut self.io).poll_write_vectored(cx, parts)
    }
}

impl<T: Connection> Connection for Bounded<T> {
    fn connected(&self) -> Connected {
        self.io.connected()
    }
}
