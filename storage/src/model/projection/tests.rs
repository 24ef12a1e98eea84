use serde_json::{Value, json};

use super::hash::hash;
use super::{MAX_MESSAGE, Projection};

fn result(policy: &str, outcome: &str, seconds: i64) -> Value {
    json!({"policy": policy, "rule": "r", "source": "kyverno", "category": "c",
        "severity": "high", "result": outcome, "message": format!("{policy} {outcome}"),
        "timestamp": {"seconds": seconds, "nanos": 0}})
}

fn report(results: &[Value]) -> Value {
    json!({"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport",
        "metadata": {"name": "n", "namespace": "ns"},
        "scope": {"kind": "Pod", "name": "web"}, "results": results})
}

fn of(object: &Value) -> Projection {
    Projection::of(object).unwrap()
}

fn detail(projection: &Projection) -> Value {
    serde_json::from_str(&projection.detail).unwrap()
}

#[test]
fn results_become_findings_counts_and_checks() {
    let results = [
        result("a", "pass", 5),
        result("b", "fail", 7),
        result("a", "pass", 6),
    ];
    let got = of(&report(&results));
    let said = detail(&got);
    assert_eq!(got.scanned, Some(7));
    let id = |policy| {
        let text = json!(["kyverno", policy, "r", "c", "high"]).to_string();
        let id = hash(text.as_bytes());
        assert!(got.checks.iter().any(|c| c.id == id && c.json == text));
        id
    };
    let (a, b) = (id("a"), id("b"));
    assert_eq!(got.checks.len(), 2);
    assert_eq!(said["tally"], json!({"pass": [a, a], "fail": [b]}));
    assert_eq!(
        said["subject"],
        json!({"kind": "Pod", "namespace": "ns", "name": "web"})
    );
    let finding = json!({"id": said["findings"][0]["id"], "check": b, "result": "fail",
        "severity": "high", "message": hash(json!([b, "b fail"]).to_string().as_bytes()), "text": "b fail"});
    assert_eq!(said["findings"], json!([finding]));
}

#[test]
fn a_scan_that_finds_nothing_new_has_the_same_digest() {
    let first = of(&report(&[result("a", "pass", 5), result("b", "fail", 7)]));
    let later = of(&report(&[result("b", "fail", 99), result("a", "pass", 98)]));
    assert_eq!((first.digest, first.tally), (later.digest, later.tally));
    assert_eq!(later.scanned, Some(99));
    let fixed = of(&report(&[result("b", "pass", 99), result("a", "pass", 98)]));
    assert_ne!(first.digest, fixed.digest);
    assert_ne!(first.tally, fixed.tally);
    let mut other_words = report(&[result("a", "pass", 5), result("b", "fail", 7)]);
    other_words["results"][1]["message"] = json!("other");
    let other_words = of(&other_words);
    assert_ne!(first.digest, other_words.digest);
    assert_eq!(first.tally, other_words.tally);
    assert_eq!(
        detail(&first)["findings"][0]["id"],
        detail(&other_words)["findings"][0]["id"]
    );
}

#[test]
fn equal_findings_keep_apart() {
    let same = [result("a", "fail", 1), result("a", "fail", 2)];
    let said = detail(&of(&report(&same)));
    let ids: Vec<_> = said["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| &f["id"])
        .collect();
    assert_eq!(ids.len(), 2);
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn every_known_kind_that_stays_is_read_and_no_other() {
    let results = json!([result("a", "fail", 1)]);
    let owner = json!({"kind": "Pod", "name": "web", "uid": "u"});
    for resource in crds::catalog::resources() {
        let version = format!("{}/{}", resource.group, resource.versions[0].name);
        let mut object = json!({"apiVersion": version, "kind": resource.kind,
            "metadata": {"name": "n"}});
        let schema = &resource.versions[0].schema["properties"];
        if schema["results"].is_object() {
            object["results"] = results.clone();
            object["scope"] = owner.clone();
        } else if schema["spec"]["properties"]["owner"].is_object() {
            object["spec"] = json!({"results": results, "owner": owner});
        } else {
            object["spec"] = json!({"results": results});
            object["metadata"]["ownerReferences"] = json!([owner]);
        }
        if resource.group == "reports.kyverno.io" {
            assert!(Projection::of(&object).is_none(), "{version}");
            continue;
        }
        let said = detail(&of(&object));
        assert_eq!(said["findings"].as_array().unwrap().len(), 1, "{version}");
        assert_eq!(
            said["subject"],
            json!({"kind": "Pod", "name": "web"}),
            "{version}"
        );
        object["apiVersion"] = json!("example.io/v1");
        assert!(Projection::of(&object).is_none());
    }
}

#[test]
fn what_is_odd_is_left_out_or_shortened() {
    let mut object = report(&[
        json!({"policy": "a", "result": "maybe"}),
        json!({"policy": "a"}),
        json!("text"),
        json!({"result": "fail", "severity": "bad", "timestamp": {"seconds": i64::MAX},
            "message": "é".repeat(MAX_MESSAGE), "policy": "nul \u{0}",
            "resources": [{"kind": "Pod", "name": "p\u{0}"}]}),
    ]);
    let got = of(&object);
    let said = detail(&got);
    assert!(!got.detail.contains("\\u0000") && !got.checks[0].json.contains("\\u0000"));
    assert_eq!(said["tally"], json!({"fail": [got.checks[0].id]}));
    assert_eq!(
        said["findings"][0]["text"],
        json!("é".repeat(MAX_MESSAGE / 2))
    );
    assert_eq!(said["findings"][0]["name"], json!("p\u{fffd}"));
    assert!(said["findings"][0].get("severity").is_none());
    assert_eq!(got.scanned, None);
    for results in [json!(null), json!({}), json!([])] {
        object["results"] = results;
        let said = detail(&of(&object));
        assert_eq!(
            (&said["tally"], &said["findings"]),
            (&json!({}), &json!([]))
        );
    }
}
