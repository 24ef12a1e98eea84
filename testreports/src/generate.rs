//! Generated reports of the measured [`shape`](super::shape) with texts of our own.

use crds::catalog;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use serde_json::{Map, Value, json};

use super::{InputError, ReportKind, shape};

const POLICIES: [&str; 12] = [
    "forbid-host-ports",
    "limit-capabilities",
    "no-latest-tag",
    "own-service-account",
    "probes-present",
    "pull-from-known-registry",
    "read-only-root",
    "requests-and-limits",
    "run-as-non-root",
    "seccomp-default",
    "team-label",
    "volume-types",
];
const CATEGORIES: [&str; 3] = ["Pod Hardening", "House Rules", "Supply Chain"];
const WORDS: [&str; 16] = [
    "the",
    "container",
    "field",
    "must",
    "not",
    "be",
    "set",
    "to",
    "value",
    "of",
    "path",
    "spec",
    "rule",
    "checked",
    "against",
    "template",
];

/// Returns the catalog's report APIs as CRDs.
pub fn crds() -> Result<Vec<CustomResourceDefinition>, InputError> {
    catalog::resources()
        .iter()
        .map(|resource| {
            catalog::to_crd(resource).map_err(|error| InputError::Catalog(error.to_string()))
        })
        .collect()
}

/// Returns [`shape::TEMPLATES`] reports of a kind.
pub fn reports(kind: ReportKind, seed: u64) -> Vec<Value> {
    let mut rng = StdRng::seed_from_u64(seed.wrapping_mul(31).wrapping_add(kind as u64));
    (0..shape::TEMPLATES)
        .map(|_| report(kind, &mut rng))
        .collect()
}

fn report(kind: ReportKind, rng: &mut StdRng) -> Value {
    let lengths = match (kind.namespaced(), kind.ephemeral()) {
        (true, false) => shape::RESULTS_NAMESPACED,
        (true, true) => shape::RESULTS_EPHEMERAL,
        (false, _) => shape::RESULTS_CLUSTER,
    };
    let results: Vec<Value> = (0..shape::at(lengths, rng.random()))
        .map(|_| result(rng))
        .collect();
    let count = |verdict: &str| results.iter().filter(|r| r["result"] == verdict).count();
    let summary = json!({"pass": count("pass"), "fail": count("fail"), "warn": count("warn"),
        "error": count("error"), "skip": count("skip")});
    let api_version = format!("{}/{}", kind.group(), kind.version());
    let mut report = json!({"apiVersion": api_version, "kind": kind.kind(),
        "metadata": {"labels": labels(kind, rng)}});
    if kind.ephemeral() {
        report["metadata"]["annotations"] = json!({"audit.kyverno.io/resource.name": words(24, rng),
            "audit.kyverno.io/last-scan-time": "2026-01-01T00:00:00Z"});
        report["spec"] = json!({"owner": {"apiVersion": "", "kind": "", "name": "", "uid": ""},
            "results": results, "summary": summary});
    } else {
        report["scope"] = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "name": words(12, rng), "namespace": "team"});
        report["results"] = json!(results);
        report["summary"] = summary;
    }
    report
}

fn labels(kind: ReportKind, rng: &mut StdRng) -> Value {
    let mut labels = Map::new();
    labels.insert("app.kubernetes.io/managed-by".into(), json!("kyverno"));
    if kind.ephemeral() {
        let lengths = if kind.namespaced() {
            shape::EPHEMERAL_LABELS
        } else {
            shape::CLUSTER_EPHEMERAL_LABELS
        };
        let wanted = shape::at(lengths, rng.random());
        labels.insert("audit.kyverno.io/source".into(), json!("background-scan"));
        labels.insert("audit.kyverno.io/resource.kind".into(), json!("Deployment"));
        labels.insert("audit.kyverno.io/resource.group".into(), json!("apps"));
        labels.insert("audit.kyverno.io/resource.version".into(), json!("v1"));
        labels.insert(
            "audit.kyverno.io/resource.hash".into(),
            json!(format!("{:032x}", rng.random::<u128>())),
        );
        for index in 0.. {
            if labels.len() + 1 >= wanted {
                break;
            }
            let policy = POLICIES[index % POLICIES.len()];
            let key = format!("cpol.kyverno.io/{policy}-{}", index / POLICIES.len());
            labels.insert(key, json!(rng.random_range(1000..100_000).to_string()));
        }
    }
    Value::Object(labels)
}

fn result(rng: &mut StdRng) -> Value {
    let policy = POLICIES[rng.random_range(0..POLICIES.len())];
    let mut result = json!({
        "policy": policy,
        "category": CATEGORIES[rng.random_range(0..CATEGORIES.len())],
        "message": words(shape::at(shape::MESSAGE, rng.random()), rng),
        "properties": {"process": "background scan"},
        "result": weighted(shape::VERDICTS, rng),
        "scored": true,
        "source": "kyverno",
        "timestamp": {"seconds": 1_767_225_600 + rng.random_range(0..86_400), "nanos": 0},
    });
    let severity = weighted(shape::SEVERITIES, rng);
    if !severity.is_empty() {
        result["severity"] = json!(severity);
    }
    if rng.random_range(0..1000) >= shape::WITHOUT_RULE {
        result["rule"] = json!(format!("{policy}-rule"));
    }
    result
}

/// Returns a text of about `length` bytes.
fn words(length: usize, rng: &mut StdRng) -> String {
    let mut text = String::with_capacity(length + 8);
    while text.len() < length {
        if !text.is_empty() {
            text.push('-');
        }
        text.push_str(WORDS[rng.random_range(0..WORDS.len())]);
    }
    text.truncate(length);
    text.trim_end_matches('-').to_owned()
}

fn weighted<'a>(choices: &[(&'a str, u32)], rng: &mut impl Rng) -> &'a str {
    let total: u32 = choices.iter().map(|(_, weight)| weight).sum();
    let mut left = rng.random_range(0..total);
    for (choice, weight) in choices {
        if left < *weight {
            return choice;
        }
        left -= weight;
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Input;

    /// Returns mean size in bytes, mean number of results, and part that passed.
    #[allow(clippy::cast_precision_loss, reason = "sums far below 2^52")]
    fn figures(reports: &[Value], kind: ReportKind) -> [f64; 3] {
        let mut sums = [0.0, 0.0, 0.0];
        for report in reports {
            let body = if kind.ephemeral() {
                &report["spec"]
            } else {
                report
            };
            let results = body["results"].as_array().unwrap();
            sums[0] += report.to_string().len() as f64;
            sums[1] += results.len() as f64;
            sums[2] += results.iter().filter(|r| r["result"] == "pass").count() as f64;
        }
        let count = reports.len() as f64;
        [sums[0] / count, sums[1] / count, sums[2] / sums[1]]
    }

    #[test]
    fn generated_reports_have_the_shape_of_recorded_ones() {
        let recorded = Input::detect();
        if recorded.name() != "recorded" {
            assert!(
                std::env::var_os("CI").is_none(),
                "CI has the recorded reports"
            );
            return;
        }
        let recorded = recorded.corpus().unwrap();
        for kind in [
            ReportKind::PolicyReport,
            ReportKind::EphemeralReport,
            ReportKind::Report,
        ] {
            let ours = figures(&reports(kind, 1), kind);
            let theirs = figures(recorded.templates(kind), kind);
            for (name, (ours, theirs)) in ["bytes", "results", "passed"]
                .iter()
                .zip(ours.into_iter().zip(theirs))
            {
                let ratio = ours / theirs;
                assert!(
                    (0.8..1.25).contains(&ratio),
                    "{kind:?} {name}: {ours:.1} and {theirs:.1}"
                );
            }
        }
    }
}
