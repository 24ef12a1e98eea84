//! Generated reports, of the shape of recorded ones.

use serde_json::{Map, Value, json};

use super::bed::KINDS;

pub const SEVERITIES: [&str; 5] = ["info", "low", "medium", "high", "critical"];
pub const OUTCOMES: [&str; 5] = ["pass", "fail", "warn", "error", "skip"];

/// A report: `results` are (policy, outcome) numbers; `seconds` is when they were made.
pub fn report(kind: usize, name: &str, results: &[(u8, u8)], seconds: i64) -> Value {
    let (group, version, _, kind, namespaced) = KINDS[kind];
    let number: u64 = name.bytes().map(u64::from).sum();
    let mut metadata = json!({"name": name, "uid": format!("uid-{name}"),
        "creationTimestamp": "2026-11-21T08:00:00Z"});
    let mut subject = json!({"kind": "Pod", "name": format!("pod-{name}"), "uid": "u"});
    if namespaced {
        metadata["namespace"] = json!(namespace(number));
        subject["namespace"] = json!(namespace(number));
    }
    let results: Vec<_> = results
        .iter()
        .map(|&(policy, outcome)| result(policy, outcome, seconds))
        .collect();
    let mut object = Map::new();
    object.insert("apiVersion".into(), json!(format!("{group}/{version}")));
    object.insert("kind".into(), json!(kind));
    object.insert("metadata".into(), metadata);
    if group.ends_with("kyverno.io") {
        object.insert("spec".into(), json!({"owner": subject, "results": results}));
    } else {
        object.insert("scope".into(), subject);
        object.insert("results".into(), json!(results));
    }
    Value::Object(object)
}

fn namespace(number: u64) -> String {
    format!("team-{:02}", number % 5)
}

fn result(policy: u8, outcome: u8, seconds: i64) -> Value {
    let outcome = OUTCOMES[usize::from(outcome) % OUTCOMES.len()];
    let severity = SEVERITIES[usize::from(policy) % SEVERITIES.len()];
    let mut result = json!({"source": "kyverno", "policy": format!("policy-{policy:02}"),
        "rule": "rule", "category": "Pod Security", "severity": severity, "result": outcome,
        "scored": true, "message": format!("rule of policy-{policy:02}: {outcome} \u{0} at /spec"),
        "timestamp": {"seconds": seconds, "nanos": 0}});
    if policy % 7 == 6 {
        result["resources"] = json!([{"kind": "Deployment", "name": "app", "namespace": "other"}]);
        result["severity"] = json!(null);
    }
    result
}
