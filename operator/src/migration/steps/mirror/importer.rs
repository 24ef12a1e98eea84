//! The importer, which takes objects and events from the list and the watch and sends them to the
//! server, in batches and in order. What waits is bounded in bytes, whatever the size of a report.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, mpsc, watch};

use super::batch::{Batcher, Entry, MAX_BATCH_BYTES};
use super::{MirrorError, Progress};
use crate::migration::cluster::control::{Control, retry};
use crate::migration::cluster::pages::Pacer;
use crate::migration::report::metrics::Metrics;

/// Bytes of JSON that may wait between readers and importer, for each resource that is copied at the
/// time.
const BUDGET: usize = MAX_BATCH_BYTES / 2;
/// Entries that may wait, so that many tiny ones are bounded as well.
const QUEUE: usize = 2048;
/// The time for which a batch is tried while the server cannot be reached.
const PATIENCE: Duration = Duration::from_mins(10);

struct Queued {
    what: What,
    size: usize,
    permit: Option<OwnedSemaphorePermit>,
}

enum What {
    Entry(Entry),
    /// The end of the list: all of it has been sent, and its objects' sizes sum up to this.
    ListEnd {
        objects: u64,
        bytes: u64,
    },
}

/// The sending end of the queue.
#[derive(Clone)]
pub struct Sender {
    queue: mpsc::Sender<Queued>,
    budget: Arc<Semaphore>,
}

impl Sender {
    /// Queues an entry once there is room; false when the importer has ended.
    pub async fn send(&self, entry: Entry) -> bool {
        let size = entry.size();
        let Ok(permit) = self.room(size).await else {
            return false;
        };
        self.queue_up(entry, size, Some(permit)).await
    }

    /// Queues an entry as [`Sender::send`] does, and without room once the mirror is sealed: a
    /// kube-apiserver drops the last events of a watch that is not read at once.
    pub async fn send_in_time(&self, entry: Entry, sealed: &mut watch::Receiver<bool>) -> bool {
        let size = entry.size();
        let permit = tokio::select! {
            biased;
            permit = self.room(size) => match permit {
                Ok(permit) => Some(permit),
                Err(_) => return false,
            },
            _ = sealed.wait_for(|sealed| *sealed) => None,
        };
        self.queue_up(entry, size, permit).await
    }

    async fn room(&self, size: usize) -> Result<OwnedSemaphorePermit, AcquireError> {
        let cost = u32::try_from(size.clamp(1, BUDGET)).unwrap_or(u32::MAX);
        Arc::clone(&self.budget).acquire_many_owned(cost).await
    }

    async fn queue_up(
        &self,
        entry: Entry,
        size: usize,
        permit: Option<OwnedSemaphorePermit>,
    ) -> bool {
        let queued = Queued {
            what: What::Entry(entry),
            size,
            permit,
        };
        self.queue.send(queued).await.is_ok()
    }

    /// Marks the end of the list.
    pub async fn list_end(&self, objects: u64, bytes: u64) -> bool {
        let what = What::ListEnd { objects, bytes };
        self.queue
            .send(Queued {
                what,
                size: 0,
                permit: None,
            })
            .await
            .is_ok()
    }
}

/// The receiving end of the queue.
pub struct Receiver(mpsc::Receiver<Queued>);

/// Returns a queue between readers and importer.
#[must_use]
pub fn queue() -> (Sender, Receiver) {
    let (queue, receiver) = mpsc::channel(QUEUE);
    let budget = Arc::new(Semaphore::new(BUDGET));
    (Sender { queue, budget }, Receiver(receiver))
}

/// The sender of batches to the server.
pub struct Importer {
    /// The control API.
    pub control: Control,
    /// Name of the stored resource.
    pub stored: String,
    /// API group and plural, for metrics.
    pub labels: (String, String),
    /// Entries in a batch.
    pub page_size: u32,
    /// Pace of requests.
    pub pacer: Arc<Pacer>,
    /// The metrics that count what was sent.
    pub metrics: Arc<Metrics>,
}

impl Importer {
    /// Sends everything that comes until all senders are gone.
    ///
    /// # Errors
    /// [`MirrorError::Wire`] when the server refuses a batch or stays away for ten minutes.
    pub async fn run(
        &self,
        mut receiver: Receiver,
        progress: &watch::Sender<Progress>,
    ) -> Result<(), MirrorError> {
        let mut next = receiver.0.recv().await;
        while let Some(first) = next.take() {
            let mut batcher = Batcher::new(self.page_size);
            let mut permits = Vec::new();
            let mut list_end = None;
            let mut queued = Some(first);
            while let Some(one) = queued.take() {
                if !batcher.fits(one.size) {
                    next = Some(one);
                    break;
                }
                permits.extend(one.permit);
                match one.what {
                    What::Entry(entry) => batcher.push(entry, one.size),
                    What::ListEnd { objects, bytes } => list_end = Some((objects, bytes)),
                }
                queued = receiver.0.try_recv().ok();
            }
            self.flush(&mut batcher, progress).await?;
            if let Some((objects, bytes)) = list_end {
                progress.send_modify(|p| {
                    p.total = Some(objects);
                    p.bytes = bytes;
                    p.listed = true;
                });
            }
            drop(permits);
            if next.is_none() {
                next = receiver.0.recv().await;
            }
        }
        Ok(())
    }

    async fn flush(
        &self,
        batcher: &mut Batcher,
        progress: &watch::Sender<Progress>,
    ) -> Result<(), MirrorError> {
        let Some((batch, position)) = batcher.take() else {
            return Ok(());
        };
        // The copy is paced; single events are not, or the server would fall behind etcd.
        if !progress.borrow().listed {
            self.pacer.turn().await;
        }
        let sent = batch.items.len() as u64;
        retry(PATIENCE, || self.control.import(&self.stored, &batch)).await?;
        self.metrics.copied(&self.labels.0, &self.labels.1, sent);
        progress.send_modify(|p| {
            p.copied += sent;
            p.position = position.unwrap_or_default().max(p.position);
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crds::control::ImportType;
    use serde_json::json;

    use super::*;

    fn large() -> Entry {
        Entry::event(ImportType::Modified, &json!({"x": "y".repeat(BUDGET)}))
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_told_once_the_mirror_is_sealed_needs_no_room() {
        let (sender, _receiver) = queue();
        let (seal, mut sealed) = watch::channel(false);
        assert!(sender.send_in_time(large(), &mut sealed).await);
        let second = sender.send_in_time(large(), &mut sealed);
        tokio::pin!(second);
        let waits = tokio::time::timeout(Duration::from_secs(1), &mut second).await;
        assert!(waits.is_err(), "there is no room");
        seal.send_replace(true);
        assert!(second.await);
    }
}
