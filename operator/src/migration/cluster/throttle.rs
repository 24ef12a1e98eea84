//! The number of requests under way at once: fewer when the kube-apiserver refuses them or slows
//! down, more again while it answers well.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::wire::WireError;

/// The factor by which a slow answer is slower than the fastest...
const SLOWER: u32 = 4;
/// ...unless the answer is as fast as this.
const FAST: Duration = Duration::from_millis(250);
/// The longest that all requests pause because one was refused.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// The number of requests that may be under way. Pure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    max: u32,
    now: u32,
    /// The fastest answer so far.
    fastest: Option<Duration>,
    /// Good answers since the limit was changed.
    good: u32,
    /// Answers still to come to requests from before the limit was last lowered: they tell nothing
    /// new.
    stale: u32,
}

impl Limit {
    /// Returns a limit of at most `max`, and at least 1.
    #[must_use]
    pub fn new(max: u32) -> Self {
        let max = max.max(1);
        Self {
            max,
            now: max,
            fastest: None,
            good: 0,
            stale: 0,
        }
    }

    /// Returns the number of requests that may be under way.
    #[must_use]
    pub fn now(&self) -> u32 {
        self.now
    }

    /// Notes an answer that has come after `took`.
    pub fn answered(&mut self, took: Duration) {
        let fastest = self.fastest.map_or(took, |fastest| fastest.min(took));
        self.fastest = Some(fastest);
        if took > FAST && took > fastest * SLOWER {
            self.lower();
            return;
        }
        self.stale = self.stale.saturating_sub(1);
        self.good += 1;
        if self.good >= self.now && self.now < self.max {
            self.now += 1;
            self.good = 0;
        }
    }

    /// Notes a request that was refused, or not answered at all.
    pub fn refused(&mut self) {
        self.lower();
    }

    fn lower(&mut self) {
        self.good = 0;
        if self.stale > 0 {
            self.stale -= 1;
            return;
        }
        self.stale = self.now - 1;
        self.now = (self.now / 2).max(1);
    }
}

/// A throttle that lets as many requests through at once as the [`Limit`] allows.
pub struct Throttle {
    state: Mutex<State>,
    /// The signal that a request has ended.
    ended: Notify,
}

struct State {
    limit: Limit,
    running: u32,
    pause: Option<Instant>,
}

/// A request under way; dropping it makes room.
struct Running<'a>(&'a Throttle);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.lock().running -= 1;
        // Room for several where the limit was raised.
        self.0.ended.notify_waiters();
    }
}

/// The answer to a request that wants to enter.
enum Entry<'a> {
    Go(Running<'a>),
    Pause(Instant),
    Full,
}

impl Throttle {
    /// Returns a throttle for at most `max` requests at once.
    #[must_use]
    pub fn new(max: u32) -> Self {
        Self {
            state: Mutex::new(State {
                limit: Limit::new(max),
                running: 0,
                pause: None,
            }),
            ended: Notify::new(),
        }
    }

    /// Returns the number of requests that may be under way now.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.lock().limit.now()
    }

    /// Sends a request once there is room for it.
    ///
    /// # Errors
    /// Those of the request.
    pub async fn through<T>(
        &self,
        request: impl Future<Output = Result<T, WireError>>,
    ) -> Result<T, WireError> {
        let running = self.enter().await;
        let begun = Instant::now();
        let result = request.await;
        self.learn(begun.elapsed(), result.as_ref().err());
        drop(running);
        result
    }

    async fn enter(&self) -> Running<'_> {
        loop {
            let mut ended = std::pin::pin!(self.ended.notified());
            // Before it is looked, so that no end is missed.
            ended.as_mut().enable();
            match self.try_enter() {
                Entry::Go(running) => return running,
                Entry::Pause(until) => tokio::time::sleep_until(until).await,
                Entry::Full => ended.await,
            }
        }
    }

    fn try_enter(&self) -> Entry<'_> {
        let mut state = self.lock();
        if let Some(until) = state.pause.filter(|until| *until > Instant::now()) {
            return Entry::Pause(until);
        }
        if state.running >= state.limit.now() {
            return Entry::Full;
        }
        state.running += 1;
        Entry::Go(Running(self))
    }

    fn learn(&self, took: Duration, error: Option<&WireError>) {
        let mut state = self.lock();
        match error {
            Some(error) if error.is_transient() => {
                state.limit.refused();
                if let Some(wait) = error.retry_after() {
                    let until = Instant::now() + wait.min(MAX_PAUSE);
                    state.pause = state.pause.max(Some(until));
                }
            }
            _ => state.limit.answered(took),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;

    use super::*;

    const MILLIS: fn(u64) -> Duration = Duration::from_millis;

    fn busy(retry_after: Option<Duration>) -> WireError {
        WireError::Status {
            method: http::Method::DELETE,
            path: "/x".to_owned(),
            code: 429,
            reason: "TooManyRequests".to_owned(),
            message: "slow down".to_owned(),
            retry_after,
        }
    }

    #[test]
    fn refusals_of_one_moment_count_once_and_good_answers_bring_it_back() {
        let mut limit = Limit::new(16);
        (0..16).for_each(|_| limit.refused());
        assert_eq!(limit.now(), 8, "all of them were sent before");
        (0..8).for_each(|_| limit.refused());
        assert_eq!(limit.now(), 4);
        (0..100).for_each(|_| limit.refused());
        assert_eq!(limit.now(), 1);
        (0..200).for_each(|_| limit.answered(MILLIS(5)));
        assert_eq!(limit.now(), 16, "never more than asked for");
    }

    #[test]
    fn slow_answers_lower_it_and_those_that_are_merely_slower_do_not() {
        let mut limit = Limit::new(8);
        limit.answered(MILLIS(5));
        (0..50).for_each(|_| limit.answered(MILLIS(200)));
        assert_eq!(limit.now(), 8);
        limit.answered(MILLIS(300));
        assert_eq!(limit.now(), 4);
        // A kube-apiserver that is always slow is not slowed down by us.
        let mut far = Limit::new(8);
        (0..50).for_each(|_| far.answered(MILLIS(400)));
        assert_eq!(far.now(), 8);
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_run_at_once_than_are_allowed_and_all_get_through() {
        let throttle = Throttle::new(3);
        let most = Mutex::new((0, 0));
        let each = (0..20).map(|_| {
            throttle.through(async {
                {
                    let mut most = most.lock().unwrap();
                    most.0 += 1;
                    most.1 = most.1.max(most.0);
                }
                tokio::time::sleep(MILLIS(10)).await;
                most.lock().unwrap().0 -= 1;
                Ok::<_, WireError>(())
            })
        });
        let begun = Instant::now();
        assert!(join_all(each).await.iter().all(Result::is_ok));
        assert_eq!(most.lock().unwrap().1, 3);
        assert!(begun.elapsed() >= MILLIS(70), "20 of 10 ms, 3 at once");
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_refusal_all_wait_as_long_as_was_asked_for() {
        let throttle = Throttle::new(4);
        let refused = async { Err::<(), _>(busy(Some(Duration::from_secs(7)))) };
        assert!(throttle.through(refused).await.is_err());
        assert_eq!(throttle.limit(), 2);
        let begun = Instant::now();
        throttle.through(async { Ok(()) }).await.unwrap();
        assert!(begun.elapsed() >= Duration::from_secs(7));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_given_up_makes_room() {
        let throttle = Throttle::new(1);
        let stuck = throttle.through(std::future::pending::<Result<(), WireError>>());
        assert!(tokio::time::timeout(MILLIS(10), stuck).await.is_err());
        throttle.through(async { Ok(()) }).await.unwrap();
    }
}
