use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crds::control::GateState;
use serde_json::json;

use super::*;
use crate::apiservice::{self, Holder};
use crate::leader::Term;
use crate::migration::cluster::wire::SERVER_HEADER;
use crate::migration::context::fixtures::context;
use crate::migration::plan::tests as states;
use crate::testing::{Received, pair_within};

const RESOURCE: &str = "policyreports";

/// A cluster whose CRD has copies of some objects.
struct Fake {
    /// The time for which the operator may write.
    term: Term,
    /// True when the operator stands still once it has announced a copy, for longer than its term.
    stands_still: bool,
    /// Copies in etcd, each as `NAME/uid/version`.
    copies: Vec<(&'static str, &'static str)>,
    /// Marks at the server: name, uid, and whether its database has an object of that name.
    marks: Vec<(&'static str, &'static str, bool)>,
    /// Objects that the server finds by name, and lists none of.
    found: Vec<&'static str>,
    /// The copies that finalizers keep while they are being deleted.
    deleting: Vec<&'static str>,
    /// Objects that the server lists, and that are being deleted there.
    leaving: Vec<&'static str>,
    /// True when the CRD answers for the public version.
    is_taken_away: bool,
    /// The APIService while it leads to the server, and the number of looks that find it so.
    api_service: (serde_json::Value, usize),
    /// Answers 409 to this many deletions, because the copy is at a later version by then.
    conflicts: usize,
    /// Method, name and preconditions or resourceVersion of each write through the door.
    writes: Vec<String>,
}

impl Default for Fake {
    fn default() -> Self {
        Self {
            term: Term::endless(),
            stands_still: false,
            copies: Vec::new(),
            marks: Vec::new(),
            found: Vec::new(),
            deleting: Vec::new(),
            leaving: Vec::new(),
            is_taken_away: false,
            api_service: (serde_json::Value::Null, usize::MAX),
            conflicts: 0,
            writes: Vec::new(),
        }
    }
}

fn object(name: &str, uid: &str, version: &str) -> serde_json::Value {
    json!({"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport", "metadata": {
        "name": name, "namespace": "n", "uid": uid, "resourceVersion": version}})
}

fn deleted(mut object: serde_json::Value) -> serde_json::Value {
    object["metadata"]["deletionTimestamp"] = json!("2026-11-21T12:00:00Z");
    object
}

impl Fake {
    /// Returns a copy as etcd has it.
    fn copy(&self, name: &str, uid: &str, version: &str) -> serde_json::Value {
        let copy = object(name, uid, version);
        if self.deleting.contains(&name) {
            deleted(copy)
        } else {
            copy
        }
    }

    fn answer(&mut self, request: Received) {
        let path = request.path.clone();
        let (path, query) = path.split_once('?').unwrap_or((&path, ""));
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        let list = |items: Vec<serde_json::Value>| {
            json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "500"},
                "items": items})
        };
        let method = request.method.clone();
        match (method.as_str(), path) {
            (_, path) if path.ends_with("/digest") => {
                let marks = self.marks.iter().map(|(name, uid, stored)| {
                    json!({"namespace": "n", "name": name, "uid": uid, "resourceVersion": "10",
                        "stored": stored})
                });
                request.answer(200, &list(marks.collect()));
            }
            (_, path) if path.ends_with("/import") => {
                if self.stands_still {
                    self.term.end();
                }
                let taken = json!({"apiVersion": "", "kind": "", "imported": 0, "unchanged": 0});
                request.answer(200, &taken);
            }
            (_, path) if path.ends_with("/fence") => {
                request.answer(200, &json!({"apiVersion": "", "kind": "", "metadata": {}}));
            }
            ("GET", path) if path.contains("/apiservices/") => {
                let (found, looks) = &mut self.api_service;
                if let Some(left) = looks.checked_sub(1) {
                    *looks = left;
                    request.answer(200, found);
                } else {
                    request.refuse(404, "NotFound");
                }
            }
            ("GET", path) if query.contains("watch=1") => {
                assert!(path.ends_with(RESOURCE), "{path}");
                request.answer_with(SERVER_HEADER, &json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "500"}}}));
            }
            ("GET", path) if path.contains("/legacy/") && name == RESOURCE => {
                let copies = self.copies.iter();
                request.answer(
                    200,
                    &list(
                        copies
                            .map(|(name, uid)| self.copy(name, uid, "10"))
                            .collect(),
                    ),
                );
            }
            ("GET", path) if path.contains("/legacy/") => {
                let copy = self.copies.iter().find(|(copy, _)| *copy == name);
                let gone = format!("{RESOURCE}.wgpolicyk8s.io \"{name}\" not found");
                if let Some((name, uid)) = copy {
                    request.answer(200, &self.copy(name, uid, "11"));
                } else {
                    request.refuse(404, &gone);
                }
            }
            ("GET", _) if name == RESOURCE && self.is_taken_away => {
                request.answer(200, &list(vec![]));
            }
            ("GET", _) if name == RESOURCE => {
                let leaving = self.leaving.iter();
                let leaving = leaving.map(|name| deleted(object(name, "a", "400")));
                request.answer_with(SERVER_HEADER, &list(leaving.collect()));
            }
            ("GET", _) if self.found.contains(&&*name) => {
                request.answer_with(SERVER_HEADER, &object(&name, "anew", "501"));
            }
            ("GET", _) => request.refuse(404, "NotFound"),
            ("DELETE", _) => {
                self.writes
                    .push(format!("DELETE {name} {}", request.body["preconditions"]));
                if self.conflicts > 0 {
                    self.conflicts -= 1;
                    return request.refuse(409, "Conflict");
                }
                request.answer(200, &json!({"kind": "Status", "status": "Success"}));
            }
            (method, _) => {
                let version = &request.body["metadata"]["resourceVersion"];
                self.writes.push(format!("{method} {name} at {version}"));
                let written = object(&name, "e", "12");
                request.answer(200, &written);
            }
        }
    }
}

/// Compares; returns the writes through the door, sorted.
async fn compared(fake: Fake) -> Result<Vec<String>, WriteBackError> {
    let (begun, writes) = compare(fake).await;
    begun.map(|()| writes)
}

/// Compares; returns the result, and the writes through the door, sorted.
async fn compare(mut fake: Fake) -> (Result<(), WriteBackError>, Vec<String>) {
    let (client, mut server) = pair_within(&fake.term);
    let cx = context(&client);
    let version = states::version(Holder::Ours);
    let (group, service, none) = (&cx.target.group, &cx.target.service, BTreeMap::new());
    let ours = apiservice::registration(group, &version.name, service, b"", &none);
    fake.api_service.0 = serde_json::to_value(ours).unwrap();
    let fake = Arc::new(Mutex::new(fake));
    let answering = Arc::clone(&fake);
    let task = tokio::spawn(async move {
        while let Some(request) = server.next_if_any().await {
            answering.lock().unwrap().answer(request);
            tokio::task::yield_now().await;
        }
    });
    let crd = states::crd(RESOURCE);
    let resource = states::resource(RESOURCE, GateState::Open, true, None);
    let door = Wire::new(client);
    let o = Observed {
        versions: vec![version],
        ..Observed::default()
    };
    let of = (&resource, &crd);
    let begun = Writer::begin(&cx, &o, of, &door, Counted::default()).await;
    task.abort();
    let mut writes = std::mem::take(&mut fake.lock().unwrap().writes);
    writes.sort();
    (begun.map(drop), writes)
}

#[tokio::test]
async fn a_copy_that_the_list_lacks_is_deleted_only_if_the_database_lacks_it_as_well() {
    let fake = Fake {
        copies: vec![
            ("deleted", "a"),
            ("hidden", "b"),
            ("anew", "c"),
            ("foreign", "d"),
            ("begun", "e"),
        ],
        marks: vec![
            ("deleted", "a", false),
            ("hidden", "b", true),
            ("anew", "c", true),
            ("foreign", "other", false),
            ("begun", "", false),
        ],
        found: vec!["anew"],
        ..Fake::default()
    };
    let writes = compared(fake).await.unwrap();
    assert_eq!(
        writes,
        [
            r#"DELETE begun {"resourceVersion":"10","uid":"e"}"#,
            r#"DELETE deleted {"resourceVersion":"10","uid":"a"}"#,
            r#"PUT anew at "10""#,
        ]
    );
}

/// A request that stays with a kube-apiserver for a while meets a copy that was written since.
#[tokio::test]
async fn a_deletion_names_the_state_that_it_deletes() {
    let fake = Fake {
        copies: vec![("deleted", "a")],
        marks: vec![("deleted", "a", false)],
        conflicts: 1,
        ..Fake::default()
    };
    let writes = compared(fake).await.unwrap();
    assert_eq!(
        writes,
        [
            r#"DELETE deleted {"resourceVersion":"10","uid":"a"}"#,
            r#"DELETE deleted {"resourceVersion":"11","uid":"a"}"#,
        ]
    );
}

/// The kube-apiserver deletes what is being deleted and loses its finalizers by a write.
#[tokio::test]
async fn a_copy_that_is_being_deleted_is_made_anew_where_ours_is_not() {
    let fake = Fake {
        copies: vec![("anew", "c")],
        marks: vec![("anew", "c", true)],
        found: vec!["anew"],
        deleting: vec!["anew"],
        ..Fake::default()
    };
    let writes = compared(fake).await.unwrap();
    assert_eq!(
        writes,
        [
            r#"DELETE anew {"resourceVersion":"10","uid":"c"}"#,
            "POST policyreports at null",
        ]
    );
}

/// A finalizer keeps it on both sides.
#[tokio::test]
async fn a_deletion_that_waits_goes_along() {
    let fake = Fake {
        copies: vec![("leaving", "a")],
        leaving: vec!["leaving"],
        ..Fake::default()
    };
    let writes = compared(fake).await.unwrap();
    assert_eq!(
        writes,
        [
            r#"DELETE leaving {"resourceVersion":"12","uid":"e"}"#,
            r#"PUT leaving at "10""#,
        ]
    );
}

/// A write of its own would come behind those of its successor, and of clients after that one.
#[tokio::test]
async fn an_operator_that_may_not_lead_any_more_writes_nothing_and_calls_it_no_refusal() {
    let fake = Fake {
        marks: vec![("anew", "c", true)],
        copies: vec![("anew", "c")],
        found: vec!["anew"],
        deleting: vec!["anew"],
        stands_still: true,
        ..Fake::default()
    };
    let error = compared(fake).await.unwrap_err();
    let is_expired = matches!(&error, WriteBackError::Wire(error) if error.is_expired());
    assert!(is_expired, "{error:?}");
}

#[tokio::test]
async fn a_list_that_the_crd_answers_is_not_compared() {
    let fake = Fake {
        copies: vec![("kept", "a")],
        marks: vec![("kept", "a", false)],
        is_taken_away: true,
        ..Fake::default()
    };
    let refused = compared(fake).await;
    assert!(matches!(refused, Err(WriteBackError::TakenAway { .. })));
}

/// Whoever is led to the CRD writes there, and is told so.
#[tokio::test]
async fn a_copy_that_clients_may_have_written_is_not_overwritten() {
    let first = r#"DELETE deleted {"resourceVersion":"10","uid":"a"}"#;
    // The list of the copies, then the conflict.
    for (looks, expected) in [(0, vec![]), (1, vec![first])] {
        let fake = Fake {
            copies: vec![("deleted", "a")],
            marks: vec![("deleted", "a", false)],
            api_service: (serde_json::Value::Null, looks),
            conflicts: 1,
            ..Fake::default()
        };
        let (refused, writes) = compare(fake).await;
        assert!(matches!(refused, Err(WriteBackError::TakenAway { .. })));
        assert_eq!(writes, expected);
    }
}
