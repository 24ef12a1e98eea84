//! The traffic on a connection, and its pauses.
//!
//! A client that is told to leave its connection tries again the requests that it had not sent yet.
//! Go's cannot do so for a request with a body that it was about to send in that moment: it has
//! closed the body already, and fails with "cannot rewind body after connection loss"
//! (golang/go#62450), which the kube-apiserver passes on as a 503. So an old connection is left in
//! a pause, not in a burst.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{sleep, timeout};

/// Silence after which the next request is not expected at any moment.
const PAUSE: Duration = Duration::from_millis(100);

/// The requests of one connection. A watch goes on after it was answered, and counts until then.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    begun: AtomicU64,
    answered: AtomicU64,
}

impl Traffic {
    /// Counts a request as being answered until the guard is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> Answering {
        self.begun.fetch_add(1, Ordering::Relaxed);
        Answering(self.clone())
    }

    /// Returns whether there was a request at all.
    pub(super) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed) > 0
    }

    /// Waits for a pause, `longest` at most.
    pub(super) async fn pause(&self, longest: Duration) {
        // Without one in that time, the connection is left all the same.
        let _ = timeout(longest, async {
            loop {
                let before = self.counts();
                sleep(PAUSE).await;
                if before == self.counts() && before.0 == before.1 {
                    break;
                }
            }
        })
        .await;
    }

    fn counts(&self) -> (u64, u64) {
        let answered = self.answered.load(Ordering::Relaxed);
        (self.begun.load(Ordering::Relaxed), answered)
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(super) struct Answering(Arc<Traffic>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.answered.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    const LONGEST: Duration = Duration::from_secs(10);

    async fn waited(traffic: &Traffic) -> Duration {
        let begun = Instant::now();
        traffic.pause(LONGEST).await;
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_a_pause() {
        let traffic = Arc::new(Traffic::default());
        assert_eq!(waited(&traffic).await, PAUSE);
        drop(traffic.begin());
        assert_eq!(waited(&traffic).await, PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_being_answered_is_none() {
        let traffic = Arc::new(Traffic::default());
        let answering = traffic.begin();
        tokio::spawn(async move {
            sleep(PAUSE * 7).await;
            drop(answering);
        });
        let waited = waited(&traffic).await;
        assert!(waited > PAUSE * 7 && waited <= PAUSE * 9, "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_follow_one_another_are_none() {
        let traffic = Arc::new(Traffic::default());
        let asked = traffic.clone();
        let burst = tokio::spawn(async move {
            loop {
                drop(asked.begin());
                sleep(PAUSE / 2).await;
            }
        });
        assert_eq!(waited(&traffic).await, LONGEST);
        burst.abort();
    }
}
