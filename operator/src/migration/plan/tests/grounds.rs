//! Every state, at random: dangerous actions have their grounds.

use proptest::prelude::*;

use super::*;

fn gate() -> impl Strategy<Value = GateState> {
    prop_oneof![
        Just(GateState::Closed),
        Just(GateState::Held),
        Just(GateState::Open)
    ]
}

fn holder() -> impl Strategy<Value = Holder> {
    prop_oneof![
        Just(Holder::Absent),
        Just(Holder::Crd),
        Just(Holder::Ours),
        Just(Holder::Unmanaged),
        Just(Holder::Foreign("a/b".into())),
    ]
}

prop_compose! {
    fn any_observed()(
        holders in prop::collection::vec(holder(), 1..3),
        gates in prop::collection::vec(
            (gate(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()), 1..3),
        mirrors in prop_oneof![Just(MirrorStage::Missing), Just(MirrorStage::Copying),
            Just(MirrorStage::Following)],
        (verified, available, pruned, since) in
            (any::<bool>(), any::<bool>(), any::<bool>(), 0i64..200),
    ) -> Observed {
        let mut o = observed(Holder::Crd, GateState::Closed, false);
        o.versions = holders.into_iter().map(version).collect();
        o.resources = gates
            .into_iter()
            .map(|(gate, settled, opened, has_crd, released)| {
                let crd = has_crd.then(|| crd("policyreports"));
                let mut resource = resource("policyreports", gate, settled, crd);
                resource.stored.status.opened |= opened;
                resource.stored.status.released = released && gate == GateState::Held && settled;
                resource
            })
            .collect();
        o.mirrors = mirrors;
        o.verified = verified;
        o.control_available = available;
        o.notes.switched_at = Some(o.now - SignedDuration::from_secs(since));
        o.notes.pruned_at = pruned.then_some(o.now);
        o
    }
}

proptest! {
    /// Nothing is deleted from etcd, and nothing is switched, unless everything it rests on holds.
    #[test]
    fn dangerous_actions_have_their_grounds(
        o in any_observed(), crd_owner in any::<bool>(), dry_run in any::<bool>()
    ) {
        let mut t = target();
        t.settings.dry_run = dry_run;
        if crd_owner {
            t.owner = ApiOwner::Crd;
        }
        if let Decision::Run(action) = plan(&o, &t) {
            match action {
                Action::Prune => {
                    prop_assert!(!dry_run && !crd_owner && o.all_ours() && o.gates_are(GateState::Open));
                    prop_assert!(o.resources.iter().all(|r| r.stored.status.settled));
                    prop_assert!(o.now >= due::after(o.notes.switched_at.unwrap(), Duration::from_mins(1)));
                    prop_assert!(o.notes.pruned_at.is_none());
                }
                Action::Switch(SwitchFrom::Hold) => {
                    prop_assert!(!dry_run && !o.any_ours() && o.verified && o.control_available);
                    prop_assert_eq!(o.mirrors, MirrorStage::Following);
                    prop_assert!(!o.any_gate(GateState::Open));
                }
                Action::Register => prop_assert!(!dry_run || o.any_ours()),
                // Gates are closed only where our server answers for nothing.
                Action::CloseGates => {
                    prop_assert!(!o.any_ours() && !o.is_ahead_of_etcd());
                }
                // The APIServices are given back only where etcd has everything.
                Action::Release => prop_assert!(o.is_released()),
                // Nobody serves what the CRD may serve already.
                Action::Reopen | Action::Retake | Action::Back => {
                    prop_assert!(!o.is_released());
                }
                // Given back without writing back only where the server has taken no write.
                Action::Undo if o.has_crds() => {
                    prop_assert!(!o.is_ahead_of_etcd());
                }
                // Nothing is copied to what has taken writes.
                Action::Switch(SwitchFrom::Confirm | SwitchFrom::Patch) => {
                    let copied = o.resources.iter().filter(|r| r.gate() != GateState::Open);
                    prop_assert!(copied.clone().all(|r| r.gate() != GateState::Held
                        || !r.stored.status.opened));
                }
                // An import may begin only where nobody is served by us.
                Action::Mirror => prop_assert!(!o.any_ours() && !o.any_gate(GateState::Open)),
                _ => {}
            }
        }
    }
}
