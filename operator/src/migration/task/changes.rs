//! Owners of which something has changed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// The set of owners with news; bounded by the number of owners.
#[derive(Clone, Default)]
pub(in crate::migration) struct Changes(Arc<ChangesInner>);

#[derive(Default)]
struct ChangesInner {
    dirty: Mutex<BTreeSet<String>>,
    notify: Notify,
}

impl Changes {
    pub(in crate::migration) fn push(&self, owner: &str) {
        let mut dirty = self.0.dirty.lock().unwrap_or_else(PoisonError::into_inner);
        if dirty.insert(owner.to_owned()) {
            self.0.notify.notify_one();
        }
    }

    pub(in crate::migration) async fn next(&self) -> String {
        loop {
            let notified = self.0.notify.notified();
            let first = self
                .0
                .dirty
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop_first();
            if let Some(owner) = first {
                return owner;
            }
            notified.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Changes;

    #[tokio::test]
    async fn changes_are_merged_and_none_is_lost() {
        let changes = Changes::default();
        changes.push("a");
        changes.push("b");
        changes.push("a");
        assert_eq!(changes.next().await, "a");
        assert_eq!(changes.next().await, "b");
        let waiting = changes.clone();
        let task = tokio::spawn(async move { waiting.next().await });
        changes.push("c");
        assert_eq!(task.await.unwrap(), "c");
    }
}
