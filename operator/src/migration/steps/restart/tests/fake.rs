//! A kube-apiserver with what a restart reads and writes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use kube::Client;
use serde_json::{Value, json};

use super::super::key;
use crate::testing::{Received, pair};

const NOTES: &str = "/api/v1/namespaces/operator/configmaps";
const WORKLOADS: &str = "/apis/apps/v1/namespaces/kyverno";

/// A kube-apiserver with the notes, the report and workloads.
#[derive(Default)]
pub struct Fake {
    notes: Option<Value>,
    workloads: BTreeMap<String, Value>,
    /// True when workloads may not be changed.
    pub forbidden: bool,
    /// Reasons and notes of events.
    pub events: Vec<(String, String)>,
    /// Requests that are answered before the operator is dead.
    pub left: Option<usize>,
}

pub type Shared = Arc<Mutex<Fake>>;

fn merge(target: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in fields {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut target[name], value);
        }
    }
}

impl Fake {
    fn answer(&mut self, request: Received) {
        let path = request.path.split('?').next().unwrap().to_owned();
        if path.contains("/events.k8s.io/") {
            let text = |key: &str| request.body[key].as_str().unwrap_or_default().to_owned();
            self.events.push((text("reason"), text("note")));
            let body = request.body.clone();
            return request.answer(201, &body);
        }
        if let Some(name) = path.strip_prefix(WORKLOADS) {
            return self.workload(name, request);
        }
        let body = request.body.clone();
        if !path.starts_with(NOTES) {
            // The report.
            return request.answer(200, &body);
        }
        match (request.method.as_str(), &mut self.notes) {
            ("POST", notes) => *notes = Some(body),
            ("PATCH", Some(notes)) => merge(notes, &body),
            (_, Some(_)) => {}
            (_, None) => return request.refuse(404, "NotFound"),
        }
        let notes = self.notes.clone().unwrap();
        request.answer(200, &notes);
    }

    fn workload(&mut self, name: &str, request: Received) {
        let Some(workload) = self.workloads.get_mut(name) else {
            return request.refuse(404, "NotFound");
        };
        if request.method == "PATCH" {
            if self.forbidden {
                return request.refuse(403, "Forbidden");
            }
            let before = workload["spec"].clone();
            merge(workload, &request.body);
            if workload["spec"] != before {
                let generation = workload["metadata"]["generation"].as_u64().unwrap();
                workload["metadata"]["generation"] = json!(generation + 1);
            }
        }
        let workload = workload.clone();
        request.answer(200, &workload);
    }

    /// Returns the note about lost watches, if there is one.
    pub fn note(&self) -> Option<String> {
        let data = &self.notes.as_ref()?["data"];
        Some(data.get(key(GROUP))?.as_str()?.to_owned())
    }

    /// Returns the number of restarts of each workload.
    pub fn restarts(&self) -> Vec<u64> {
        let generations = self
            .workloads
            .values()
            .map(|w| &w["metadata"]["generation"]);
        generations.map(|g| g.as_u64().unwrap() - 1).collect()
    }
}

pub const GROUP: &str = "wgpolicyk8s.io";

/// Returns a kube-apiserver with these workloads.
pub fn fake(workloads: &[&str]) -> Shared {
    let workload = |name: &&str| {
        let object = json!({"metadata": {"generation": 1, "resourceVersion": "5"},
            "spec": {"template": {}}});
        (format!("/deployments/{name}"), object)
    };
    Arc::new(Mutex::new(Fake {
        workloads: workloads.iter().map(workload).collect(),
        ..Fake::default()
    }))
}

/// Returns a client that `fake` answers.
pub fn client(fake: &Shared) -> Client {
    let (client, mut server) = pair();
    let fake = Arc::clone(fake);
    tokio::spawn(async move {
        while let Some(request) = server.next_if_any().await {
            let dead = {
                let mut fake = fake.lock().unwrap();
                let dead = fake.left == Some(0);
                fake.left = fake.left.map(|left| left.saturating_sub(1));
                dead
            };
            if dead {
                // Never answered.
                std::future::pending::<()>().await;
            }
            fake.lock().unwrap().answer(request);
        }
    });
    client
}
