//! Reading reports of the kinds that are projected.

use serde::Serialize;
use serde_json::Value;

use super::MAX_MESSAGE;

/// Kinds with their results at the top, by group.
const PLAIN: &[(&str, &[&str])] = &[
    ("wgpolicyk8s.io", &["PolicyReport", "ClusterPolicyReport"]),
    ("openreports.io", &["Report", "ClusterReport"]),
];
/// Kinds with their results under `spec`. Those of `reports.kyverno.io` are not among them:
/// ephemeral reports are most of the writes, and gone before anybody asks.
const INTERMEDIATE: &[(&str, &[&str])] = &[(
    "kyverno.io",
    &[
        "AdmissionReport",
        "ClusterAdmissionReport",
        "BackgroundScanReport",
        "ClusterBackgroundScanReport",
    ],
)];
/// Seconds since the epoch that the database takes: up to the end of the year 9999.
const SECONDS: std::ops::RangeInclusive<i64> = 0..=253_402_300_799;

/// A report.
pub(super) struct Report<'a> {
    /// The object that the report is about.
    pub subject: Subject<'a>,
    /// The tool that made the checks, for results that do not say.
    source: Option<&'a str>,
    results: &'a [Value],
}

/// An object that was checked.
#[derive(Debug, Serialize)]
pub(super) struct Subject<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<&'a str>,
}

/// A result.
pub(super) struct Item<'a> {
    pub check: CheckOf<'a>,
    pub outcome: Outcome,
    pub message: Option<&'a str>,
    /// The object that the result is about, where it says so itself.
    pub subject: Option<Subject<'a>>,
    /// The time at which it was made, in seconds since the epoch.
    pub seconds: Option<i64>,
}

/// The check of a result: source, policy, rule, category and severity.
#[derive(Serialize)]
pub(super) struct CheckOf<'a>(
    Option<&'a str>,
    &'a str,
    Option<&'a str>,
    Option<&'a str>,
    Option<&'static str>,
);

impl CheckOf<'_> {
    pub fn severity(&self) -> Option<&'static str> {
        self.4
    }
}

/// Outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    /// It was met.
    Pass,
    /// It did not apply.
    Skip,
    /// It was not met, which does not count.
    Warn,
    /// It could not be carried out.
    Error,
    /// It was not met.
    Fail,
}

impl<'a> Report<'a> {
    /// Reads a report; `None` for objects of other kinds.
    pub fn read(object: &'a Value) -> Option<Self> {
        let (group, _) = object["apiVersion"].as_str()?.split_once('/')?;
        let kind = object["kind"].as_str()?;
        let among = |kinds: &[(&str, &[&str])]| {
            kinds
                .iter()
                .any(|(g, kinds)| *g == group && kinds.contains(&kind))
        };
        let metadata = &object["metadata"];
        let (content, scope) = if among(PLAIN) {
            (object, &object["scope"])
        } else if among(INTERMEDIATE) {
            let spec = &object["spec"];
            let owner = match &spec["owner"] {
                Value::Null => &metadata["ownerReferences"][0],
                owner => owner,
            };
            (spec, owner)
        } else {
            return None;
        };
        let mut subject = Subject::read(scope);
        if subject.name.is_some() && subject.namespace.is_none() {
            subject.namespace = text(&metadata["namespace"]);
        }
        Some(Self {
            subject,
            source: text(&content["source"]),
            results: content["results"].as_array().map_or(&[], Vec::as_slice),
        })
    }

    /// Returns the results with an outcome.
    pub fn items(&self) -> impl Iterator<Item = Item<'a>> {
        self.results
            .iter()
            .filter_map(|result| Item::read(result, self.source))
    }
}

impl<'a> Subject<'a> {
    fn read(reference: &'a Value) -> Self {
        Self {
            kind: text(&reference["kind"]),
            namespace: text(&reference["namespace"]),
            name: text(&reference["name"]),
        }
    }
}

impl<'a> Item<'a> {
    fn read(result: &'a Value, source: Option<&'a str>) -> Option<Self> {
        let outcome = outcome(&result["result"])?;
        let subject = Subject::read(&result["resources"][0]);
        let seconds = result["timestamp"]["seconds"].as_i64();
        Some(Self {
            check: CheckOf(
                text(&result["source"]).or(source),
                text(&result["policy"]).unwrap_or_default(),
                text(&result["rule"]),
                text(&result["category"]),
                severity(&result["severity"]),
            ),
            outcome,
            message: text(&result["message"]).map(shortened),
            subject: subject.name.is_some().then_some(subject),
            seconds: seconds.filter(|s| SECONDS.contains(s)),
        })
    }
}

/// Returns a text that is not empty.
fn text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_MESSAGE)]
}

fn outcome(value: &Value) -> Option<Outcome> {
    Some(match value.as_str()? {
        "pass" => Outcome::Pass,
        "skip" => Outcome::Skip,
        "warn" => Outcome::Warn,
        "error" => Outcome::Error,
        "fail" => Outcome::Fail,
        _ => return None,
    })
}

fn severity(value: &Value) -> Option<&'static str> {
    ["info", "low", "medium", "high", "critical"]
        .into_iter()
        .find(|known| value.as_str() == Some(known))
}
