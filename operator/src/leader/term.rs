//! The time for which this process may act as the leader, and a client that writes only within it.
//!
//! A process that was stopped, or whose machine slept, wakes up with requests that it was about to
//! send. Its candidate needs a moment to notice that the Lease is gone, so each write is asked about
//! before it is sent, and once more when its bytes leave: in between it may have waited for a token,
//! for a connection, or for its task.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::Request;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ConfigExt};
use kube::{Client, Config};
use rustix::time::{ClockId, clock_gettime};
use tower::filter::{FilterLayer, Predicate};
use tower::retry::RetryLayer;
use tower::{BoxError, ServiceBuilder, ServiceExt};

use super::connection::Bounded;

/// The reason why a write was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not sent: this process has not renewed its Lease in time, so another operator may lead by now"
)]
pub struct Expired;

impl Expired {
    /// Returns whether `error` says that a write was not sent, or was due to that.
    #[must_use]
    pub fn is_behind(error: &(dyn std::error::Error + 'static)) -> bool {
        std::iter::successors(Some(error), |error| error.source()).any(|error| {
            // An error of a connection has its cause inside, which is not its source.
            let connection = error.downcast_ref::<std::io::Error>();
            let inside = connection.and_then(std::io::Error::get_ref);
            let inside = inside.and_then(|inside| inside.downcast_ref::<Self>());
            error.is::<Self>() || inside.is_some()
        })
    }
}

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
    /// afterwards. Where `config` has it repeat requests by itself, each repetition is asked about.
    /// Once the term is over, no connection that it has opened sends anything.
    ///
    /// # Errors
    /// If no client can be made from the configuration.
    pub fn client(&self, config: Config) -> Result<Client, kube::Error> {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        let term = self.clone();
        let connector = connector.map_response(move |io| Bounded::new(io, term.clone()));
        let connector = config.rustls_https_connector_with_connector(connector)?;
        let mut connector = TimeoutConnector::new(connector);
        connector.set_connect_timeout(config.connect_timeout);
        connector.set_read_timeout(config.read_timeout);
        connector.set_write_timeout(config.write_timeout);
        connector.set_reset_reader_on_write(config.reset_reader_on_write);
        let transport = legacy::Builder::new(TokioExecutor::new()).build(connector);
        let retry = config.default_retry.then(RetryPolicy::server_retry);
        // The layers of a client that kube makes itself.
        let service = ServiceBuilder::new()
            .layer(config.base_uri_layer())
            .option_layer(retry.map(RetryLayer::new))
            .layer(self.layer())
            .option_layer(config.auth_layer()?)
            .layer(config.extra_headers_layer()?)
            .map_err(BoxError::from)
            .service(transport);
        Ok(Client::new(service, config.default_namespace))
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
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

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

    /// The listener reads the rest of what has begun to arrive only when the term is over.
    #[tokio::test]
    async fn a_write_that_leaves_when_its_term_ends_is_cut_off() {
        // More than the buffers of both ends of a connection hold.
        const LENGTH: usize = 64 << 20;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let term = Term::endless();
        let client = term.client(Config::new(address.parse().unwrap())).unwrap();
        let request = Request::post("/api/v1/namespaces");
        let request = request.body(vec![b' '; LENGTH]).unwrap();
        let sent = tokio::spawn(async move { client.request::<serde_json::Value>(request).await });
        let (mut connection, _) = listener.accept().await.unwrap();
        let mut begun = [0; 5];
        connection.read_exact(&mut begun).await.unwrap();
        assert_eq!(&begun, b"POST ");
        term.end();
        let mut rest = Vec::new();
        // The other side may be gone before all of it is read.
        let _ = connection.read_to_end(&mut rest).await;
        assert!(rest.len() < LENGTH, "all of it was sent");
        let error = sent.await.unwrap().unwrap_err();
        assert!(Expired::is_behind(&error), "{error:?}");
    }

    #[rstest]
    #[case::itself(Box::new(Expired), true)]
    #[case::of_a_connection(Box::new(std::io::Error::other(Expired)), true)]
    #[case::another_of_a_connection(Box::new(std::io::Error::other("reset")), false)]
    fn an_error_tells_whether_the_term_was_over(#[case] error: BoxError, #[case] behind: bool) {
        assert_eq!(Expired::is_behind(&*error), behind);
        let error = kube::Error::Service(error);
        assert_eq!(Expired::is_behind(&error), behind);
    }
}
