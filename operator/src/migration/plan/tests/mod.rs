//! Every state that a migration can be found in, and the decision for it.

mod admission;
mod back;
mod damage;
mod forward;
mod grounds;
mod predecessor;
mod suspended;

use std::time::Duration;

use crds::control::{StoredResource, StoredResourceStatus};
use crds::v1alpha1::spec::OnFailure;
use jiff::SignedDuration;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::*;
use crate::apiservice::{Holder, ServiceRef};
use crate::migration::cluster::door::objects;
use crate::migration::observe::state::{Crd, Notes, Resource, Version};
use crate::migration::plan::target::Settings;

const GROUP: &str = "wgpolicyk8s.io";

pub(in crate::migration) fn target() -> GroupTarget {
    GroupTarget {
        group: GROUP.into(),
        owner: ApiOwner::Server,
        predecessor: None,
        database: None,
        service: ServiceRef {
            namespace: "reports".into(),
            name: "s".into(),
            port: 443,
        },
        ca_bundle: b"PEM".to_vec(),
        server_ready: true,
        control_available: true,
        persistent: true,
        suspended: false,
        settings: Settings {
            soak: Duration::from_secs(10),
            on_failure: OnFailure::Revert,
            prune_after: Some(Duration::from_mins(1)),
            ..Settings::default()
        },
    }
}

fn crd_json(plural: &str) -> serde_json::Value {
    json!({"metadata": {"name": format!("{plural}.{GROUP}"), "uid": plural, "resourceVersion": "1"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": {"plural": plural, "kind": "K"},
            "versions": [{"name": "v1alpha2", "served": true, "storage": true, "schema":
                {"openAPIV3Schema": {"type": "object"}}}]},
        "status": {"conditions": [{"type": "Established", "status": "True"}]}})
}

pub(in crate::migration) fn crd(plural: &str) -> Crd {
    Crd::new(serde_json::from_value(crd_json(plural)).unwrap())
}

pub(in crate::migration) fn with_door(crd: &Crd, token: &str) -> Crd {
    let mut value = serde_json::to_value(&crd.object).unwrap();
    json_patch::patch(
        &mut value,
        &objects::open_patch(&crd.object, token).unwrap(),
    )
    .unwrap();
    Crd::new(serde_json::from_value::<CustomResourceDefinition>(value).unwrap())
}

pub(in crate::migration) fn resource(
    plural: &str,
    gate: GateState,
    settled: bool,
    crd: Option<Crd>,
) -> Resource {
    let stored = StoredResource {
        api_version: String::new(),
        kind: String::new(),
        metadata: ObjectMeta {
            name: Some(format!("{plural}.{GROUP}")),
            ..ObjectMeta::default()
        },
        status: StoredResourceStatus {
            group: GROUP.into(),
            resource: plural.into(),
            versions: vec!["v1alpha2".into()],
            objects: 5,
            gate,
            opened: settled || gate == GateState::Open,
            settled,
            ..StoredResourceStatus::default()
        },
    };
    Resource { stored, crd }
}

pub(in crate::migration) fn version(holder: Holder) -> Version {
    Version {
        name: "v1alpha2".into(),
        api_service: None,
        holder,
        outdated: false,
    }
}

/// Returns two resources with CRDs, in one state.
fn observed(holder: Holder, gate: GateState, settled: bool) -> Observed {
    let now: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
    Observed {
        resources: ["clusterpolicyreports", "policyreports"]
            .map(|p| resource(p, gate, settled, Some(crd(p))))
            .to_vec(),
        versions: vec![version(holder)],
        control_available: true,
        now,
        ..Observed::default()
    }
}

fn served(since_seconds: i64) -> Observed {
    let mut o = observed(Holder::Ours, GateState::Open, true);
    let since = o.now - SignedDuration::from_secs(since_seconds);
    o.notes = Notes {
        switched_at: Some(since),
        ..Notes::default()
    };
    o
}

fn action(o: &Observed, target: &GroupTarget) -> Action {
    match plan(o, target) {
        Decision::Run(action) => action,
        other => panic!("{other:?}"),
    }
}

fn problem(o: &Observed, target: &GroupTarget) -> Problem {
    match plan(o, target) {
        Decision::Wait { problem, .. } => problem,
        other => panic!("{other:?}"),
    }
}

/// Returns the decision for a suspended `ReportsServer`.
fn suspended(o: &Observed, owner: ApiOwner) -> Decision {
    let target = GroupTarget {
        owner,
        suspended: true,
        ..target()
    };
    plan(o, &target)
}
