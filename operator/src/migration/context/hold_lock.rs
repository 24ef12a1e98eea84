//! The lock by which one group at a time holds its requests, and meanwhile no other group loads the
//! kube-apiserver.
//!
//! Requests that are held wait for the kube-apiserver: for its patches, for the drain of its
//! handler, for its revision. A list of ten thousand reports of another group beside that makes
//! them wait for seconds, and copying can wait better than clients can.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Mutex, OwnedMutexGuard, watch};

/// The lock, which all groups of the process share.
#[derive(Clone, Default)]
pub struct HoldLock {
    turn: Arc<Mutex<()>>,
    holder: Arc<watch::Sender<Option<String>>>,
    comparison: Arc<Mutex<()>>,
    returning: Arc<AtomicUsize>,
}

impl HoldLock {
    /// Notes that a group goes back, until the returned value is dropped. All groups have one
    /// counter: nobody else may raise it meanwhile. The caches of the CRDs have to begin above every
    /// version that clients hold, and a raise to etcd's revision of now would be above that.
    #[must_use]
    pub fn begin_return(&self) -> Return {
        self.returning.fetch_add(1, Ordering::SeqCst);
        Return(Arc::clone(&self.returning))
    }

    /// Returns whether a group goes back.
    #[must_use]
    pub fn is_returning(&self) -> bool {
        self.returning.load(Ordering::SeqCst) > 0
    }

    /// Waits until no other resource is compared, and returns the turn. A holder never waits for it:
    /// whoever has it may be waiting until nobody holds requests.
    pub async fn comparison(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.comparison).lock_owned().await
    }

    /// Waits until no other group holds requests, then asks the others to be still until the
    /// returned turn is dropped.
    pub async fn begin(&self, group: &str) -> HoldTurn {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        self.holder.send_replace(Some(group.to_owned()));
        HoldTurn {
            holder: Arc::clone(&self.holder),
            _turn: turn,
        }
    }

    /// Returns a receiver of the group that holds requests, or is about to.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Option<String>> {
        self.holder.subscribe()
    }

    /// Waits until `group` may list and copy: no other group holds requests.
    pub async fn wait_for_others(&self, group: &str) {
        let mut holder = self.holder.subscribe();
        let free = holder.wait_for(|holder| holder.as_deref().is_none_or(|held| held == group));
        // The sender lives as long as `self`.
        let _ = free.await;
    }
}

/// The way back of a group, see [`HoldLock::begin_return`].
pub struct Return(Arc<AtomicUsize>);

impl Drop for Return {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The turn of a group. While it lives, other groups are still.
pub struct HoldTurn {
    holder: Arc<watch::Sender<Option<String>>>,
    _turn: OwnedMutexGuard<()>,
}

impl Drop for HoldTurn {
    fn drop(&mut self) {
        // Before the turn is given on, so that the next holder's name is not wiped out.
        self.holder.send_replace(None);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn others_wait_and_the_holder_does_not() {
        let hold_lock = HoldLock::default();
        hold_lock.wait_for_others("b.io").await;
        let still = hold_lock.begin("a.io").await;
        hold_lock.wait_for_others("a.io").await;
        assert!(hold_lock.wait_for_others("b.io").now_or_never().is_none());
        drop(still);
        hold_lock.wait_for_others("b.io").await;
    }

    #[test]
    fn two_groups_may_go_back_at_once() {
        let hold_lock = HoldLock::default();
        assert!(!hold_lock.is_returning());
        let (first, second) = (hold_lock.begin_return(), hold_lock.begin_return());
        drop(first);
        assert!(hold_lock.is_returning());
        drop(second);
        assert!(!hold_lock.is_returning());
    }

    #[tokio::test]
    async fn one_group_holds_at_a_time() {
        let hold_lock = HoldLock::default();
        let first = hold_lock.begin("a.io").await;
        assert!(hold_lock.begin("b.io").now_or_never().is_none());
        drop(first);
        let _second = hold_lock.begin("b.io").await;
        assert!(hold_lock.wait_for_others("a.io").now_or_never().is_none());
    }
}
