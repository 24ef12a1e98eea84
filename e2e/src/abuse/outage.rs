//! The times in which a client that asks all the time gets no answer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::Request;
use kube::Client;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Time between two requests.
const PERIOD: Duration = Duration::from_millis(250);
/// Longest wait for an answer.
const LIMIT: Duration = Duration::from_secs(5);

/// The times in which one client got no answer.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    began: Option<Instant>,
    ended: Vec<Duration>,
    asked_for: bool,
}

impl Spans {
    /// Notes a request of the time `asked`, and whether the answer that came at `now` was one.
    pub fn note(&mut self, asked: Instant, now: Instant, answered: bool) {
        if self.asked_for {
            return;
        }
        if !answered {
            self.began.get_or_insert(asked);
        } else if let Some(began) = self.began.take() {
            self.ended.push(now.saturating_duration_since(began));
        }
    }

    /// From now on, nothing counts, as somebody wants nobody to be served; or it does again.
    pub fn ask_for(&mut self, asked_for: bool, now: Instant) {
        if let Some(began) = self.began.take() {
            self.ended.push(now.saturating_duration_since(began));
        }
        self.asked_for = asked_for;
    }

    /// Returns the times, the present one as long as it has been until `now`.
    #[must_use]
    pub fn all(&self, now: Instant) -> Vec<Duration> {
        let present = self.began.map(|began| now.saturating_duration_since(began));
        self.ended.iter().copied().chain(present).collect()
    }
}

/// Clients that ask all the time. Dropping them ends them.
pub struct Outages {
    spans: Vec<Arc<Mutex<Spans>>>,
    stop: CancellationToken,
    // Aborts them where `stop` does not reach them.
    _tasks: JoinSet<()>,
}

impl Outages {
    /// Starts a client for each path.
    #[must_use]
    pub fn start(client: &Client, paths: &[String]) -> Self {
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let mut all = Vec::new();
        for path in paths {
            let spans = Arc::new(Mutex::new(Spans::default()));
            let (client, path, end) = (client.clone(), path.clone(), stop.clone());
            let noted = Arc::clone(&spans);
            tasks.spawn(async move {
                end.run_until_cancelled(ask(client, path, noted)).await;
            });
            all.push(spans);
        }
        Self {
            spans: all,
            stop,
            _tasks: tasks,
        }
    }

    /// See [`Spans::ask_for`].
    pub fn ask_for(&self, asked_for: bool) {
        let now = Instant::now();
        for spans in &self.spans {
            lock(spans).ask_for(asked_for, now);
        }
    }

    /// Returns the times in milliseconds, over all clients, longest first.
    #[must_use]
    pub fn milliseconds(&self) -> Vec<u64> {
        let now = Instant::now();
        let all = self.spans.iter().flat_map(|spans| lock(spans).all(now));
        let ms = all.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        let mut ms: Vec<u64> = ms.collect();
        ms.sort_unstable_by(|a, b| b.cmp(a));
        ms
    }
}

impl Drop for Outages {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn lock(spans: &Mutex<Spans>) -> MutexGuard<'_, Spans> {
    spans.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn ask(client: Client, path: String, spans: Arc<Mutex<Spans>>) {
    loop {
        let asked = Instant::now();
        let answered = answers(&client, &path).await;
        lock(&spans).note(asked, Instant::now(), answered);
        tokio::time::sleep(PERIOD).await;
    }
}

/// Returns whether a GET is answered with an object in time.
pub async fn answers(client: &Client, path: &str) -> bool {
    let Ok(request) = Request::get(path).body(Vec::new()) else {
        return false;
    };
    let answer = client.request::<Value>(request);
    matches!(tokio::time::timeout(LIMIT, answer).await, Ok(Ok(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(answers: &[(u64, bool)]) -> Vec<u64> {
        let start = Instant::now();
        let at = |second: u64| start + Duration::from_secs(second);
        let mut spans = Spans::default();
        for (second, answered) in answers {
            spans.note(at(*second), at(*second), *answered);
        }
        spans.all(at(100)).iter().map(Duration::as_secs).collect()
    }

    #[test]
    fn a_time_lasts_from_the_first_failure_to_the_next_answer() {
        let none: [u64; 0] = [];
        assert_eq!(spans(&[(1, true), (2, true)]), none);
        let twice = [(1, true), (2, false), (3, false), (7, true), (8, false)];
        assert_eq!(spans(&twice), [5, 92]);
    }

    #[test]
    fn what_was_asked_for_is_no_outage() {
        let start = Instant::now();
        let at = |second: u64| start + Duration::from_secs(second);
        let mut spans = Spans::default();
        spans.note(at(1), at(1), false);
        spans.ask_for(true, at(3));
        spans.note(at(4), at(4), false);
        spans.ask_for(false, at(9));
        assert_eq!(spans.all(at(10)), [Duration::from_secs(2)]);
        spans.note(at(11), at(11), false);
        assert_eq!(spans.all(at(12)).len(), 2);
    }
}
