//! The content of a report, as analysts ask for it: its findings (results that are not a pass), and
//! the number of results of each outcome.
//!
//! All of it is text and numbers that the database takes as they are: no content of a report,
//! however odd, may prevent the report from being stored.

mod hash;
mod report;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use serde_json::Value;

pub(crate) use self::hash::hash;
use self::hash::json;
pub(crate) use self::report::Outcome;
use self::report::{Item, Report, Subject};

/// Longest message that is kept with a finding, in bytes; the whole one is in the report.
pub(crate) const MAX_MESSAGE: usize = 4096;

/// The projection of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Projection {
    /// A hash, which is equal for reports with the same content, whenever they were made.
    pub digest: i64,
    /// A hash, which is equal for reports that have as many results of each outcome of each check.
    pub tally: i64,
    /// The newest timestamp of a result, in seconds since the epoch.
    pub scanned: Option<i64>,
    /// JSON object for the function `project_v1` of the database, which describes it.
    pub detail: String,
    /// The checks that were made, each once.
    pub checks: Vec<Check>,
}

/// A check of a policy engine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Check {
    /// A hash of the rest.
    pub id: i64,
    /// JSON array of source, policy, rule, category and severity.
    pub json: String,
}

impl Projection {
    /// Returns the projection of `object`; `None` where it is not of a kind that is known to be a
    /// report, or is an ephemeral one.
    pub fn of(object: &Value) -> Option<Self> {
        let report = Report::read(object)?;
        let mut checks = BTreeMap::new();
        let results: Vec<(i64, Item<'_>)> = report
            .items()
            .map(|item| {
                let json = json(&item.check);
                let id = hash(json.as_bytes());
                checks.entry(id).or_insert(json);
                (id, item)
            })
            .collect();
        let tally = tally(&results);
        let detail = json(&Said {
            subject: &report.subject,
            tally: &tally,
            findings: &findings(&results),
        });
        Some(Self {
            digest: hash(detail.as_bytes()),
            tally: hash(json(&tally).as_bytes()),
            scanned: results.iter().filter_map(|(_, item)| item.seconds).max(),
            detail,
            checks: checks
                .into_iter()
                .map(|(id, json)| Check { id, json })
                .collect(),
        })
    }
}

#[derive(Serialize)]
struct Said<'a> {
    subject: &'a Subject<'a>,
    tally: &'a Tally,
    findings: &'a [Finding<'a>],
}

/// The checks of each outcome, in order, each as often as there are results.
type Tally = BTreeMap<Outcome, Vec<i64>>;

fn tally(results: &[(i64, Item<'_>)]) -> Tally {
    let mut tally = Tally::new();
    for (check, item) in results {
        tally.entry(item.outcome).or_default().push(*check);
    }
    for checks in tally.values_mut() {
        checks.sort_unstable();
    }
    tally
}

#[derive(Serialize)]
struct Finding<'a> {
    id: i64,
    check: i64,
    result: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    severity: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    subject: Option<&'a Subject<'a>>,
}

/// Returns the findings, in the order of their numbers: the order of the results does not matter.
fn findings<'a>(results: &'a [(i64, Item<'a>)]) -> Vec<Finding<'a>> {
    let mut seen: HashMap<i64, u32> = HashMap::new();
    let mut findings: Vec<_> = results
        .iter()
        .filter(|(_, item)| item.outcome != Outcome::Pass)
        .map(|(check, item)| {
            let identity = hash(json(&(check, item.outcome, &item.subject)).as_bytes());
            // The same check may have failed more than once for one object.
            let nth = seen.entry(identity).or_insert(0);
            *nth += 1;
            let id = match *nth {
                1 => identity,
                nth => hash(json(&(identity, nth)).as_bytes()),
            };
            Finding {
                id,
                check: *check,
                result: item.outcome,
                severity: item.check.severity(),
                message: item
                    .message
                    .map(|text| hash(json(&(check, text)).as_bytes())),
                text: item.message,
                subject: item.subject.as_ref(),
            }
        })
        .collect();
    findings.sort_unstable_by_key(|finding| finding.id);
    findings
}
