//! The supervisor, which holds one long-lived task per (`ReportsServer`, API group).
//!
//! A task outlives reconciles because the mirror's watch has to: it is opened on the old handler
//! and goes on through the switch. The controller sets the wanted state ([`Supervisor::ensure`]),
//! reads the present one ([`Supervisor::status`]) and is woken by [`Supervisor::changes`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::Stream;
use tokio::sync::{Notify, watch};
use tokio_util::task::AbortOnDropHandle;

use super::changes::Changes;
use super::{attention, group, keeper};
use crate::migration::context::deps::Deps;
use crate::migration::plan::target::{GroupTarget, Owner};
use crate::migration::report::publisher::StatusPublisher;
use crate::migration::report::status::GroupStatus;

/// The supervisor; one per operator process.
#[derive(Clone)]
pub struct Supervisor {
    deps: Deps,
    changes: Changes,
    tasks: Tasks,
    /// The task that follows the APIServices, once there is a task of a group.
    attention: Arc<Mutex<Option<AbortOnDropHandle<()>>>>,
}

/// Tasks by owner and group.
type Tasks = Arc<Mutex<BTreeMap<(String, String), Task>>>;

struct Task {
    /// uid of the owner. One that is made again is another, whose migration begins anew.
    owner: String,
    target: watch::Sender<GroupTarget>,
    status: watch::Receiver<GroupStatus>,
    handle: AbortOnDropHandle<()>,
    /// The signal that makes the task look again.
    wake: Arc<Notify>,
    /// The signal that makes the keeper look.
    changed: Arc<Notify>,
    /// The task that puts APIServices back which others have changed.
    _keeper: AbortOnDropHandle<()>,
}

impl Supervisor {
    /// Returns a supervisor without tasks.
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
        tasks.retain(|(name, group), task| {
            let stays = task.owner == owner.uid && wanted.contains(group);
            *name != owner.name || stays
        });
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

    /// Tells the tasks of an owner which authorities the server's certificate is verified with by now.
    /// An empty bundle changes nothing: nobody would trust the server by it.
    pub fn trust(&self, owner_name: &str, ca_bundle: &[u8]) {
        if ca_bundle.is_empty() {
            return;
        }
        let tasks = self.lock();
        for (_, task) in tasks.iter().filter(|((name, _), _)| name == owner_name) {
            task.target.send_if_modified(|target| {
                let changed = target.ca_bundle != ca_bundle;
                if changed {
                    target.ca_bundle = ca_bundle.to_vec();
                }
                changed
            });
        }
    }

    /// Stops every task of an owner, which is gone.
    pub fn forget(&self, owner_name: &str) {
        self.lock().retain(|(name, _), _| name != owner_name);
    }

    /// Returns the states of an owner's groups, sorted by group.
    #[must_use]
    pub fn status(&self, owner_name: &str) -> Vec<GroupStatus> {
        self.lock()
            .iter()
            .filter(|((name, _), _)| name == owner_name)
            .map(|(_, task)| task.status.borrow().clone())
            .collect()
    }

    /// Returns the names of owners whose status has changed since they were last yielded; for
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
            of_group.for_each(|(_, task)| {
                task.changed.notify_one();
                task.wake.notify_one();
            });
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
        let report = StatusPublisher::new(status_tx, self.changes.clone(), owner.clone());
        let (wake, changed) = (Arc::<Notify>::default(), Arc::<Notify>::default());
        let keeper = tokio::spawn(keeper::run(
            self.deps.clone(),
            owner.clone(),
            target_rx.clone(),
            Arc::clone(&changed),
        ));
        let handle = tokio::spawn(group::run(
            self.deps.clone(),
            owner.clone(),
            target_rx,
            report,
            Arc::clone(&wake),
        ));
        Task {
            owner: owner.uid.clone(),
            target,
            status,
            handle: AbortOnDropHandle::new(handle),
            wake,
            changed,
            _keeper: AbortOnDropHandle::new(keeper),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, String), Task>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migration::context::fixtures::context;
    use crate::migration::plan::tests as states;
    use crate::testing::pair;

    #[tokio::test]
    async fn an_owner_that_is_made_again_has_tasks_of_its_own() {
        let (client, _server) = pair();
        let supervisor = Supervisor::new(context(&client).deps);
        let owner = |uid: &str| Owner {
            name: "prod".to_owned(),
            uid: uid.to_owned(),
            api_version: "reports-server.io/v1alpha1".to_owned(),
            kind: "ReportsServer".to_owned(),
        };
        let ensure = |uid: &str| {
            supervisor.ensure(&owner(uid), vec![states::target()]);
            let tasks = supervisor.lock();
            assert_eq!(tasks.len(), 1);
            tasks.values().next().map(|task| Arc::clone(&task.wake))
        };
        let (first, same) = (ensure("a").unwrap(), ensure("a").unwrap());
        assert!(Arc::ptr_eq(&first, &same));
        let other = ensure("b").unwrap();
        assert!(!Arc::ptr_eq(&first, &other));
    }
}
