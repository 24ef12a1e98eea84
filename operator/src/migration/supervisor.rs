//! Holds one long-lived task per (`ReportsServer`, API group).
//!
//! A task outlives reconciles because the mirror's watch has to: it is opened on the old handler
//! and goes on through the switch. The controller tells what is wanted ([`Supervisor::ensure`]),
//! reads what is ([`Supervisor::status`]) and is woken by [`Supervisor::changes`].

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::Stream;
use kube::runtime::events::Reporter;
use tokio::sync::{Notify, watch};
use tokio_util::task::AbortOnDropHandle;

use super::{
    actor, attention,
    metrics::Metrics,
    status::GroupStatus,
    stillness::Stillness,
    target::{GroupTarget, Owner},
};

/// What every task needs.
#[derive(Clone)]
pub struct Deps {
    /// Client of the cluster.
    pub client: kube::Client,
    /// What `client` was made from; the kube-apiservers are reached one by one with it.
    pub config: kube::Config,
    /// Who publishes events about the `ReportsServer`.
    pub reporter: Reporter,
    /// Step metrics; see [`Metrics::register`].
    pub metrics: Arc<Metrics>,
    /// Keeps groups from getting in each other's way.
    pub stillness: Stillness,
    /// The operator's own namespace: its `ConfigMap` of notes lives there.
    pub namespace: String,
    /// Where hosts of databases are, for an operator outside of the cluster; see
    /// [`database::ConnectOptions::resolve`].
    pub resolve: BTreeMap<String, SocketAddr>,
}

/// One per operator process.
#[derive(Clone)]
pub struct Supervisor {
    deps: Deps,
    changes: Changes,
    tasks: Tasks,
    /// Follows the APIServices, once there is a task.
    attention: Arc<Mutex<Option<AbortOnDropHandle<()>>>>,
}

/// By owner and group.
type Tasks = Arc<Mutex<BTreeMap<(String, String), Task>>>;

struct Task {
    target: watch::Sender<GroupTarget>,
    status: watch::Receiver<GroupStatus>,
    handle: AbortOnDropHandle<()>,
    /// Makes the task look again.
    wake: Arc<Notify>,
}

impl Supervisor {
    /// A supervisor without tasks.
    #[must_use]
    pub fn new(deps: Deps) -> Self {
        Self {
            deps,
            changes: Changes::default(),
            tasks: Arc::default(),
            attention: Arc::default(),
        }
    }

    /// Starts, updates and stops tasks so that `owner` has exactly one for each target. Cheap and
    /// idempotent; call it in every reconcile. Must be called within a tokio runtime.
    pub fn ensure(&self, owner: &Owner, targets: Vec<GroupTarget>) {
        self.pay_attention();
        let mut tasks = self.lock();
        let wanted: BTreeSet<String> = targets.iter().map(|t| t.group.clone()).collect();
        tasks.retain(|(name, group), _| *name != owner.name || wanted.contains(group));
        for target in targets {
            let key = (owner.name.clone(), target.group.clone());
            let running = tasks.get(&key).filter(|task| !task.handle.is_finished());
            if let Some(task) = running {
                task.target.send_if_modified(|old| {
                    let changed = *old != target;
                    *old = target;
                    changed
                });
            } else {
                let task = self.start(owner, target);
                tasks.insert(key, task);
            }
        }
    }

    /// Stops every task of an owner, which is gone.
    pub fn forget(&self, owner_name: &str) {
        self.lock().retain(|(name, _), _| name != owner_name);
    }

    /// Where the groups of an owner stand, sorted by group.
    #[must_use]
    pub fn status(&self, owner_name: &str) -> Vec<GroupStatus> {
        self.lock()
            .iter()
            .filter(|((name, _), _)| name == owner_name)
            .map(|(_, task)| task.status.borrow().clone())
            .collect()
    }

    /// Names of owners whose status has changed since they were last yielded; for
    /// `Controller::reconcile_on`. Changes of the same owner are merged. Meant for one consumer.
    pub fn changes(&self) -> impl Stream<Item = String> + Send + 'static {
        let changes = self.changes.clone();
        futures::stream::unfold(changes, |changes| async move {
            let owner = changes.next().await;
            Some((owner, changes))
        })
    }

    /// Wakes tasks whose APIServices change hands.
    fn pay_attention(&self) {
        let mut attention = self
            .attention
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if attention.is_some() {
            return;
        }
        let tasks = Arc::downgrade(&self.tasks);
        let notify = move |group: &str| {
            let Some(tasks) = tasks.upgrade() else { return };
            let tasks = tasks.lock().unwrap_or_else(PoisonError::into_inner);
            let of_group = tasks.iter().filter(|((_, of), _)| of == group);
            of_group.for_each(|(_, task)| task.wake.notify_one());
        };
        let follow = attention::follow(self.deps.client.clone(), notify);
        *attention = Some(AbortOnDropHandle::new(tokio::spawn(follow)));
    }

    fn start(&self, owner: &Owner, target: GroupTarget) -> Task {
        let (status_tx, status) = watch::channel(GroupStatus {
            group: target.group.clone(),
            ..GroupStatus::default()
        });
        let (target, target_rx) = watch::channel(target);
        let report = actor::Report::new(status_tx, self.changes.clone(), owner.clone());
        let wake = Arc::<Notify>::default();
        let handle = tokio::spawn(actor::run(
            self.deps.clone(),
            owner.clone(),
            target_rx,
            report,
            Arc::clone(&wake),
        ));
        Task {
            target,
            status,
            handle: AbortOnDropHandle::new(handle),
            wake,
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, String), Task>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The set of owners with news; bounded by the number of owners.
#[derive(Clone, Default)]
pub(super) struct Changes(Arc<ChangesInner>);

#[derive(Default)]
struct ChangesInner {
    dirty: Mutex<BTreeSet<String>>,
    notify: Notify,
}

impl Changes {
    pub(super) fn push(&self, owner: &str) {
        let mut dirty = self.0.dirty.lock().unwrap_or_else(PoisonError::into_inner);
        if dirty.insert(owner.to_owned()) {
            self.0.notify.notify_one();
        }
    }

    async fn next(&self) -> String {
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
