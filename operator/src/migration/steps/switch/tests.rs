//! Switches that are given up, in a fake cluster.

use std::sync::{Arc, Mutex};

use json_patch::Patch;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use serde_json::{Value, json};

use super::*;
use crate::apiservice::{self, Holder};
use crate::migration::cluster::door::objects;
use crate::migration::context::fixtures::context;
use crate::migration::observe::state::{Crd, Notes};
use crate::migration::plan::tests as states;
use crate::testing::{Received, pair};

const SERVICE: &str = "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha2.wgpolicyk8s.io";
const GATE: &str = "/apis/control.reports-server.io/v1alpha1/storedresources/\
                    policyreports.wgpolicyk8s.io/gate";
const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
const GUARD: &str = "reports-server-predecessor.wgpolicyk8s.io";
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/\
                   policyreports.wgpolicyk8s.io";
const DOOR: &str = "reports-server-side-door.wgpolicyk8s.io";

/// A cluster with one APIService, and its CRD.
struct Fake {
    service: Value,
    crd: Value,
    /// Method and path of each write, and the state that a gate is given.
    writes: Vec<String>,
}

impl Fake {
    fn answer(&mut self, request: Received) {
        let path = request.path.split('?').next().unwrap().to_owned();
        let method = request.method.clone();
        let mut body = request.body.clone();
        if method != "GET" {
            let state = body["spec"]["state"].as_str().unwrap_or_default();
            let write = format!("{method} {path} {state}");
            self.writes.push(write.trim_end().to_owned());
        }
        let object = match &*path {
            SERVICE => Some(&mut self.service),
            CRD => Some(&mut self.crd),
            _ => None,
        };
        if let Some(object) = object {
            if method == "PATCH" {
                let changes: Patch = serde_json::from_value(body).unwrap();
                json_patch::patch(object, &changes).unwrap();
            }
            body = object.clone();
        }
        request.answer(200, &body);
    }
}

/// Returns an APIService as it is before a switch.
fn before(service: &Value, owners: &Value) -> Value {
    let value = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1alpha2.wgpolicyk8s.io", "resourceVersion": "7", "uid": "u",
            "ownerReferences": owners},
        "spec": {"group": "wgpolicyk8s.io", "version": "v1alpha2",
            "groupPriorityMinimum": 100, "versionPriority": 100, "service": service}});
    let read: APIService = serde_json::from_value(value).unwrap();
    serde_json::to_value(read).unwrap()
}

/// Gives up the switch of a group whose APIService was `before`; returns the cluster
/// afterwards.
async fn undone(before: &Value, notes: Notes, crd: Option<Crd>) -> Fake {
    let (client, mut server) = pair();
    let cx = context(&client);
    let (ours, pem) = (&cx.target.service, cx.target.ca_bundle.as_slice());
    let read: APIService = serde_json::from_value(before.clone()).unwrap();
    let patch = apiservice::takeover_patch(&read, ours, pem, &BTreeMap::new());
    let mut service = before.clone();
    json_patch::patch(&mut service, &patch).unwrap();
    let object = crd.as_ref().map(|crd| &crd.object);
    let fake = Arc::new(Mutex::new(Fake {
        service,
        crd: serde_json::to_value(object).unwrap(),
        writes: Vec::new(),
    }));
    let answering = Arc::clone(&fake);
    let task = tokio::spawn(async move {
        while let Some(request) = server.next_if_any().await {
            answering.lock().unwrap().answer(request);
        }
    });
    let gate = GateState::Held;
    let o = Observed {
        resources: vec![states::resource("policyreports", gate, false, crd)],
        versions: vec![states::version(Holder::Ours)],
        notes,
        ..Observed::default()
    };
    undo_unopened(&cx, &o).await.unwrap();
    task.abort();
    let mut fake = fake.lock().unwrap();
    Fake {
        service: fake.service.take(),
        crd: fake.crd.take(),
        writes: std::mem::take(&mut fake.writes),
    }
}

#[tokio::test]
async fn a_predecessor_gets_its_apiservices_back_as_they_were_and_may_write_them() {
    let service = json!({"namespace": "other", "name": "reports-server", "port": 443});
    let owners = json!([{"apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole", "name": "reports-server", "uid": "r"}]);
    let before = before(&service, &owners);
    let notes = Notes {
        can_return: true,
        ..Notes::default()
    };
    let after = undone(&before, notes, None).await;
    assert_eq!(after.service["spec"], before["spec"]);
    let owners = &after.service["metadata"]["ownerReferences"];
    assert_eq!(*owners, before["metadata"]["ownerReferences"]);
    let expected = [
        format!("PATCH {SERVICE}"),
        format!("DELETE {ADMISSION}/validatingadmissionpolicybindings/{GUARD}"),
        format!("DELETE {ADMISSION}/validatingadmissionpolicies/{GUARD}"),
        format!("PUT {GATE} Closed"),
        format!("DELETE {ADMISSION}/validatingadmissionpolicybindings/{DOOR}"),
        format!("DELETE {ADMISSION}/validatingadmissionpolicies/{DOOR}"),
    ];
    assert_eq!(after.writes, expected);
}

#[tokio::test]
async fn the_apiservices_of_crds_are_deleted_for_the_kube_apiserver_to_make_anew() {
    let before = before(&Value::Null, &Value::Null);
    let after = undone(&before, Notes::default(), None).await;
    let expected = [format!("DELETE {SERVICE}"), format!("PUT {GATE} Closed")];
    assert_eq!(after.writes, expected);
}

#[tokio::test]
async fn what_is_served_in_part_is_completed_and_not_given_up() {
    let not_confirmed = || SwitchError::NotFollowing("policyreports".to_owned());
    for (gate, opened) in [(GateState::Open, true), (GateState::Held, true)] {
        let (client, mut server) = pair();
        let cx = context(&client);
        let o = Observed {
            resources: vec![
                states::resource("policyreports", gate, opened, None),
                states::resource("clusterpolicyreports", GateState::Held, false, None),
            ],
            versions: vec![states::version(Holder::Ours)],
            ..Observed::default()
        };
        let refusing = tokio::spawn(async move { server.refuse_all(500, "InternalError").await });
        // A request would have failed.
        let given_up = give_up(&cx, &o, not_confirmed()).await.unwrap();
        assert!(matches!(given_up, SwitchError::HalfServed(_)), "{given_up}");
        refusing.abort();
    }
}

#[tokio::test]
async fn lost_watches_are_noted_before_a_drained_switch_is_given_up() {
    let before = before(&Value::Null, &Value::Null);
    let since = Timestamp::UNIX_EPOCH;
    let switched = || Notes {
        switched_at: Some(since),
        ..Notes::default()
    };
    let crd = states::crd("policyreports");
    let noted = |write: &String| write.contains("/configmaps/");
    let after = undone(&before, switched(), Some(crd.clone())).await;
    assert!(!after.writes.iter().any(noted), "{:?}", after.writes);
    let drained = states::with_door(&crd, &since.to_string());
    let after = undone(&before, switched(), Some(drained)).await;
    let released = format!("DELETE {SERVICE}");
    let at = after.writes.iter().position(|write| *write == released);
    let told = after.writes.iter().position(noted);
    assert!(told.is_some() && told < at, "{:?}", after.writes);
}

#[tokio::test]
async fn a_takeover_that_is_given_up_has_lost_no_watch_and_closes_the_door() {
    let before = before(&Value::Null, &Value::Null);
    let since = Timestamp::UNIX_EPOCH;
    let notes = Notes {
        switched_at: Some(since),
        can_return: true,
        ..Notes::default()
    };
    let drained = states::with_door(&states::crd("policyreports"), &since.to_string());
    let after = undone(&before, notes, Some(drained)).await;
    let is_note = |write: &String| write.contains("/configmaps/");
    assert!(!after.writes.iter().any(is_note), "{:?}", after.writes);
    let crd = serde_json::from_value(after.crd).unwrap();
    assert!(!objects::state(&crd).is_open());
}
