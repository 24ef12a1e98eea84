//! The age of connections.
//!
//! A kube-apiserver sends everything over one HTTP/2 connection and keeps it for as long as it
//! lasts, so a server that is started beside others would have nothing to do. Some time after it
//! has come, clients leave the connections that are older: requests and watches on them go on until
//! they end, new ones go to a new connection, and that to the replica that the Service picks.
//! Otherwise connections are kept, as each that is left can cost a request (golang/go#62450).

use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::header::CONNECTION;
use http::{HeaderMap, HeaderValue, Version};
use tokio::sync::watch;

use super::traffic::Traffic;

/// Part of the age by which connections differ, up and down, so that those which were opened
/// together are not opened again together.
const JITTER: f64 = 0.2;

/// The age at which connections are left.
#[derive(Clone, Debug)]
pub struct ConnectionAge {
    /// The age after another server has come.
    max: Duration,
    /// The number of servers that have come; `None` where none can.
    arrivals: Option<watch::Receiver<u64>>,
}

impl ConnectionAge {
    /// Returns an age of about `max` after a change of `arrivals`, a fifth more or less; without
    /// them, or with a `max` of zero, connections are kept for ever.
    #[must_use]
    pub fn new(max: Duration, arrivals: Option<watch::Receiver<u64>>) -> Self {
        let arrivals = arrivals.filter(|_| !max.is_zero());
        Self { max, arrivals }
    }

    /// Waits until a connection opened now is old, and then for a pause in its traffic, until it is
    /// twice as old at the latest.
    pub(super) async fn reached(&self, traffic: &Traffic) {
        let Some(mut arrivals) = self.arrivals.clone() else {
            return pending().await;
        };
        arrivals.mark_unchanged();
        if arrivals.changed().await.is_err() {
            return pending().await;
        }
        let age = self.draw(rand::random());
        tokio::time::sleep(age).await;
        traffic.pause(age).await;
    }

    /// Returns the age of one connection; `random` is in [0, 1).
    fn draw(&self, random: f64) -> Duration {
        self.max.mul_f64(1.0 - JITTER + 2.0 * JITTER * random)
    }
}

/// The mark of an old connection; shared by those who answer on it.
#[derive(Debug, Default)]
pub(super) struct Old(AtomicBool);

impl Old {
    /// Marks the connection as old.
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Tells the client with an answer that none will follow on this connection. This is the only
    /// safe end of an HTTP/1.1 connection: closed while idle, it could meet a request on its way.
    /// HTTP/2 has `GOAWAY` for it and forbids the header.
    pub(super) fn announce(&self, version: Version, headers: &mut HeaderMap) {
        if version < Version::HTTP_2 && self.0.load(Ordering::Relaxed) {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use tokio::time::{Instant, timeout};

    use super::*;

    const MAX: Duration = Duration::from_secs(100);

    #[test]
    fn ages_lie_around_the_given_one() {
        let age = ConnectionAge::new(MAX, None);
        assert_eq!(age.draw(0.0), Duration::from_secs(80));
        assert_eq!(age.draw(0.5), Duration::from_secs(100));
        assert!(age.draw(0.999) < Duration::from_mins(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_gets_old_when_another_server_has_come_since() {
        let arrivals = watch::Sender::new(0);
        arrivals.send_modify(|arrivals| *arrivals += 1);
        let traffic = Traffic::default();
        let day = Duration::from_hours(24);
        for kept in [
            ConnectionAge::new(MAX, None),
            ConnectionAge::new(Duration::ZERO, Some(arrivals.subscribe())),
            ConnectionAge::new(MAX, Some(arrivals.subscribe())),
        ] {
            let reached = kept.reached(&traffic);
            assert!(timeout(day, reached).await.is_err(), "{kept:?}");
        }
        let age = ConnectionAge::new(MAX, Some(arrivals.subscribe()));
        let mut reached = pin!(age.reached(&traffic));
        assert!(timeout(day, reached.as_mut()).await.is_err());
        arrivals.send_modify(|arrivals| *arrivals += 1);
        let began = Instant::now();
        reached.await;
        assert!(began.elapsed() >= Duration::from_secs(80));
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
