//! The age of connections.
//!
//! A kube-apiserver sends everything over one HTTP/2 connection and keeps it for as long as it
//! lasts. With several replicas one would have all the work, and one that is started later none.
//! So a connection that has got old is left by its client: requests and watches on it go on until
//! they end, new ones go to a new connection, and that to whichever replica the Service picks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::header::CONNECTION;
use http::{HeaderMap, HeaderValue, Version};

use super::traffic::Traffic;

/// Part of the age by which connections differ, up and down, so that those which were opened
/// together are not opened again together.
const JITTER: f64 = 0.2;

/// How old connections get.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionAge(Option<Duration>);

impl ConnectionAge {
    /// About `max`, a fifth more or less; zero is for ever.
    #[must_use]
    pub fn new(max: Duration) -> Self {
        Self((!max.is_zero()).then_some(max))
    }

    /// Waits until a connection opened now is old, and then for a pause in its traffic, until it is
    /// twice as old at the latest.
    pub(super) async fn reached(self, traffic: &Traffic) {
        match self.draw(rand::random()) {
            Some(age) => {
                tokio::time::sleep(age).await;
                traffic.pause(age).await;
            }
            None => std::future::pending().await,
        }
    }

    /// The age of one connection; `random` is in [0, 1).
    fn draw(self, random: f64) -> Option<Duration> {
        self.0
            .map(|max| max.mul_f64(1.0 - JITTER + 2.0 * JITTER * random))
    }
}

/// Whether a connection is old; shared by those who answer on it.
#[derive(Debug, Default)]
pub(super) struct Old(AtomicBool);

impl Old {
    /// From now on it is.
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Tells the client with an answer that none will follow on this connection. Only so is an
    /// HTTP/1.1 connection ended safely: closed while idle, it could meet a request on its way.
    /// HTTP/2 has `GOAWAY` for it and forbids the header.
    pub(super) fn announce(&self, version: Version, headers: &mut HeaderMap) {
        if version < Version::HTTP_2 && self.0.load(Ordering::Relaxed) {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_lie_around_the_given_one() {
        let age = ConnectionAge::new(Duration::from_secs(100));
        assert_eq!(age.draw(0.0), Some(Duration::from_secs(80)));
        assert_eq!(age.draw(0.5), Some(Duration::from_secs(100)));
        assert!(age.draw(0.999).unwrap() < Duration::from_mins(2));
        assert_eq!(ConnectionAge::new(Duration::ZERO).draw(0.5), None);
    }

    #[test]
    fn only_old_http1_connections_are_announced() {
        let old = Old::default();
        let mut headers = HeaderMap::new();
        old.announce(Version::HTTP_11, &mut headers);
        assert!(headers.is_empty());
        old.set();
        old.announce(Version::HTTP_2, &mut headers);
        assert!(headers.is_empty());
        old.announce(Version::HTTP_11, &mut headers);
        assert_eq!(headers[CONNECTION], "close");
    }
}
