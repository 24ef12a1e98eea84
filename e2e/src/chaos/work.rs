//! The parts that all who write or read in a loop share: a pace, a pause for checks, an end.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{RwLock, RwLockReadGuard, watch};
use tokio::time::{Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::ledger::Ledger;

/// Ticks of a loop.
pub struct Pace(Interval);

impl Pace {
    /// Returns a pace of one tick a period; ticks that were missed are not made up for.
    #[must_use]
    pub fn new(period: Duration) -> Self {
        let mut ticks = tokio::time::interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self(ticks)
    }

    /// Puts the next tick off until `period` is over.
    pub fn put_off(&mut self, period: Duration) {
        self.0.reset_after(period);
    }
}

/// A gate that lets workers go on or rest.
#[derive(Clone)]
pub struct Gate {
    resting: watch::Sender<bool>,
    busy: Arc<RwLock<()>>,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            resting: watch::Sender::new(false),
            busy: Arc::default(),
        }
    }
}

impl Gate {
    /// Lets no more steps begin; returns when those under way are done.
    pub async fn rest(&self) {
        self.resting.send_replace(true);
        drop(self.busy.write().await);
    }

    /// Lets steps begin again.
    pub fn go_on(&self) {
        self.resting.send_replace(false);
    }
}

/// One of the clients that work.
#[derive(Clone)]
pub struct Worker {
    /// The ledger of writes.
    pub ledger: Arc<Ledger>,
    gate: Gate,
    stop: CancellationToken,
}

impl Worker {
    /// Returns a worker that rests with the gate.
    #[must_use]
    pub fn new(ledger: Arc<Ledger>, gate: Gate, stop: CancellationToken) -> Self {
        Self { ledger, gate, stop }
    }

    /// Waits for the next step; returns `None` at the end. While the returned guard lives, the step
    /// is under way.
    pub async fn next(&self, pace: &mut Pace) -> Option<RwLockReadGuard<'_, ()>> {
        let next = async {
            pace.0.tick().await;
            loop {
                let mut resting = self.gate.resting.subscribe();
                // The sender lives as long as `self`.
                let _ = resting.wait_for(|resting| !resting).await;
                let step = self.gate.busy.read().await;
                if !*self.gate.resting.borrow() {
                    return step;
                }
            }
        };
        self.stop.run_until_cancelled(next).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nobody_works_while_they_rest() {
        let gate = Gate::default();
        let stop = CancellationToken::new();
        let worker = Worker::new(Arc::default(), gate.clone(), stop.clone());
        let mut pace = Pace::new(Duration::from_millis(1));
        assert!(worker.next(&mut pace).await.is_some());
        gate.rest().await;
        let short = Duration::from_millis(20);
        let early = tokio::time::timeout(short, worker.next(&mut pace)).await;
        assert!(early.is_err());
        gate.go_on();
        assert!(worker.next(&mut pace).await.is_some());
        stop.cancel();
        assert!(worker.next(&mut pace).await.is_none());
    }
}
