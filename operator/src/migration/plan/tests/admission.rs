//! Policies, webhooks and quotas that a switch would leave without effect.

use super::*;
use crate::migration::observe::bypass::Bypass;

/// Returns a group about to be switched, for which a cluster has a policy.
fn ruled() -> Observed {
    let mut o = observed(Holder::Crd, GateState::Closed, false);
    o.bypass = Some(Ok(Bypass {
        count: 1,
        named: vec!["ValidatingAdmissionPolicy a".to_owned()],
    }));
    o
}

#[test]
fn what_would_lose_its_effect_holds_a_switch_where_that_is_required() {
    let (mut t, mut o) = (target(), ruled());
    assert_eq!(action(&o, &t), Action::Mirror, "named, and no more");
    t.settings.require_admission = true;
    let told = problem(&o, &t);
    assert_eq!(told.reason, reasons::ADMISSION_BYPASSED);
    assert!(
        told.stalled
            && told
                .message
                .starts_with("ValidatingAdmissionPolicy a would")
    );
    (o.mirrors, o.verified) = (MirrorStage::Following, true);
    assert_eq!(problem(&o, &t).reason, reasons::ADMISSION_BYPASSED);
    let Decision::Wait { step, phase, .. } = plan(&o, &t) else {
        panic!("{:?}", plan(&o, &t));
    };
    assert_eq!(
        (step, phase),
        (StepName::Preflight, MigrationPhase::Preflight)
    );
    o.bypass = Some(Err(Problem::forbidden(&"cannot list resourcequotas")));
    assert_eq!(problem(&o, &t).reason, reasons::FORBIDDEN);
    o.bypass = None;
    assert!(!problem(&o, &t).stalled, "it is not known yet");
    o.bypass = Some(Ok(Bypass::default()));
    assert_eq!(action(&o, &t), Action::Switch(SwitchFrom::Hold));
}

#[test]
fn a_group_without_crds_is_not_registered_either() {
    let mut t = target();
    t.settings.require_admission = true;
    let mut o = ruled();
    o.resources.iter_mut().for_each(|r| r.crd = None);
    o.versions = vec![version(Holder::Absent)];
    assert_eq!(problem(&o, &t).reason, reasons::ADMISSION_BYPASSED);
    t.settings.require_admission = false;
    assert_eq!(action(&o, &t), Action::Register);
}

#[test]
fn whom_the_server_has_served_is_served_whatever_is_required() {
    let mut t = target();
    t.settings.require_admission = true;
    let bypass = ruled().bypass;
    // Between the patches of two APIServices.
    let mut o = observed(Holder::Crd, GateState::Held, false);
    o.versions.push(version(Holder::Ours));
    o.bypass.clone_from(&bypass);
    assert_eq!(action(&o, &t), Action::Switch(SwitchFrom::Patch));
    // Taken away by somebody.
    let mut o = observed(Holder::Crd, GateState::Open, true);
    o.bypass.clone_from(&bypass);
    assert_eq!(action(&o, &t), Action::Retake);
    let mut o = served(1);
    o.bypass = bypass;
    assert_eq!(action(&o, &t), Action::Soak);
}

#[test]
fn the_way_back_does_not_depend_on_what_is_required() {
    let mut t = target();
    t.owner = ApiOwner::Crd;
    let mut o = served(61);
    for bypass in [ruled().bypass, Some(Err(Problem::forbidden(&"no"))), None] {
        o.bypass = bypass;
        for required in [false, true] {
            t.settings.require_admission = required;
            assert_eq!(action(&o, &t), Action::Back);
        }
    }
}
