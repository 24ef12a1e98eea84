//! Deletion: the API groups go back to their CRDs before the server goes.

use std::collections::BTreeSet;

use crds::names::ANNOTATION_ABANDON_APIS;
use crds::v1alpha1::ReportsServer;
use crds::v1alpha1::defaults::Effective;
use crds::v1alpha1::spec::{ApiDeletionPolicy, ApiOwner};
use crds::v1alpha1::status::MigrationPhase;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, Client, Resource, ResourceExt};

use super::dereference::service_ref;
use super::found::{NamespaceState, Registered};
use super::upkeep::is_under_way;
use super::{targets, workload};
use crate::migration::{GroupStatus, GroupTarget, Settings};
use crate::names::Names;

/// The next step of a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Nothing is in the way: remove the finalizer.
    LetGo,
    /// A switch is between two of its steps, and requests are held: have it come to its end first.
    Finish,
    /// Cut the children loose first, so that they stay; then remove the finalizer.
    Orphan,
    /// Give these groups back, and wait for it.
    Restore(BTreeSet<String>),
    /// The server is gone for good: give the APIs back with the reports that etcd has, then remove
    /// the finalizer.
    GiveUp,
}

/// Decides. `namespace` is the state of the target namespace, `registered` are the APIServices that
/// point to the server, `groups` what the migrations report.
#[must_use]
pub fn plan(
    object: &ReportsServer,
    namespace: NamespaceState,
    registered: &[Registered],
    groups: &[GroupStatus],
) -> Plan {
    let abandoned = object.annotations().get(ANNOTATION_ABANDON_APIS);
    if abandoned == Some(&object.name_any()) {
        return Plan::LetGo;
    }
    // A deletion of a namespace cannot be taken back, and ends every pod in it.
    if namespace != NamespaceState::Active {
        return Plan::GiveUp;
    }
    if orphans(object) {
        return if is_busy(object, groups) {
            Plan::Finish
        } else {
            Plan::Orphan
        };
    }
    // Also those that are to be served by their CRDs: one that is on its way there may have no
    // APIService of ours any more, and clients that wait at its gate until it is closed.
    let asked = object.spec.apis.iter().map(|api| api.group.clone());
    let restore: BTreeSet<String> = asked
        .chain(groups.iter().map(|group| group.group.clone()))
        .chain(targets::dropped(object, registered, groups))
        .collect();
    let back = |name: &str| {
        let group = groups.iter().find(|group| group.group == name);
        group.is_some_and(|group| group.phase == MigrationPhase::RolledBack)
            && registered.iter().all(|registered| registered.group != name)
    };
    if restore.iter().all(|group| back(group)) {
        Plan::LetGo
    } else {
        Plan::Restore(restore)
    }
}

/// Returns whether an object is deleted whose server and APIServices are to stay.
#[must_use]
pub fn orphans(object: &ReportsServer) -> bool {
    object.meta().deletion_timestamp.is_some()
        && Effective::of(&object.spec).deletion_apis == ApiDeletionPolicy::Orphan
}

/// Returns whether a group is between two steps of a switch, which goes on by itself. Of a group at
/// which this process has not looked yet the status tells.
#[must_use]
pub fn is_busy(object: &ReportsServer, groups: &[GroupStatus]) -> bool {
    let stalls = |group: &GroupStatus| group.problem.as_ref().is_some_and(|p| p.stalled);
    let mut here = groups.iter();
    if here.any(|group| is_under_way(object, group) && !stalls(group)) {
        return true;
    }
    let migration = object.status.as_ref().and_then(|s| s.migration.as_ref());
    let mut told = migration
        .into_iter()
        .flat_map(|migration| &migration.groups);
    told.any(|told| {
        let known = groups.iter().any(|group| group.group == told.group);
        let between = matches!(
            told.phase,
            MigrationPhase::Switching | MigrationPhase::RollingBack
        );
        between && !known
    })
}

/// Returns what the migrations are asked to reach for a [`Plan::Restore`]. `ca_bundle` verifies the
/// server's certificate; where it is not known, that of an APIService stays.
pub async fn targets(
    client: &Client,
    object: &ReportsServer,
    restore: &BTreeSet<String>,
    registered: &[Registered],
    ca_bundle: Option<Vec<u8>>,
    control_available: bool,
) -> Vec<GroupTarget> {
    let names = Names::new(object.name_any());
    let namespace = &object.spec.target_namespace;
    let deployments = Api::<Deployment>::namespaced(client.clone(), namespace);
    // Unreadable counts as not ready: the migration waits and says so.
    let deployment = deployments.get_opt(&names.server()).await.ok().flatten();
    let server_ready = deployment.as_ref().is_some_and(workload::is_ready);
    let present = || registered.first().map(|r| r.ca_bundle.clone());
    let ca_bundle = ca_bundle.or_else(present).unwrap_or_default();
    let effective = Effective::of(&object.spec);
    let target = |group: &String| GroupTarget {
        group: group.clone(),
        owner: ApiOwner::Crd,
        predecessor: None,
        database: None,
        service: service_ref(namespace, names.server()),
        ca_bundle: ca_bundle.clone(),
        server_ready,
        control_available,
        persistent: effective.ephemeral.is_none(),
        suspended: false,
        settings: Settings {
            page_size: effective.page_size,
            max_requests_per_second: Some(effective.max_requests_per_second),
            concurrency: effective.concurrency,
            ..Settings::default()
        },
    };
    restore.iter().map(target).collect()
}

#[cfg(test)]
mod tests {
    use crds::control;
    use crds::v1alpha1::reasons;
    use serde_json::{Value, json};

    use super::*;
    use crate::migration::Problem;

    fn object(mut spec: Value, annotations: &Value) -> ReportsServer {
        spec["targetNamespace"] = json!("ns");
        serde_json::from_value(json!({
            "apiVersion": "reports-server.io/v1alpha1", "kind": "ReportsServer",
            "metadata": {"name": "a", "uid": "u", "annotations": annotations,
                "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": spec,
        }))
        .unwrap()
    }

    fn served(group: &str) -> Registered {
        Registered {
            group: group.into(),
            ca_bundle: Vec::new(),
        }
    }

    fn status(group: &str, phase: MigrationPhase) -> GroupStatus {
        GroupStatus {
            group: group.into(),
            phase,
            ..GroupStatus::default()
        }
    }

    fn plan(object: &ReportsServer, registered: &[Registered], groups: &[GroupStatus]) -> Plan {
        super::plan(object, NamespaceState::Active, registered, groups)
    }

    fn apis() -> Value {
        json!({"apis": [{"group": "a.example", "owner": "Server"}]})
    }

    #[test]
    fn nothing_taken_over_nothing_to_do() {
        let object = object(json!({}), &json!({}));
        assert_eq!(plan(&object, &[served(control::GROUP)], &[]), Plan::LetGo);
    }

    #[test]
    fn a_group_keeps_the_object_until_it_is_back() {
        let object = object(apis(), &json!({}));
        let restore = Plan::Restore(BTreeSet::from(["a.example".to_owned()]));
        // Nothing is known about the group yet: look before letting go.
        assert_eq!(plan(&object, &[], &[]), restore);
        let busy = [status("a.example", MigrationPhase::RollingBack)];
        assert_eq!(plan(&object, &[served("a.example")], &busy), restore);
        // A status from before the switch does not count while the APIService is ours.
        let old = [status("a.example", MigrationPhase::RolledBack)];
        assert_eq!(plan(&object, &[served("a.example")], &old), restore);
        assert_eq!(plan(&object, &[served(control::GROUP)], &old), Plan::LetGo);
    }

    #[test]
    fn a_group_on_its_way_back_keeps_the_object_until_its_gate_is_closed() {
        let spec = json!({"apis": [{"group": "a.example", "owner": "CRD"}]});
        let object = object(spec, &json!({}));
        let restore = Plan::Restore(BTreeSet::from(["a.example".to_owned()]));
        // An operator that has just started knows no phase, and the APIService is gone already.
        assert_eq!(plan(&object, &[], &[]), restore);
        let busy = [status("a.example", MigrationPhase::RollingBack)];
        assert_eq!(plan(&object, &[], &busy), restore);
        let back = [status("a.example", MigrationPhase::RolledBack)];
        assert_eq!(plan(&object, &[], &back), Plan::LetGo);
    }

    #[test]
    fn a_group_that_the_specification_does_not_name_goes_back_too() {
        let object = object(json!({}), &json!({}));
        let restore = Plan::Restore(BTreeSet::from(["b.example".to_owned()]));
        assert_eq!(plan(&object, &[served("b.example")], &[]), restore);
    }

    #[test]
    fn a_group_that_is_named_no_more_keeps_the_object_while_it_is_on_its_way_back() {
        let mut object = object(json!({}), &json!({}));
        let groups = json!([{"group": "b.example", "phase": "RollingBack"}]);
        let told = json!({"migration": {"groups": groups}});
        object.status = Some(serde_json::from_value(told).unwrap());
        // Its APIService is gone, and an operator that has just started knows no phase.
        let restore = Plan::Restore(BTreeSet::from(["b.example".to_owned()]));
        assert_eq!(plan(&object, &[], &[]), restore);
        let back = [status("b.example", MigrationPhase::RolledBack)];
        assert_eq!(plan(&object, &[], &back), Plan::LetGo);
    }

    #[test]
    fn the_override_must_name_the_object() {
        let of = |name: &str| object(apis(), &json!({"reports-server.io/abandon-apis": name}));
        assert_eq!(plan(&of("a"), &[served("a.example")], &[]), Plan::LetGo);
        assert!(matches!(
            plan(&of("b"), &[served("a.example")], &[]),
            Plan::Restore(_)
        ));
    }

    #[test]
    fn a_server_whose_namespace_is_gone_is_not_waited_for() {
        let mut spec = apis();
        let served = [served("a.example")];
        for policy in ["Restore", "Orphan"] {
            spec["deletionPolicy"] = json!({"apis": policy});
            let object = object(spec.clone(), &json!({}));
            for namespace in [NamespaceState::Terminating, NamespaceState::Missing] {
                let decided = super::plan(&object, namespace, &served, &[]);
                assert_eq!(decided, Plan::GiveUp, "{policy}");
            }
            assert_ne!(plan(&object, &served, &[]), Plan::GiveUp);
        }
        let annotations = json!({"reports-server.io/abandon-apis": "a"});
        let abandoned = object(apis(), &annotations);
        let decided = super::plan(&abandoned, NamespaceState::Missing, &served, &[]);
        assert_eq!(decided, Plan::LetGo);
    }

    #[test]
    fn orphaning_is_asked_for_by_policy() {
        let mut spec = apis();
        spec["deletionPolicy"] = json!({"apis": "Orphan"});
        let object = object(spec, &json!({}));
        assert_eq!(plan(&object, &[served("a.example")], &[]), Plan::Orphan);
    }

    /// Nobody would let the requests go that wait between two steps.
    #[test]
    fn a_switch_comes_to_its_end_before_its_server_is_orphaned() {
        let mut spec = apis();
        spec["deletionPolicy"] = json!({"apis": "Orphan"});
        let object = object(spec, &json!({}));
        for (phase, expected) in [
            (MigrationPhase::Switching, Plan::Finish),
            (MigrationPhase::RollingBack, Plan::Finish),
            (MigrationPhase::Soaking, Plan::Orphan),
        ] {
            let groups = [status("a.example", phase)];
            assert_eq!(plan(&object, &[served("a.example")], &groups), expected);
        }
        // Nothing but a person ends that, and nothing is held for it.
        let mut waits = status("a.example", MigrationPhase::Switching);
        waits.problem = Some(Problem {
            reason: reasons::DATABASE_LOST,
            message: String::new(),
            stalled: true,
        });
        assert_eq!(plan(&object, &[], &[waits]), Plan::Orphan);
        // An operator that has just started knows no group.
        let mut told = object.clone();
        let migration = json!({"groups": [{"group": "a.example", "phase": "Switching"}]});
        told.status = serde_json::from_value(json!({"migration": migration})).unwrap();
        assert_eq!(plan(&told, &[], &[]), Plan::Finish);
    }
}
