//! The messages of results by check and verdict. In recorded reports no check that passes and fails
//! has a message in common for both: a verdict that changes takes its message with it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{results, set_summary};

/// The messages of one check, by verdict.
type ByVerdict = BTreeMap<String, Vec<String>>;

/// The messages that each check gives with each verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Messages(BTreeMap<(String, String), ByVerdict>);

impl Messages {
    /// Returns the messages in these reports, each once for a check and verdict.
    #[must_use]
    pub fn of(reports: &[Value]) -> Self {
        let mut all: BTreeMap<(String, String), ByVerdict> = BTreeMap::new();
        for result in reports.iter().filter_map(results).flatten() {
            let (Some(verdict), Some(message)) =
                (result["result"].as_str(), result["message"].as_str())
            else {
                continue;
            };
            let check = all.entry(check(result)).or_default();
            let known = check.entry(verdict.to_owned()).or_default();
            if !known.iter().any(|other| other == message) {
                known.push(message.to_owned());
            }
        }
        Self(all)
    }

    /// Changes a report as a new scan that finds something new does: the time of every result,
    /// verdict and message of one of them, and the counts. The result is the first from `round` on
    /// whose check has messages of the other verdict; where there is none, its message is one that
    /// names the verdict. `round` must differ from call to call for the report to differ.
    pub fn rescan(&self, report: &mut Value, round: u64) {
        let Some(results) = super::results_mut(report) else {
            return;
        };
        let round_index = usize::try_from(round).unwrap_or(0);
        for result in results.iter_mut() {
            result["timestamp"] = json!({"seconds": 1_700_000_000 + round, "nanos": 0});
        }
        let at = self.flipped(results, round_index);
        if let Some(result) = results.get_mut(at) {
            let (verdict, message) = self.other(result, round_index);
            result["result"] = json!(verdict);
            result["message"] = json!(message);
        }
        set_summary(report);
    }

    /// Returns the index of the result that the scan `round` changes.
    fn flipped(&self, results: &[Value], round: usize) -> usize {
        let count = results.len().max(1);
        (0..results.len())
            .map(|step| (round + step) % count)
            .find(|at| !self.others(&results[*at]).is_empty())
            .unwrap_or(round % count)
    }

    /// Returns the verdict that a result changes to, and its message then.
    fn other(&self, result: &Value, round: usize) -> (&'static str, String) {
        let verdict = opposite(result);
        let known = self.others(result);
        let message = match known.get(round % known.len().max(1)) {
            Some(message) => (*message).to_owned(),
            None => format!("the rule was evaluated again: {verdict}"),
        };
        (verdict, message)
    }

    /// Returns the messages of a result's check with the other verdict, without the present one.
    fn others(&self, result: &Value) -> Vec<&str> {
        let by_verdict = self.0.get(&check(result));
        let known = by_verdict.and_then(|messages| messages.get(opposite(result)));
        let known = known.into_iter().flatten().map(String::as_str);
        known
            .filter(|message| result["message"] != *message)
            .collect()
    }
}

/// Returns policy and rule of a result; a result without rule has an empty one.
fn check(result: &Value) -> (String, String) {
    let text = |key: &str| result[key].as_str().unwrap_or_default().to_owned();
    (text("policy"), text("rule"))
}

/// Returns the verdict that a result changes to.
fn opposite(result: &Value) -> &'static str {
    if result["result"] == "pass" {
        "fail"
    } else {
        "pass"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Input, ReportKind};

    fn report() -> Value {
        json!({"summary": {}, "results": [
            {"policy": "a", "rule": "r", "result": "pass", "message": "fine"},
            {"policy": "a", "rule": "r", "result": "fail", "message": "broken"},
            {"policy": "b", "result": "pass", "message": "always"},
        ]})
    }

    #[test]
    fn verdict_and_message_change_together() {
        let messages = Messages::of(&[report()]);
        let mut changed = report();
        messages.rescan(&mut changed, 3);
        assert_eq!(changed["results"][0]["result"], "fail");
        assert_eq!(changed["results"][0]["message"], "broken");
        assert_eq!(changed["results"][1], {
            let mut same = report()["results"][1].clone();
            same["timestamp"] = json!({"seconds": 1_700_000_003, "nanos": 0});
            same
        });
        assert_eq!(changed["summary"]["fail"], 2);
        assert_eq!(changed["summary"]["pass"], 1);
    }

    #[test]
    fn a_check_with_one_verdict_is_passed_over() {
        let messages = Messages::of(&[report()]);
        let mut changed = report();
        messages.rescan(&mut changed, 2);
        assert_eq!(changed["results"][2]["message"], "always");
        assert_eq!(changed["results"][0]["message"], "broken");
    }

    #[test]
    fn a_report_whose_checks_are_unknown_changes_its_message_too() {
        let mut changed = report();
        Messages::default().rescan(&mut changed, 2);
        assert_eq!(changed["results"][2]["result"], "fail");
        assert_ne!(changed["results"][2]["message"], "always");
    }

    #[test]
    fn every_report_changes_one_verdict_and_its_message() {
        for input in [Input::detect(), Input::Generated { seed: 1 }] {
            let corpus = input.corpus().unwrap();
            let templates = corpus.templates(ReportKind::PolicyReport);
            let messages = Messages::of(templates);
            for template in templates {
                let mut changed = template.clone();
                messages.rescan(&mut changed, 1);
                let before = template["results"].as_array().unwrap();
                let after = changed["results"].as_array().unwrap();
                let differ = |key: &str| {
                    let pairs = before.iter().zip(after);
                    pairs
                        .filter(|(before, after)| before[key] != after[key])
                        .count()
                };
                assert_eq!(differ("result"), 1, "{}", input.name());
                assert_eq!(differ("message"), 1, "{}", input.name());
            }
        }
    }
}
