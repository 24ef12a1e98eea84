//! Test input: reports as policy engines write them, and the CRDs that they need.
//!
//! The recorded reports and the vendors' CRDs are used where `../shared/data` is present (see
//! [`Input::detect`]); elsewhere a generator makes reports of the same shape and the catalog's CRDs
//! are used. Both return the same types, so no user of this module knows which it was.

mod generate;
mod kind;
mod messages;
mod recorded;
pub mod shape;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

pub use kind::ReportKind;
pub use messages::Messages;

/// Groups that are taken over.
pub const GROUPS: [&str; 2] = ["wgpolicyk8s.io", "reports.kyverno.io"];

/// Returns the kinds of [`GROUPS`].
pub fn kinds() -> impl Iterator<Item = ReportKind> {
    ReportKind::ALL
        .into_iter()
        .filter(|kind| GROUPS.contains(&kind.group()))
}

/// The reason why test input is not available.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// A file of the recorded data is missing or unreadable.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A recorded object or CRD does not have the right form.
    #[error("{}: {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
    /// The catalog returned no usable CRD.
    #[error("the catalog's CRDs cannot be used: {0}")]
    Catalog(String),
}

/// The source of reports and CRDs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The folder with `crds/` and `reports/`.
    Recorded(PathBuf),
    /// Our own generator and the catalog's CRDs; the seed makes runs repeatable.
    Generated {
        /// Seed of the generator.
        seed: u64,
    },
}

impl Input {
    /// Returns the recorded data where it is present: `$REPORTS_DATA`, else `../shared/data` beside
    /// the workspace; otherwise generated input.
    #[must_use]
    pub fn detect() -> Self {
        let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
        let folder = std::env::var_os("REPORTS_DATA").map_or(beside, PathBuf::from);
        if folder.join("reports").is_dir() && folder.join("crds").is_dir() {
            Self::Recorded(folder)
        } else {
            Self::Generated { seed: 1 }
        }
    }

    /// Returns `recorded` or `generated`, for tables and logs.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Recorded(_) => "recorded",
            Self::Generated { .. } => "generated",
        }
    }

    /// Returns the CRDs of `groups`.
    ///
    /// # Errors
    /// If a recorded file cannot be read, or the catalog's schema is not a CRD.
    pub fn crds(&self, groups: &[&str]) -> Result<Vec<CustomResourceDefinition>, InputError> {
        let all = match self {
            Self::Recorded(folder) => recorded::crds(&folder.join("crds"))?,
            Self::Generated { .. } => generate::crds()?,
        };
        Ok(all
            .into_iter()
            .filter(|crd| groups.contains(&crd.spec.group.as_str()))
            .collect())
    }

    /// Returns templates of every kind.
    ///
    /// # Errors
    /// If a recorded file cannot be read or holds something else than reports.
    pub fn corpus(&self) -> Result<Corpus, InputError> {
        let mut templates = BTreeMap::new();
        for kind in ReportKind::ALL {
            let reports = match self {
                Self::Recorded(folder) => recorded::reports(&folder.join("reports"), kind)?,
                Self::Generated { seed } => generate::reports(kind, *seed),
            };
            templates.insert(kind, reports);
        }
        Ok(Corpus { templates })
    }
}

/// An object that owns reports, so that the garbage collector leaves them alone.
#[derive(Clone, Debug)]
pub struct Owner {
    /// Name of the owning namespace.
    pub namespace: String,
    /// The uid of the namespace.
    pub uid: String,
}

/// Reports to make others from.
#[derive(Clone, Debug)]
pub struct Corpus {
    templates: BTreeMap<ReportKind, Vec<Value>>,
}

impl Corpus {
    /// Returns the templates of a kind, with the metadata that a client would send.
    #[must_use]
    pub fn templates(&self, kind: ReportKind) -> &[Value] {
        self.templates.get(&kind).map_or(&[], Vec::as_slice)
    }

    /// Returns the corpus with no more than `results` in each report, as a cluster with few policies
    /// has them.
    #[must_use]
    pub fn with_results(mut self, results: usize) -> Self {
        for report in self.templates.values_mut().flatten() {
            if let Some(all) = results_mut(report) {
                all.truncate(results);
                set_summary(report);
            }
        }
        self
    }

    /// Returns report number `index` of a kind: the template's content under a name of its own, in
    /// the owner's namespace and owned by it. The same index returns the same report.
    #[must_use]
    pub fn report(&self, kind: ReportKind, index: usize, owner: &Owner) -> Value {
        let templates = self.templates(kind);
        let mut report = templates[index % templates.len()].clone();
        let subject = subject_uid(kind, index);
        let meta = &mut report["metadata"];
        meta["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Namespace",
            "name": owner.namespace, "uid": owner.uid}]);
        if kind.namespaced() {
            meta["namespace"] = json!(owner.namespace);
        }
        if kind.ephemeral() {
            meta["labels"]["audit.kyverno.io/resource.uid"] = json!(subject);
        }
        meta["name"] = json!(subject);
        report
    }
}

/// Returns the uid of the made-up resource that report `index` is about: reports are named after
/// it.
#[must_use]
pub fn subject_uid(kind: ReportKind, index: usize) -> String {
    format!("{:08x}-0000-4000-8000-{:012x}", kind as u32 + 1, index)
}

/// Changes a report as a new scan does, apart from the message: the time of every result, the verdict
/// of one of them, and the counts. `round` must differ from call to call for the report to differ.
/// [`Messages::rescan`] changes the message, too.
pub fn rescan(report: &mut Value, round: u64) {
    let Some(results) = results_mut(report) else {
        return;
    };
    let flipped = usize::try_from(round).unwrap_or(0) % results.len().max(1);
    for (index, result) in results.iter_mut().enumerate() {
        result["timestamp"] = json!({"seconds": 1_700_000_000 + round, "nanos": 0});
        if index == flipped {
            let verdict = if result["result"] == "pass" {
                "fail"
            } else {
                "pass"
            };
            result["result"] = json!(verdict);
        }
    }
    set_summary(report);
}

/// Returns the part of a report that has results and summary: `spec` of an ephemeral one.
fn body(report: &Value) -> &Value {
    report.get("spec").unwrap_or(report)
}

fn body_mut(report: &mut Value) -> &mut Value {
    if report.get("spec").is_some() {
        &mut report["spec"]
    } else {
        report
    }
}

/// Returns the results of a report of any kind.
fn results(report: &Value) -> Option<&Vec<Value>> {
    body(report).get("results")?.as_array()
}

fn results_mut(report: &mut Value) -> Option<&mut Vec<Value>> {
    body_mut(report).get_mut("results")?.as_array_mut()
}

/// Sets the counts of a report to those of its results.
fn set_summary(report: &mut Value) {
    let mut summary = json!({"pass": 0, "fail": 0, "warn": 0, "error": 0, "skip": 0});
    for result in results(report).into_iter().flatten() {
        if let Some(verdict) = result["result"].as_str() {
            summary[verdict] = json!(summary[verdict].as_u64().unwrap_or(0) + 1);
        }
    }
    body_mut(report)["summary"] = summary;
}

/// Brings an object into the form in which a client creates it: without the fields that the server
/// sets.
fn as_sent(report: &mut Value) {
    if let Some(meta) = report.get_mut("metadata").and_then(Value::as_object_mut) {
        for set_by_server in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "generation",
            "managedFields",
            "generateName",
        ] {
            meta.remove(set_by_server);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> Owner {
        Owner {
            namespace: "n".into(),
            uid: "u".into(),
        }
    }

    #[test]
    fn reports_differ_by_index_and_repeat_by_index() {
        let corpus = Input::Generated { seed: 7 }.corpus().unwrap();
        let a = corpus.report(ReportKind::EphemeralReport, 3, &owner());
        assert_eq!(a, corpus.report(ReportKind::EphemeralReport, 3, &owner()));
        let b = corpus.report(ReportKind::EphemeralReport, 3 + shape::TEMPLATES, &owner());
        assert_ne!(a["metadata"]["name"], b["metadata"]["name"]);
        assert_eq!(a["spec"], b["spec"]);
        assert_eq!(
            a["metadata"]["labels"]["audit.kyverno.io/resource.uid"],
            a["metadata"]["name"]
        );
    }

    #[test]
    fn fewer_results_are_counted() {
        let corpus = Input::detect().corpus().unwrap().with_results(1);
        for report in ReportKind::ALL.map(|kind| corpus.report(kind, 0, &owner())) {
            assert_eq!(results(&report).unwrap().len(), 1);
            let counts = body(&report)["summary"].as_object().unwrap();
            assert_eq!(counts.values().filter_map(Value::as_u64).sum::<u64>(), 1);
        }
    }

    #[test]
    fn a_rescan_keeps_the_counts_true() {
        let corpus = Input::detect().corpus().unwrap();
        for kind in ReportKind::ALL {
            let mut report = corpus.report(kind, 0, &owner());
            let before = report.clone();
            rescan(&mut report, 1);
            assert_ne!(before, report, "{kind:?}");
            let body = if kind.ephemeral() {
                &report["spec"]
            } else {
                &report
            };
            let results = body["results"].as_array().unwrap();
            let passed = results.iter().filter(|r| r["result"] == "pass").count();
            assert_eq!(body["summary"]["pass"], json!(passed));
        }
    }
}
