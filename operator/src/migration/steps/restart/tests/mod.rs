//! The effects of lost watches, each of which happens once, whenever the operator dies.

mod fake;

use crds::v1alpha1::spec::WorkloadKind;
use rstest::rstest;

use self::fake::{GROUP, Shared, client, fake};
use super::*;
use crate::apiservice::Holder;
use crate::migration::context::fixtures::context;
use crate::migration::observe::notes;
use crate::migration::plan::tests as states;
use crate::migration::steps::switch::TAKEN_AWAY;

/// Returns a process of the operator; `restart` has the workloads that the user names.
fn process(fake: &Shared, restart: &[&str]) -> Cx {
    let mut cx = context(&client(fake));
    cx.target.settings.restart = restart.iter().copied().map(workload).collect();
    cx
}

fn workload(name: &str) -> Workload {
    Workload {
        kind: WorkloadKind::Deployment,
        namespace: "kyverno".to_owned(),
        name: name.to_owned(),
    }
}

fn observed(holder: Holder, gate: GateState) -> Observed {
    let crd = states::crd("policyreports");
    Observed {
        resources: vec![states::resource("policyreports", gate, true, Some(crd))],
        versions: vec![states::version(holder)],
        control_available: true,
        ..Observed::default()
    }
}

fn served() -> Observed {
    observed(Holder::Ours, GateState::Open)
}

/// Waits for an event with this reason; returns its note.
async fn event(fake: &Shared, reason: &str) -> String {
    for _ in 0..200 {
        let found = fake
            .lock()
            .unwrap()
            .events
            .iter()
            .find(|e| e.0 == reason)
            .cloned();
        if let Some((_, note)) = found {
            return note;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("no event {reason} in {:?}", fake.lock().unwrap().events)
}

fn lost_at_switch(side: Side) -> Lost {
    Lost {
        at: Timestamp::now(),
        side,
        why: "why".to_owned(),
        restart_at: None,
    }
}

#[rstest]
#[case::in_the_hold(Side::Server, None, ApiOwner::Server, Decision::Wait)]
#[case::switched(Side::Server, Some(Side::Server), ApiOwner::Server, Decision::Act)]
#[case::given_up_in_the_hold(Side::Server, Some(Side::Crd), ApiOwner::Server, Decision::Act)]
#[case::gone_back_since(Side::Server, Some(Side::Crd), ApiOwner::Crd, Decision::Act)]
#[case::given_back(Side::Crd, Some(Side::Crd), ApiOwner::Crd, Decision::Act)]
#[case::tried_again(Side::Crd, Some(Side::Server), ApiOwner::Crd, Decision::Wait)]
#[case::called_off(Side::Crd, Some(Side::Server), ApiOwner::Server, Decision::Forget)]
fn what_is_done_depends_on_where_clients_are(
    #[case] side: Side,
    #[case] at: Option<Side>,
    #[case] owner: ApiOwner,
    #[case] decision: Decision,
) {
    assert_eq!(decide(&lost_at_switch(side), at, owner), decision);
}

#[test]
fn a_group_rests_where_all_of_it_is_served() {
    assert_eq!(rests_at(&served()), Some(Side::Server));
    let crd = observed(Holder::Crd, GateState::Closed);
    assert_eq!(rests_at(&crd), Some(Side::Crd));
    for (holder, gate) in [
        (Holder::Ours, GateState::Held),
        (Holder::Ours, GateState::Closed),
        (Holder::Crd, GateState::Held),
        (Holder::Crd, GateState::Open),
    ] {
        assert_eq!(rests_at(&observed(holder, gate)), None);
    }
    let mut unknown = served();
    unknown.control_available = false;
    assert_eq!(rests_at(&unknown), None);
}

#[tokio::test]
async fn workloads_are_restarted_once_the_group_rests_and_not_again() {
    let fake = fake(&["a", "b", "not named"]);
    let cx = process(&fake, &["a", "b"]);
    let held = observed(Holder::Ours, GateState::Held);
    run(&cx, &held).await;
    lost(&cx, Side::Server, "the switch was interrupted").await;
    assert!(fake.lock().unwrap().note().is_some());
    run(&cx, &held).await;
    assert_eq!(fake.lock().unwrap().restarts(), [0, 0, 0]);
    run(&cx, &served()).await;
    run(&cx, &served()).await;
    assert_eq!(fake.lock().unwrap().restarts(), [1, 1, 0]);
    assert_eq!(fake.lock().unwrap().note(), None);
    let note = event(&fake, reasons::RESTARTED).await;
    let words = [
        "Deployment kyverno/a, Deployment kyverno/b",
        "the switch was interrupted",
    ];
    assert!(words.iter().all(|word| note.contains(word)), "{note}");
    let status = cx.report.status().restarts;
    assert_eq!(status.len(), 2);
    assert_eq!(status[0].result, RestartResult::Restarted);
    assert_eq!(cx.journal.read(|report| report.restarts.clone()), status);
    // Another process has nothing to do.
    run(&process(&fake, &["a", "b"]), &served()).await;
    assert_eq!(fake.lock().unwrap().restarts(), [1, 1, 0]);
    // The next time is another time.
    lost(&cx, Side::Server, "again").await;
    run(&cx, &served()).await;
    assert_eq!(fake.lock().unwrap().restarts(), [2, 2, 0]);
}

#[tokio::test(start_paused = true)]
async fn an_operator_that_dies_at_any_request_is_succeeded_and_nothing_is_restarted_twice() {
    for answered in 0..20 {
        let fake = fake(&["a", "b"]);
        let first = process(&fake, &["a", "b"]);
        lost(&first, Side::Server, "why").await;
        fake.lock().unwrap().left = Some(answered);
        let death = Duration::from_millis(500);
        let died = tokio::time::timeout(death, run(&first, &served())).await;
        drop(first);
        fake.lock().unwrap().left = None;
        let second = process(&fake, &["a", "b"]);
        run(&second, &served()).await;
        let fake = fake.lock().unwrap();
        assert_eq!(fake.restarts(), [1, 1], "after {answered} requests");
        assert_eq!(fake.note(), None, "after {answered} requests");
        if died.is_ok() {
            assert!(answered > 5, "{answered}");
            return;
        }
    }
    panic!("it never came to its end");
}

#[tokio::test]
async fn a_workload_that_is_missing_is_told_and_the_rest_goes_on() {
    let fake = fake(&["a"]);
    let cx = process(&fake, &["a", "gone"]);
    lost(&cx, Side::Server, "why").await;
    run(&cx, &served()).await;
    assert_eq!(fake.lock().unwrap().restarts(), [1]);
    assert_eq!(fake.lock().unwrap().note(), None);
    let note = event(&fake, reasons::RESTART_FAILED).await;
    assert!(note.contains("Deployment kyverno/gone"), "{note}");
    let results: Vec<_> = cx
        .report
        .status()
        .restarts
        .iter()
        .map(|r| r.result)
        .collect();
    assert_eq!(results, [RestartResult::Restarted, RestartResult::NotFound]);
}

#[tokio::test(start_paused = true)]
async fn what_is_forbidden_is_told_once_and_tried_again() {
    let fake = fake(&["a"]);
    fake.lock().unwrap().forbidden = true;
    let cx = process(&fake, &["a"]);
    lost(&cx, Side::Server, "why").await;
    run(&cx, &served()).await;
    run(&cx, &served()).await;
    assert!(fake.lock().unwrap().note().is_some());
    assert_eq!(cx.report.status().restarts[0].result, RestartResult::Failed);
    let note = event(&fake, reasons::RESTART_FAILED).await;
    assert!(note.contains("403"), "{note}");
    fake.lock().unwrap().forbidden = false;
    run(&cx, &served()).await;
    assert_eq!(fake.lock().unwrap().restarts(), [0], "not at once");
    tokio::time::sleep(PAUSE).await;
    run(&cx, &served()).await;
    assert_eq!(fake.lock().unwrap().restarts(), [1]);
    assert_eq!(fake.lock().unwrap().note(), None);
    assert_eq!(
        cx.report.status().restarts[0].result,
        RestartResult::Restarted
    );
}

#[tokio::test]
async fn without_anything_to_restart_people_are_told_once() {
    let fake = fake(&["a"]);
    let cx = process(&fake, &[]);
    lost(&cx, Side::Server, "the switch was interrupted").await;
    run(&cx, &served()).await;
    let note = event(&fake, reasons::WATCHES_LOST).await;
    for word in ["410", "docs/kyverno.md", "the switch was interrupted"] {
        assert!(note.contains(word), "{note}");
    }
    run(&cx, &served()).await;
    assert_eq!(fake.lock().unwrap().note(), None);
    assert_eq!(fake.lock().unwrap().events.len(), 1);
    assert_eq!(fake.lock().unwrap().restarts(), [0]);
}

#[tokio::test]
async fn a_switch_that_was_given_up_in_the_hold_is_told_once_the_crds_serve_again() {
    let fake = fake(&["a"]);
    let cx = process(&fake, &[]);
    lost(&cx, Side::Server, TAKEN_AWAY).await;
    for holder in [Holder::Ours, Holder::Crd] {
        run(&cx, &observed(holder, GateState::Held)).await;
        assert!(fake.lock().unwrap().note().is_some());
    }
    run(&cx, &observed(Holder::Crd, GateState::Closed)).await;
    let note = event(&fake, reasons::WATCHES_LOST).await;
    for words in ["410", TAKEN_AWAY] {
        assert!(note.contains(words), "{note}");
    }
    // The switch that comes to its end after that has lost none.
    run(&cx, &served()).await;
    assert_eq!(fake.lock().unwrap().note(), None);
    assert_eq!(fake.lock().unwrap().events.len(), 1);
}

#[tokio::test]
async fn a_way_back_that_was_called_off_has_lost_nothing() {
    let fake = fake(&["a"]);
    let cx = process(&fake, &["a"]);
    lost(&cx, Side::Crd, "cut").await;
    run(&cx, &served()).await;
    assert_eq!(fake.lock().unwrap().note(), None);
    assert_eq!(fake.lock().unwrap().restarts(), [0]);
}

#[test]
fn reasons_are_put_together_and_the_last_time_counts() {
    let first = Lost {
        restart_at: Some(Timestamp::now()),
        ..lost_at_switch(Side::Server)
    };
    let again = lost_at_switch(Side::Server);
    assert_eq!(again.clone().after(Some(first.clone())), again);
    let other = Lost {
        why: "other".to_owned(),
        ..lost_at_switch(Side::Server)
    };
    let both = other.clone().after(Some(first));
    assert_eq!((both.at, both.restart_at), (other.at, None));
    assert_eq!(both.why, "why; other");
}

#[test]
fn the_key_is_one_that_the_notes_take() {
    assert_eq!(key(GROUP), "watches-lost.wgpolicyk8s.io");
    assert_ne!(key(GROUP), notes::reverted(GROUP));
}
