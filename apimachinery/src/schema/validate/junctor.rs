//! `anyOf`, `oneOf`, `allOf` and `not`.

use fieldmanager::go::quote;
use serde_json::Value;

use super::super::Structural;
use super::Outcome;
use super::path::Path;

impl Structural {
    /// Judges the junctors of a value. Below a junctor nothing is compared with its former value.
    pub(super) fn judge_junctors(&self, value: &Value, path: &Path<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        let judge = |schema: &Self| schema.judge(value, path, None);
        let rules = &self.rules;
        if !rules.any_of.is_empty() {
            any_of(&rules.any_of, judge, path, &mut outcome);
        }
        if !rules.one_of.is_empty() {
            one_of(&rules.one_of, judge, path, &mut outcome);
        }
        if !rules.all_of.is_empty() {
            all_of(&rules.all_of, judge, path, &mut outcome);
        }
        if rules.not.as_ref().is_some_and(|not| judge(not).is_valid()) {
            let path = quote(&path.to_string());
            outcome.push_general(format!("{path} must not validate the schema (not)"));
        }
        outcome.matches += 1;
        outcome
    }
}

fn any_of(
    schemas: &[Structural],
    judge: impl Fn(&Structural) -> Outcome,
    path: &Path<'_>,
    outcome: &mut Outcome,
) {
    let mut best: Option<Outcome> = None;
    for schema in schemas {
        let candidate = judge(schema);
        if candidate.is_valid() {
            outcome.merge(candidate);
            return;
        }
        best = Some(better(best, candidate));
    }
    let path = quote(&path.to_string());
    outcome.push_general(format!("{path} must validate at least one schema (anyOf)"));
    outcome.merge(best.unwrap_or_default());
}

fn one_of(
    schemas: &[Structural],
    judge: impl Fn(&Structural) -> Outcome,
    path: &Path<'_>,
    outcome: &mut Outcome,
) {
    let (mut valid, mut first, mut best) = (0, None, None);
    for schema in schemas {
        let candidate = judge(schema);
        if candidate.is_valid() {
            valid += 1;
            best = None;
            first = first.or(Some(candidate));
        } else if valid == 0 {
            best = Some(better(best, candidate));
        }
    }
    if valid == 1 {
        outcome.merge(first.unwrap_or_default());
        return;
    }
    let found = match valid {
        0 => "Found none valid".to_owned(),
        _ => format!("Found {valid} valid alternatives"),
    };
    let path = quote(&path.to_string());
    outcome.push_general(format!(
        "{path} must validate one and only one schema (oneOf). {found}"
    ));
    outcome.merge(best.unwrap_or_default());
}

fn all_of(
    schemas: &[Structural],
    judge: impl Fn(&Structural) -> Outcome,
    path: &Path<'_>,
    outcome: &mut Outcome,
) {
    let mut valid = 0;
    for schema in schemas {
        let candidate = judge(schema);
        valid += usize::from(candidate.is_valid());
        outcome.merge(candidate);
    }
    if valid == schemas.len() {
        return;
    }
    let addition = if valid == 0 { ". None validated" } else { "" };
    let path = quote(&path.to_string());
    outcome.push_general(format!(
        "{path} must validate all the schemas (allOf){addition}"
    ));
}

/// Returns the failure with more matches; of equal ones the first.
fn better(best: Option<Outcome>, candidate: Outcome) -> Outcome {
    match best {
        Some(best) if best.matches >= candidate.matches => best,
        _ => candidate,
    }
}
