//! The queue of the committer: bounded, in order of arrival.
//!
//! A transaction takes everything that waits, so its size follows the load by itself. Where commits
//! are slow it is [lingered](linger) for a moment as well, so that clients who write again and
//! again share every transaction instead of every other one.

mod linger;

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::{Notify, oneshot};

use self::linger::Linger;
use super::committer::Committer;
use super::engine::Op;
use super::{QueueLimits, StoreError, WriteError};
use crate::cache::Event;

/// Most writes in one transaction.
const MAX_BATCH: usize = 512;
/// Most bytes of JSON in one transaction, beyond its first write.
const MAX_BATCH_BYTES: usize = 4 << 20;
/// Bounds of the time that a client is told to wait.
const RETRY_AFTER: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// A write and the channel to the task that waits for it.
pub(super) struct Pending {
    pub op: Op,
    pub answer: oneshot::Sender<Result<Arc<Event>, WriteError>>,
}

/// Something else for the committer to do, or not to do, which answers its caller itself. Returns
/// whether the database worked.
pub(super) type Command =
    Box<dyn for<'a> FnOnce(Result<&'a mut Committer, StoreError>) -> BoxFuture<'a, bool> + Send>;

/// The work of the committer in one round.
pub(super) struct Work {
    pub command: Option<Command>,
    pub writes: Vec<Pending>,
}

/// See the module's documentation.
pub(super) struct Queue {
    limits: QueueLimits,
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

#[derive(Default)]
struct Waiting {
    writes: VecDeque<Pending>,
    bytes: usize,
    commands: VecDeque<Command>,
    closed: bool,
    /// Writes that the committer completes in a second, as it was last measured; 0 before that.
    rate: f64,
    linger: Linger,
    /// True while the committer lingers.
    gathering: bool,
}

impl Queue {
    pub fn new(limits: QueueLimits) -> Self {
        Self {
            limits,
            waiting: Mutex::default(),
            arrived: Notify::new(),
        }
    }

    /// Queues a write, or refuses it.
    pub fn push(&self, pending: Pending) -> Result<(), StoreError> {
        let bytes = pending.op.object.json.len();
        let mut waiting = self.lock();
        waiting.open()?;
        let room = waiting.bytes == 0 || waiting.bytes + bytes <= self.limits.bytes;
        if waiting.writes.len() >= self.limits.writes || !room {
            return Err(StoreError::Overloaded {
                retry_after: waiting.retry_after(),
            });
        }
        waiting.bytes += bytes;
        waiting.writes.push_back(pending);
        // Who gathers is woken once, by the last one.
        let wake = !waiting.gathering || waiting.is_gathered();
        drop(waiting);
        if wake {
            self.arrived.notify_one();
        }
        Ok(())
    }

    /// Queues a command, or refuses it.
    pub fn command(&self, command: Command) -> Result<(), StoreError> {
        let mut waiting = self.lock();
        waiting.open()?;
        if waiting.commands.len() >= self.limits.commands {
            return Err(StoreError::Overloaded {
                retry_after: waiting.retry_after(),
            });
        }
        waiting.commands.push_back(command);
        drop(waiting);
        self.arrived.notify_one();
        Ok(())
    }

    /// Waits for work and takes a round of it; `None` once the queue is closed and empty.
    pub async fn take(&self) -> Option<Work> {
        loop {
            {
                let waiting = self.lock();
                if !waiting.commands.is_empty() || !waiting.writes.is_empty() {
                    break;
                }
                if waiting.closed {
                    return None;
                }
            }
            self.arrived.notified().await;
        }
        self.gather().await;
        Some(self.lock().round())
    }

    /// Waits for the clients who were just answered, where that pays.
    async fn gather(&self) {
        let patience = {
            let mut waiting = self.lock();
            if waiting.is_gathered() {
                return;
            }
            let Some(patience) = waiting.linger.patience() else {
                return;
            };
            waiting.gathering = true;
            patience
        };
        let all = async {
            while !self.lock().is_gathered() {
                self.arrived.notified().await;
            }
        };
        let came = tokio::select! {
            () = all => true,
            () = linger::nap(patience) => false,
        };
        let mut waiting = self.lock();
        waiting.gathering = false;
        waiting.linger.ended(came);
    }

    /// Takes nothing more; queued work is still done.
    pub fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_one();
    }

    /// Takes all writes, to be refused, and all commands where they are to be refused as well.
    pub fn give_up(&self, commands: bool) -> (VecDeque<Pending>, VecDeque<Command>) {
        let mut waiting = self.lock();
        waiting.bytes = 0;
        let writes = std::mem::take(&mut waiting.writes);
        let commands = if commands {
            std::mem::take(&mut waiting.commands)
        } else {
            VecDeque::new()
        };
        (writes, commands)
    }

    /// Notes that `writes` writes took `elapsed`.
    pub fn drained(&self, writes: usize, elapsed: Duration) {
        let seconds = elapsed.as_secs_f64().max(1e-6);
        #[expect(clippy::cast_precision_loss, reason = "a batch has at most 512 writes")]
        let rate = writes as f64 / seconds;
        let mut waiting = self.lock();
        let expected = writes + waiting.writes.len();
        waiting.linger.committed(expected.min(MAX_BATCH), elapsed);
        waiting.rate = if waiting.rate == 0.0 {
            rate
        } else {
            0.8 * waiting.rate + 0.2 * rate
        };
    }

    /// Returns the writes and bytes that wait.
    pub fn depth(&self) -> (usize, usize) {
        let waiting = self.lock();
        (waiting.writes.len(), waiting.bytes)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Returns whether nobody else is waited for.
    fn is_gathered(&self) -> bool {
        self.closed
            || !self.commands.is_empty()
            || self.bytes >= MAX_BATCH_BYTES
            || self.linger.is_reached(self.writes.len())
    }

    fn open(&self) -> Result<(), StoreError> {
        if self.closed {
            let reason = "the server is shutting down".to_owned();
            return Err(StoreError::Unavailable {
                retry_after: RETRY_AFTER.0,
                reason,
            });
        }
        Ok(())
    }

    /// Returns at most one command, and the oldest writes, at most one a key: the second write of a
    /// key depends on the outcome of the first.
    fn round(&mut self) -> Work {
        let mut writes: Vec<Pending> = Vec::new();
        let mut keys = HashSet::new();
        let mut bytes = 0;
        while let Some(next) = self.writes.front() {
            let size = next.op.object.json.len();
            let full = writes.len() >= MAX_BATCH || bytes + size > MAX_BATCH_BYTES;
            let key = (next.op.resource, next.op.key.clone());
            if (full && !writes.is_empty()) || !keys.insert(key) {
                break;
            }
            bytes += size;
            writes.extend(self.writes.pop_front());
        }
        self.bytes -= bytes;
        Work {
            command: self.commands.pop_front(),
            writes,
        }
    }

    /// Returns the time after which the present queue should be done.
    fn retry_after(&self) -> Duration {
        #[expect(
            clippy::cast_precision_loss,
            reason = "the queue is bounded by thousands"
        )]
        let seconds = self.writes.len() as f64 / self.rate.max(1.0);
        Duration::try_from_secs_f64(seconds.ceil())
            .unwrap_or(RETRY_AFTER.1)
            .clamp(RETRY_AFTER.0, RETRY_AFTER.1)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::{Dictionary, Encoded, ObjectKey, ResourceId};
    use crate::store::engine::OpKind;

    type Answer = oneshot::Receiver<Result<Arc<Event>, WriteError>>;

    fn pending(name: &str) -> (Pending, Answer) {
        let object = json!({"metadata": {"name": name}});
        let object = Encoded::from_value(&object, Dictionary::built_in()).unwrap();
        let key = ObjectKey::new("ns", name);
        let op = Op {
            resource: ResourceId(1),
            key,
            kind: OpKind::Create,
            object,
        };
        let (answer, answered) = oneshot::channel();
        (Pending { op, answer }, answered)
    }

    fn queue(writes: usize, bytes: usize) -> Queue {
        Queue::new(QueueLimits {
            writes,
            bytes,
            commands: 1,
        })
    }

    fn overloaded(result: Result<(), StoreError>) -> Duration {
        match result {
            Err(StoreError::Overloaded { retry_after }) => retry_after,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_full_queue_refuses_until_it_is_drained() {
        let queue = queue(3, usize::MAX);
        for name in ["a", "b", "c"] {
            queue.push(pending(name).0).unwrap();
        }
        overloaded(queue.push(pending("d").0));
        assert_eq!(queue.take().await.unwrap().writes.len(), 3);
        queue.push(pending("d").0).unwrap();
        assert_eq!(queue.depth(), (1, pending("d").0.op.object.json.len()));
    }

    #[tokio::test]
    async fn bytes_are_bounded_but_one_large_write_always_fits() {
        let queue = queue(100, 1);
        queue.push(pending("a").0).unwrap();
        overloaded(queue.push(pending("b").0));
        queue.take().await.unwrap();
        assert_eq!(queue.depth(), (0, 0));
        queue.push(pending("b").0).unwrap();
    }

    #[tokio::test]
    async fn a_round_ends_before_the_second_write_of_a_key() {
        let queue = queue(100, usize::MAX);
        for name in ["a", "b", "a", "c"] {
            queue.push(pending(name).0).unwrap();
        }
        let names = |work: Work| -> Vec<String> {
            work.writes
                .iter()
                .map(|p| p.op.key.name().to_owned())
                .collect()
        };
        assert_eq!(names(queue.take().await.unwrap()), ["a", "b"]);
        assert_eq!(names(queue.take().await.unwrap()), ["a", "c"]);
    }

    #[test]
    fn the_wait_follows_the_rate_within_bounds() {
        let queue = queue(100, usize::MAX);
        let refill = || while queue.push(pending("a").0).is_ok() {};
        refill();
        queue.drained(10, Duration::from_secs(1));
        assert_eq!(
            overloaded(queue.push(pending("b").0)),
            Duration::from_secs(10)
        );
        (0..50).for_each(|_| queue.drained(1_000_000, Duration::from_secs(1)));
        assert_eq!(
            overloaded(queue.push(pending("b").0)),
            Duration::from_secs(1)
        );
        (0..100).for_each(|_| queue.drained(1, Duration::from_mins(1)));
        assert_eq!(
            overloaded(queue.push(pending("b").0)),
            Duration::from_secs(30)
        );
    }

    #[tokio::test]
    async fn a_closed_queue_is_emptied_and_takes_nothing_more() {
        let queue = queue(100, usize::MAX);
        queue.push(pending("a").0).unwrap();
        let command = || queue.command(Box::new(|_| Box::pin(async { true })));
        command().unwrap();
        overloaded(command());
        queue.close();
        let refused = queue.push(pending("b").0);
        assert!(matches!(refused, Err(StoreError::Unavailable { .. })));
        let work = queue.take().await.unwrap();
        assert!(work.command.is_some() && work.writes.len() == 1);
        assert!(queue.take().await.is_none());
    }
}
