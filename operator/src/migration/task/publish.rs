//! The state of a group as it was observed, for the status.

use crds::v1alpha1::status::ServedBy;
use serde_json::{Map, Value};

use crate::apiservice::{self, Holder};
use crate::migration::context::Cx;
use crate::migration::observe::state::{Crd, Observed, Resource, Version};
use crate::migration::plan::due;
use crate::migration::report::status::{ApiServiceStatus, Imported, ResourceProgress};
use crate::migration::steps::import;

/// Publishes the observation in the status.
pub(super) fn publish(cx: &Cx, o: &Observed) {
    let api_services = o.versions.iter().map(|v| ApiServiceStatus {
        name: apiservice::name(&cx.target.group, &v.name),
        uid: v.api_service.as_ref().and_then(|a| a.metadata.uid.clone()),
        served_by: match v.holder {
            Holder::Absent => ServedBy::Absent,
            Holder::Crd | Holder::Unmanaged => ServedBy::Crd,
            Holder::Ours => ServedBy::Server,
            Holder::Foreign(_) => ServedBy::Foreign,
        },
        original: original(v),
    });
    let prune_due = match (
        cx.target.settings.prune_after,
        o.notes.switched_at,
        o.notes.pruned_at,
    ) {
        (Some(after), Some(at), None) if cx.target.persistent => Some(due::after(at, after)),
        _ => None,
    };
    cx.report.update(|status| {
        status.api_services = api_services.collect();
        status.plan.clone_from(&o.plan);
        status.bypass.clone_from(&o.bypass);
        if o.unassigned.is_empty() {
            status.plan_hash = o.has_crds().then(|| o.plan_hash(&cx.target));
        }
        status.switched_at = o.notes.switched_at;
        status.pruned_at = o.notes.pruned_at;
        let outcome = o.import.as_ref().and_then(import::Note::outcome);
        status.imported = outcome.map(|sum| Imported {
            objects: sum.imported,
            left: sum.left(),
            left_names: sum.names,
        });
        status.prune_due = prune_due;
        // By the clock of whoever holds requests, whatever becomes of whoever asked for it.
        let holds = o.resources.iter().map(|r| &r.stored.status);
        status.held_milliseconds = holds.filter_map(|s| s.last_hold_milliseconds).max();
        status.door_open = o.may_have_door_open();
        status.crds_present = o.may_have_crds();
        if o.all_ours() && status.resources.is_empty() {
            // A process that did not do the copying: what is stored now stands for it.
            status.resources = o.crds().map(|(r, crd)| stored_progress(r, crd)).collect();
        }
    });
}

fn stored_progress(resource: &Resource, crd: &Crd) -> ResourceProgress {
    let stored = &resource.stored.status;
    ResourceProgress {
        version: crd.read_version().unwrap_or_default().to_owned(),
        resource: resource.plural().to_owned(),
        total: None,
        copied: stored.objects,
        verified: if stored.settled { stored.objects } else { 0 },
        source_resource_version: stored.mirrored_resource_version.clone(),
        ..ResourceProgress::default()
    }
}

/// Returns the APIService as it is before the switch, for people who want to look.
fn original(version: &Version) -> Option<Map<String, Value>> {
    let of_crd = matches!(version.holder, Holder::Crd | Holder::Unmanaged);
    let service = version.api_service.as_ref().filter(|_| of_crd)?;
    let labels = service.metadata.labels.as_ref().map(serde_json::to_value);
    let spec = service.spec.as_ref().map(serde_json::to_value);
    let parts = [("labels", labels), ("spec", spec)].into_iter();
    let known = parts.filter_map(|(name, part)| Some((name.to_owned(), part?.ok()?)));
    Some(known.collect())
}

#[cfg(test)]
mod tests {
    use crds::control::GateState;
    use rstest::rstest;

    use super::*;
    use crate::migration::context::fixtures::context;
    use crate::migration::plan::tests as states;
    use crate::testing::pair;

    fn told(o: &Observed) -> (bool, bool) {
        let cx = context(&pair().0);
        publish(&cx, o);
        let status = cx.report.status();
        (status.crds_present, status.door_open)
    }

    /// The server says which resources it stores, or nothing.
    #[rstest]
    #[tokio::test]
    async fn crds_are_told_whether_or_not_the_control_api_answers(
        #[values(true, false)] answers: bool,
        #[values(true, false)] open: bool,
    ) {
        let crd = states::crd("reports");
        let crd = if open {
            states::with_door(&crd, "token")
        } else {
            crd
        };
        let o = if answers {
            let resources = vec![states::resource(
                "reports",
                GateState::Open,
                true,
                Some(crd),
            )];
            Observed {
                resources,
                ..Observed::default()
            }
        } else {
            Observed {
                unassigned: vec![crd],
                ..Observed::default()
            }
        };
        assert_eq!(told(&o), (true, open));
    }

    #[tokio::test]
    async fn a_group_without_crds_has_none() {
        let resources = vec![states::resource("reports", GateState::Open, true, None)];
        let o = Observed {
            resources,
            ..Observed::default()
        };
        assert_eq!(told(&o), (false, false));
        assert_eq!(told(&Observed::default()), (false, false));
    }
}
