//! The time for which this process may act as the leader, and a client that writes only within it.
//!
//! A process that was stopped, or whose machine slept, wakes up with requests that it was about to
//! send. Its candidate needs a moment to notice that the Lease is gone, so each write is asked about
//! right before it is sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::Request;
use kube::client::{Body, ClientBuilder};
use kube::{Client, Config};
use rustix::time::{ClockId, clock_gettime};
use tower::BoxError;
use tower::filter::{FilterLayer, Predicate};

/// The reason why a write was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not sent: this process has not renewed its Lease in time, so another operator may lead by now"
)]
pub struct Expired;

/// A moment, in milliseconds since the machine was started. The clock goes on while a process is
/// stopped and while the machine sleeps, and nobody sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(u64);

impl Moment {
    /// A moment that has always passed.
    const PAST: Self = Self(0);
    /// A moment that never comes.
    const NEVER: Self = Self(u64::MAX);

    fn now() -> Self {
        let time = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or_default();
        Self(seconds * 1_000 + nanoseconds / 1_000_000)
    }

    /// Returns the moment after so much time from now.
    pub(super) fn after(duration: Duration) -> Self {
        let milliseconds = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self(Self::now().0.saturating_add(milliseconds))
    }
}

/// The term of a leader: until when it may write. Cheap to clone; all clones are of the same term.
#[derive(Clone, Debug)]
pub struct Term {
    /// A [`Moment`].
    end: Arc<AtomicU64>,
}

impl Term {
    /// Returns a term that has no end: for a process that works without a Lease.
    #[must_use]
    pub fn endless() -> Self {
        Self::until(Moment::NEVER)
    }

    /// Returns a term that has not begun.
    #[must_use]
    pub fn over() -> Self {
        Self::until(Moment::PAST)
    }

    fn until(end: Moment) -> Self {
        Self {
            end: Arc::new(AtomicU64::new(end.0)),
        }
    }

    /// Sets the end of the term, which may have been over.
    pub(super) fn renew(&self, end: Moment) {
        self.end.store(end.0, Ordering::SeqCst);
    }

    /// Sets an earlier end of the term; a later one changes nothing.
    pub(super) fn shorten(&self, end: Moment) {
        self.end.fetch_min(end.0, Ordering::SeqCst);
    }

    /// Ends the term.
    pub fn end(&self) {
        self.shorten(Moment::PAST);
    }

    /// Returns whether the term is over: another process may lead.
    #[must_use]
    pub fn is_over(&self) -> bool {
        is_over(Moment(self.end.load(Ordering::SeqCst)), Moment::now())
    }

    /// Returns a client that sends writes while the term lasts, and refuses them with [`Expired`]
    /// afterwards. Where `config` has it repeat requests by itself, a repetition is not asked about.
    ///
    /// # Errors
    /// If no client can be made from the configuration.
    pub fn client(&self, config: Config) -> Result<Client, kube::Error> {
        let builder = ClientBuilder::try_from(config)?;
        Ok(builder.with_layer(&self.layer()).build())
    }

    /// Returns the layer that refuses writes after the term.
    pub(crate) fn layer(&self) -> FilterLayer<Self> {
        FilterLayer::new(self.clone())
    }
}

impl Predicate<Request<Body>> for Term {
    type Request = Request<Body>;

    fn check(&mut self, request: Request<Body>) -> Result<Request<Body>, BoxError> {
        // A read changes nothing, whoever leads.
        if request.method().is_safe() || !self.is_over() {
            return Ok(request);
        }
        Err(Expired.into())
    }
}

fn is_over(end: Moment, now: Moment) -> bool {
    end <= now
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::testing::pair_within;

    const TERM: Duration = Duration::from_mins(1);

    fn post() -> Request<Vec<u8>> {
        Request::post("/api/v1/namespaces")
            .body(b"{}".to_vec())
            .unwrap()
    }

    fn get() -> Request<Vec<u8>> {
        Request::get("/api/v1/namespaces").body(Vec::new()).unwrap()
    }

    #[rstest]
    #[case::before(1_000, 999, false)]
    #[case::at_its_end(1_000, 1_000, true)]
    #[case::after(1_000, 1_001, true)]
    #[case::never_begun(0, 0, true)]
    fn a_term_is_over_from_its_end_on(#[case] end: u64, #[case] now: u64, #[case] over: bool) {
        assert_eq!(is_over(Moment(end), Moment(now)), over);
    }

    #[test]
    fn a_term_is_shortened_and_renewed_for_all_its_clones() {
        let term = Term::over();
        let clone = term.clone();
        assert!(clone.is_over());
        term.renew(Moment::after(TERM));
        assert!(!clone.is_over());
        term.shorten(Moment::after(2 * TERM));
        assert!(!clone.is_over());
        term.shorten(Moment::after(Duration::ZERO));
        assert!(clone.is_over());
        term.renew(Moment::after(TERM));
        term.end();
        assert!(clone.is_over());
        term.shorten(Moment::after(TERM));
        assert!(clone.is_over(), "what is over is not made longer");
    }

    #[test]
    fn a_term_ends_by_the_clock() {
        let term = Term::over();
        term.renew(Moment::after(Duration::from_millis(50)));
        std::thread::sleep(Duration::from_millis(100));
        assert!(term.is_over());
        assert!(!Term::endless().is_over());
    }

    #[tokio::test]
    async fn a_write_is_sent_while_the_term_lasts() {
        let (client, mut server) = pair_within(&Term::endless());
        let sent = tokio::spawn(async move { client.request::<serde_json::Value>(post()).await });
        let request = server.next().await;
        assert_eq!(request.method, "POST");
        request.answer(201, &json!({}));
        sent.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn after_the_term_a_write_does_not_leave_and_a_read_does() {
        let (client, mut server) = pair_within(&Term::over());
        let refused = client.request::<serde_json::Value>(post()).await;
        let error = refused.unwrap_err();
        let is_expired = matches!(&error, kube::Error::Service(source) if source.is::<Expired>());
        assert!(is_expired, "{error:?}");
        let read = tokio::spawn(async move { client.request::<serde_json::Value>(get()).await });
        let request = server.next().await;
        assert_eq!(request.method, "GET", "the write was sent");
        request.answer(200, &json!({}));
        read.await.unwrap().unwrap();
    }
}
