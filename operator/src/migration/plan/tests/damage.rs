//! States that others have caused: taken away, led away, lost.

use super::*;

#[test]
fn a_database_that_was_lost_is_filled_again_from_etcd_unless_that_was_pruned() {
    let mut o = observed(Holder::Ours, GateState::Closed, false);
    assert_eq!(action(&o, &target()), Action::Switch(SwitchFrom::Confirm));
    o.notes.pruned_at = Some(o.now);
    let found = problem(&o, &target());
    assert_eq!(
        (found.reason, found.stalled),
        (reasons::DATABASE_LOST, true)
    );
    // A way back that was given up has made some of the copies again.
    o.notes.pruned_at = None;
    o.notes.was_pruned = true;
    assert_eq!(problem(&o, &target()).reason, reasons::DATABASE_LOST);
}

#[test]
fn an_apiservice_that_was_taken_away_is_taken_back_and_etcd_looked_through() {
    let o = observed(Holder::Crd, GateState::Open, true);
    assert_eq!(action(&o, &target()), Action::Retake);
}

#[test]
fn what_was_led_away_by_hand_is_taken_back_or_told_with_what_to_do() {
    let claimed = |holder: Holder| {
        let mut o = observed(holder, GateState::Open, true);
        let object = json!({"metadata": {"annotations": {"reports-server.io/claimed-by": "a"}}});
        o.versions[0].api_service = Some(serde_json::from_value(object).unwrap());
        o
    };
    // Its Service was taken out: etcd may have been written to.
    let local = claimed(Holder::Unmanaged);
    assert_eq!(action(&local, &target()), Action::Retake);
    let away = problem(&claimed(Holder::Foreign("x/y".into())), &target());
    assert_eq!(away.reason, reasons::FOREIGN_API_SERVICE);
    assert!(
        away.message.contains("led away from the server"),
        "{}",
        away.message
    );
    assert!(!away.message.contains("from.server"), "{}", away.message);
    // Back at the server that the group was taken over from.
    let mut back = claimed(Holder::Foreign("x/y".into()));
    let object = json!({"metadata": {"annotations": {"reports-server.io/claimed-by": "a",
        "reports-server.io/taken-from": "x/y"}}});
    back.versions[0].api_service = Some(serde_json::from_value(object).unwrap());
    assert!(problem(&back, &target()).message.contains("from.server"));
    // What nobody of us had is left alone.
    let local = observed(Holder::Unmanaged, GateState::Open, true);
    assert_eq!(
        problem(&local, &target()).reason,
        reasons::FOREIGN_API_SERVICE
    );
}

#[test]
fn a_version_that_the_crd_has_gained_is_taken_over_with_what_etcd_got_through_it() {
    let mut back = target();
    back.owner = ApiOwner::Crd;
    for (holder, expected) in [
        (Holder::Crd, None),
        (
            Holder::Foreign("a/b".into()),
            Some(reasons::FOREIGN_API_SERVICE),
        ),
    ] {
        let mut o = served(99);
        o.versions.push(Version {
            name: "v1beta1".into(),
            ..version(holder)
        });
        for wanted in [&target(), &back] {
            match expected {
                None => assert_eq!(action(&o, wanted), Action::Retake),
                Some(reason) => assert_eq!(problem(&o, wanted).reason, reason),
            }
        }
    }
}

#[test]
fn copies_of_a_crd_that_is_gone_are_not_served() {
    let names = |o: &Observed| -> Vec<String> {
        let leftovers = o.leftovers().map(Resource::name);
        leftovers.map(str::to_owned).collect()
    };
    let mut o = observed(Holder::Crd, GateState::Closed, false);
    assert!(names(&o).is_empty());
    o.resources[1].crd = None;
    assert_eq!(names(&o), ["policyreports.wgpolicyk8s.io"]);
    o.resources[1].stored.status.objects = 0;
    assert!(names(&o).is_empty());
    // What was switched is not a copy any more.
    let mut o = observed(Holder::Ours, GateState::Held, false);
    o.resources[1].crd = None;
    assert!(names(&o).is_empty());
}

#[test]
fn a_clock_that_was_set_back_does_not_stretch_what_follows_the_switch() {
    let ahead = served(-3600);
    assert_eq!(action(&ahead, &target()), Action::Refresh);
    assert_eq!(
        suspended(&ahead, ApiOwner::Server),
        Decision::Run(Action::Refresh)
    );
    // Clocks of two nodes.
    assert_eq!(action(&served(-30), &target()), Action::Soak);
}
