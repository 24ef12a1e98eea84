//! Lets the last operator go from a node that is drained, when no node takes another one.
//!
//! The budget of the installation has nodes drained of operators one after the other. Where there is no
//! other node, or none with room, the operator that goes first has no successor, and the budget would
//! hold the drain up for ever. The scheduler says so of the pod that it cannot place. The operator that
//! leads then widens the budget, until every operator has a place again.

use std::collections::BTreeMap;
use std::time::Duration;

use crds::names::FIELD_MANAGER;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::{Patch, PatchParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tracing::{info, warn};

use crate::names::{OPERATOR, operator_selector};

/// Operators that may be away at the same time.
pub const ONE: i32 = 1;
/// The same, while one of them has no place anywhere.
const ALL: &str = "100%";
/// Pause before another look at a budget that could not be written, or that somebody may narrow again.
const RETRY: Duration = Duration::from_secs(5);
/// Condition of a pod and its reason, by which the scheduler says that no node takes it.
const UNPLACED: (&str, &str) = ("PodScheduled", "Unschedulable");

/// Follows the pods of the operators for ever, and keeps their budget.
pub async fn follow(client: Client, namespace: &str) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let config = watcher::Config::default().labels(&selector());
    let events = watcher::watcher(pods, config).default_backoff();
    let mut events = std::pin::pin!(events);
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(client, namespace);
    let mut operators = Operators::default();
    loop {
        let again = match operators.have_room() {
            Some(room) => !keep(&budgets, room).await || !room,
            None => false,
        };
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) => operators.note(event),
                Some(Err(error)) => warn!(%error, "watching the pods of the operators"),
                None => return,
            },
            () = tokio::time::sleep(RETRY), if again => {}
        }
    }
}

fn selector() -> String {
    let labels = operator_selector();
    let terms: Vec<String> = labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    terms.join(",")
}

/// The pods of the operators.
#[derive(Debug, Default)]
struct Operators {
    /// Names of the pods; true for those that have a node, or may get one.
    placed: BTreeMap<String, bool>,
    /// True when every pod has been seen.
    complete: bool,
}

impl Operators {
    fn note(&mut self, event: Event<Pod>) {
        match event {
            Event::Init => *self = Self::default(),
            Event::InitDone => self.complete = true,
            Event::InitApply(pod) | Event::Apply(pod) => {
                self.placed.insert(pod.name_any(), has_place(&pod));
            }
            Event::Delete(pod) => {
                self.placed.remove(&pod.name_any());
            }
        }
    }

    /// Returns whether every operator has a place; none while not all pods are known.
    fn have_room(&self) -> Option<bool> {
        self.complete
            .then(|| self.placed.values().all(|placed| *placed))
    }
}

/// Returns true unless the scheduler has said that no node takes the pod.
fn has_place(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let unplaced = conditions.into_iter().flatten().any(|condition| {
        condition.type_ == UNPLACED.0
            && condition.status == "False"
            && condition.reason.as_deref() == Some(UNPLACED.1)
    });
    pod.metadata.deletion_timestamp.is_some() || !unplaced
}

/// Changes the budget where it has to; returns false if it could not be read or written.
async fn keep(budgets: &Api<PodDisruptionBudget>, room: bool) -> bool {
    match change(budgets, room).await {
        Ok(false) => true,
        Ok(true) if room => {
            info!("every operator has a place: nodes are drained of one after the other again");
            true
        }
        Ok(true) => {
            info!("no node takes another operator: the budget lets the last one go");
            true
        }
        Err(error) => {
            warn!(%error, "the budget of the operators cannot be kept; trying again");
            false
        }
    }
}

/// Changes the budget where it has to; returns true if it did.
async fn change(budgets: &Api<PodDisruptionBudget>, room: bool) -> Result<bool, kube::Error> {
    let found = budgets.get_opt(OPERATOR).await?;
    let Some(number) = found.as_ref().and_then(|budget| wanted(budget, room)) else {
        return Ok(false);
    };
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(json!({"spec": {"maxUnavailable": number}}));
    budgets.patch(OPERATOR, &params, &patch).await?;
    Ok(true)
}

/// Returns the number that the budget has to get; none where it stays as it is. One that says how many
/// must stay is somebody else's.
fn wanted(budget: &PodDisruptionBudget, room: bool) -> Option<IntOrString> {
    let present = budget.spec.as_ref()?.max_unavailable.as_ref()?;
    let all = IntOrString::String(ALL.to_owned());
    match (room, *present == all) {
        (false, false) => Some(all),
        (true, true) => Some(IntOrString::Int(ONE)),
        (false, true) | (true, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::Value;

    use super::*;
    use crate::testing::pair;

    /// Returns a pod with a condition.
    fn pod(name: &str, condition: &Value) -> Pod {
        let object = json!({
            "metadata": {"name": name},
            "status": {"conditions": [{"type": "Ready", "status": "False"}, condition]},
        });
        serde_json::from_value(object).unwrap()
    }

    fn placed() -> Value {
        json!({"type": "PodScheduled", "status": "True"})
    }

    fn unplaced() -> Value {
        json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"})
    }

    #[rstest]
    #[case::placed(placed(), true)]
    #[case::unplaced(unplaced(), false)]
    #[case::gated(json!({"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}), true)]
    fn the_scheduler_says_who_has_no_place(#[case] condition: Value, #[case] expected: bool) {
        assert_eq!(has_place(&pod("a", &condition)), expected);
    }

    #[test]
    fn a_pod_that_goes_or_is_new_asks_for_no_place() {
        assert!(has_place(&Pod::default()));
        let mut going = pod("a", &unplaced());
        going.metadata.deletion_timestamp =
            serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        assert!(has_place(&going));
    }

    #[test]
    fn one_without_a_place_is_enough_until_it_is_gone() {
        let mut operators = Operators::default();
        operators.note(Event::Init);
        operators.note(Event::InitApply(pod("a", &placed())));
        assert_eq!(operators.have_room(), None);
        operators.note(Event::InitDone);
        assert_eq!(operators.have_room(), Some(true));
        operators.note(Event::Apply(pod("b", &unplaced())));
        assert_eq!(operators.have_room(), Some(false));
        operators.note(Event::Delete(pod("b", &unplaced())));
        assert_eq!(operators.have_room(), Some(true));
    }

    fn budget(spec: &Value) -> Value {
        json!({
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": OPERATOR, "namespace": "system"},
            "spec": spec,
        })
    }

    /// The spec of a budget, whether there is room, and the number that is written.
    #[rstest]
    #[case::widened(json!({"maxUnavailable": 1}), false, Some(json!("100%")))]
    #[case::narrowed(json!({"maxUnavailable": "100%"}), true, Some(json!(1)))]
    #[case::wide_enough(json!({"maxUnavailable": "100%"}), false, None)]
    #[case::as_installed(json!({"maxUnavailable": 1}), true, None)]
    #[case::of_a_user(json!({"maxUnavailable": 2}), true, None)]
    #[case::of_another_kind(json!({"minAvailable": 1}), false, None)]
    #[tokio::test]
    async fn a_budget_is_changed_where_it_has_to(
        #[case] spec: Value,
        #[case] room: bool,
        #[case] expected: Option<Value>,
    ) {
        let (client, mut cluster) = pair();
        let object = budget(&spec);
        let answers = tokio::spawn(async move {
            let read = cluster.next().await;
            assert_eq!(read.method, "GET");
            read.answer(200, &object);
            let write = cluster.next_if_any().await?;
            assert_eq!(write.method, "PATCH");
            let number = write.body["spec"]["maxUnavailable"].clone();
            write.answer(200, &object);
            Some(number)
        });
        let budgets: Api<PodDisruptionBudget> = Api::namespaced(client, "system");
        let changed = change(&budgets, room).await.unwrap();
        // Without its client, the cluster waits for no further request.
        drop(budgets);
        assert_eq!(answers.await.unwrap(), expected);
        assert_eq!(changed, expected.is_some());
    }

    #[tokio::test]
    async fn an_installation_without_a_budget_has_nothing_to_keep() {
        let (client, mut cluster) = pair();
        let answered = tokio::spawn(async move { cluster.next().await.refuse(404, "NotFound") });
        let budgets: Api<PodDisruptionBudget> = Api::namespaced(client, "system");
        assert!(keep(&budgets, false).await);
        answered.await.unwrap();
    }
}
