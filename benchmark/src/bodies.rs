//! Bodies of requests, made before the clock starts.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{BufMut as _, Bytes, BytesMut};
use serde_json::{Value, json};

use super::names::{EPHEMERAL_VERSION, VERSION, namespace};
use testreports::{Corpus, Messages, Owner, ReportKind, rescan, subject_uid};

/// Label of one report in the base set, by which it alone is found.
pub const UNIQUE_LABEL: &str = "bench.reports-server.io/unique";
/// Placeholder of the resource version in a template.
const HOLE: &str = "@resource-version@";
/// Placeholder of the time of a scan.
const TIME: u64 = 9_999_999_999;
/// The time of the next scan: no two updates are the same, as that would be no update.
static NEXT: AtomicU64 = AtomicU64::new(1_700_000_001);

/// Bodies made from the corpus.
#[derive(Clone, Debug)]
pub struct Bodies {
    corpus: Corpus,
    messages: Messages,
}

/// The part of a report that an update changes beside the time of every result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The verdict of one result with its message, as recorded updates do.
    Finding,
    /// The verdict alone, which no engine does: it flatters a store that keeps messages apart.
    Verdict,
}

impl Change {
    /// Returns the name in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Finding => "update",
            Self::Verdict => "bare update",
        }
    }
}

/// An update of one report: its body in two variants, in pieces. The resource version goes between
/// the first two, the time of the scan between the others.
#[derive(Clone, Debug)]
pub struct Template([Vec<Bytes>; 2]);

impl Bodies {
    /// Returns bodies of these reports.
    #[must_use]
    pub fn new(corpus: Corpus) -> Self {
        let messages = Messages::of(corpus.templates(ReportKind::PolicyReport));
        Self { corpus, messages }
    }

    /// Changes a report as the scan number `round` does.
    pub fn rescan(&self, report: &mut Value, change: Change, round: u64) {
        match change {
            Change::Finding => self.messages.rescan(report, round),
            Change::Verdict => rescan(report, round),
        }
    }

    fn report(&self, group: &str, space: &str, name: &str, index: usize) -> Value {
        let owner = Owner {
            namespace: space.to_owned(),
            uid: String::new(),
        };
        let mut report = self.corpus.report(ReportKind::PolicyReport, index, &owner);
        report["apiVersion"] = json!(format!("{group}/{VERSION}"));
        report["metadata"]["name"] = json!(name);
        report["metadata"]["labels"][UNIQUE_LABEL] = json!(name);
        // Without owner the garbage collector leaves it alone.
        if let Some(metadata) = report["metadata"].as_object_mut() {
            metadata.remove("ownerReferences");
        }
        report
    }

    /// Returns a new report.
    #[must_use]
    pub fn create(&self, group: &str, space: &str, name: &str, index: usize) -> Bytes {
        Bytes::from(self.report(group, space, name, index).to_string())
    }

    /// Returns a new ephemeral report of subject number `index`, whose name the server makes.
    #[must_use]
    pub fn ephemeral(&self, group: &str, space: &str, index: usize) -> Bytes {
        let owner = Owner {
            namespace: space.to_owned(),
            uid: String::new(),
        };
        let kind = ReportKind::EphemeralReport;
        let mut report = self.corpus.report(kind, index, &owner);
        report["apiVersion"] = json!(format!("{group}/{EPHEMERAL_VERSION}"));
        if let Some(metadata) = report["metadata"].as_object_mut() {
            metadata.remove("name");
            metadata.remove("ownerReferences");
            let prefix = format!("{}-", subject_uid(kind, index));
            metadata.insert("generateName".to_owned(), json!(prefix));
        }
        Bytes::from(report.to_string())
    }

    /// Returns a report of the base set, as it is changed again and again.
    #[must_use]
    pub fn update(&self, group: &str, index: usize, change: Change) -> Template {
        let mut report = self.report(group, &namespace(index), &base_name(index), index);
        report["metadata"]["resourceVersion"] = json!(HOLE);
        let time = TIME.to_string();
        Template([1, 2].map(|round| {
            self.rescan(&mut report, change, round);
            let results = report.get_mut("results").and_then(Value::as_array_mut);
            for result in results.into_iter().flatten() {
                result["timestamp"]["seconds"] = json!(TIME);
            }
            let text = report.to_string();
            let (before, after) = text.split_once(HOLE).unwrap_or((&text, ""));
            let pieces = after.split(&time);
            let pieces = std::iter::once(before).chain(pieces);
            pieces
                .map(|piece| Bytes::copy_from_slice(piece.as_bytes()))
                .collect()
        }))
    }
}

impl Template {
    /// Returns the body for the update of `version`; `turn` chooses the variant.
    #[must_use]
    pub fn fill(&self, version: &str, turn: usize) -> Bytes {
        let pieces = &self.0[turn % 2];
        let time = NEXT.fetch_add(1, Ordering::Relaxed).to_string();
        let length: usize = pieces.iter().map(Bytes::len).sum();
        let holes = version.len() + pieces.len() * time.len();
        let mut body = BytesMut::with_capacity(length + holes);
        for (number, piece) in pieces.iter().enumerate() {
            match number {
                0 => {}
                1 => body.put_slice(version.as_bytes()),
                _ => body.put_slice(time.as_bytes()),
            }
            body.put_slice(piece);
        }
        body.freeze()
    }
}

/// Returns the name of a report of the base set.
#[must_use]
pub fn base_name(index: usize) -> String {
    format!("report-{index:06}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use testreports::Input;

    #[test]
    fn updates_carry_the_version_and_differ_in_turn() {
        let bodies = Bodies::new(Input::Generated { seed: 1 }.corpus().unwrap());
        let template = bodies.update("g.io", 7, Change::Finding);
        let parse = |turn| -> Value { serde_json::from_slice(&template.fill("42", turn)).unwrap() };
        let (even, odd) = (parse(0), parse(1));
        assert_eq!(even["metadata"]["resourceVersion"], "42");
        assert_eq!(even["metadata"]["name"], "report-000007");
        assert_eq!(even["apiVersion"], "g.io/v1alpha2");
        assert_ne!(even["results"], odd["results"]);
        let again = parse(2);
        assert_eq!(even["summary"], again["summary"]);
        assert_ne!(
            even["results"], again["results"],
            "an update that changes nothing is none"
        );
    }

    #[test]
    fn ephemeral_reports_are_found_by_their_subject() {
        let bodies = Bodies::new(Input::Generated { seed: 1 }.corpus().unwrap());
        let body = bodies.ephemeral("g.io", "n", 7);
        let report: Value = serde_json::from_slice(&body).unwrap();
        let uid = subject_uid(ReportKind::EphemeralReport, 7);
        let metadata = &report["metadata"];
        assert_eq!(report["apiVersion"], "g.io/v1");
        assert_eq!(metadata["generateName"], format!("{uid}-"));
        assert_eq!(metadata["labels"]["audit.kyverno.io/resource.uid"], uid);
        assert!(metadata.get("name").is_none() && metadata.get("ownerReferences").is_none());
    }

    #[test]
    fn only_a_bare_update_keeps_the_messages() {
        let bodies = Bodies::new(Input::detect().corpus().unwrap());
        for (change, same) in [(Change::Finding, false), (Change::Verdict, true)] {
            let template = bodies.update("g.io", 3, change);
            let messages = |turn| -> Vec<Value> {
                let body: Value = serde_json::from_slice(&template.fill("1", turn)).unwrap();
                let results = body["results"].as_array().unwrap();
                results.iter().map(|r| r["message"].clone()).collect()
            };
            assert_eq!(messages(0) == messages(1), same, "{change:?}");
        }
    }
}
