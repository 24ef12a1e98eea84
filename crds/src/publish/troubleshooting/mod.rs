//! `docs/troubleshooting.md`: every reason of every condition by symptom, with what it means and what
//! to do. What a reason means is the comment of its constant.

mod database;
mod migration;
mod server;
mod specification;
mod symptom;
mod work;

use std::collections::BTreeSet;

use self::symptom::{Advice, Symptom};
use super::page::Page;
use crate::v1alpha1::listed::Listed;
use crate::v1alpha1::{conditions, reasons};

/// The symptoms that a person can see first, written by hand.
const SYMPTOMS_OF_CLIENTS: &str = include_str!("head.md");

/// The reason why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum TroubleshootingError {
    /// Nobody has written what to do about a reason.
    #[error("reason {0} has no advice: write one in crds/src/publish/troubleshooting")]
    NoAdvice(&'static str),
    /// A reason has more than one advice.
    #[error("reason {0} has two pieces of advice in crds/src/publish/troubleshooting; keep one")]
    TwoPieces(&'static str),
    /// A piece of advice is about a reason that is not in the list.
    #[error("there is advice about {0}, which is not in crds/src/v1alpha1/reasons.rs")]
    NoReason(&'static str),
    /// No reason is told of a condition.
    #[error("condition {0} has no reason in crds/src/publish/troubleshooting")]
    NoReasonOf(&'static str),
}

fn symptoms() -> [&'static Symptom; 9] {
    [
        &specification::REFUSED,
        &server::SERVER,
        &server::APIS,
        &database::DATABASE,
        &database::CHANGES,
        &database::BACKUPS,
        &migration::GROUP,
        &migration::EVENTS,
        &work::WORK,
    ]
}

fn advice() -> impl Iterator<Item = &'static Advice> {
    symptoms().into_iter().flat_map(|symptom| symptom.reasons)
}

/// Returns whether the page tells of `reason` in a condition of this type with this status.
#[must_use]
pub fn tells(type_: &str, status: &str, reason: &str) -> bool {
    // Every condition is this at first.
    if (status, reason) == ("Unknown", reasons::UNKNOWN) {
        return true;
    }
    let seen = advice().filter(|advice| advice.reason == reason);
    let mut seen = seen.flat_map(|advice| advice.seen);
    seen.any(|seen| seen.conditions().contains(&(type_, status)))
}

/// Returns the page.
///
/// # Errors
/// If a reason has no advice, or more than one, or a condition no reason.
pub fn troubleshooting() -> Result<String, TroubleshootingError> {
    check()?;
    let mut page = Page::generated();
    page.line(SYMPTOMS_OF_CLIENTS.trim_end());
    conditions_table(&mut page);
    for symptom in symptoms() {
        page.line(&format!("## {}", symptom.title));
        page.line(symptom.text);
        page.table(&["Reason", "Seen in", "Means", "Do"]);
        for advice in symptom.reasons {
            page.row(&row(advice));
        }
        page.end_of_table();
    }
    Ok(page.finish())
}

/// Fails where the lists of the code and of the page differ.
fn check() -> Result<(), TroubleshootingError> {
    let mut known = BTreeSet::new();
    for advice in advice() {
        if meaning(reasons::ALL, advice.reason).is_none() {
            return Err(TroubleshootingError::NoReason(advice.reason));
        }
        if !known.insert(advice.reason) {
            return Err(TroubleshootingError::TwoPieces(advice.reason));
        }
    }
    let missing = |listed: &&Listed| !known.contains(listed.name);
    if let Some(missing) = reasons::ALL.iter().find(missing) {
        return Err(TroubleshootingError::NoAdvice(missing.name));
    }
    let untold = |condition: &&Listed| sections(condition.name).is_empty();
    match conditions::ALL.iter().find(untold) {
        Some(untold) => Err(TroubleshootingError::NoReasonOf(untold.name)),
        None => Ok(()),
    }
}

fn meaning(of: &[Listed], name: &str) -> Option<String> {
    let listed = of.iter().find(|listed| listed.name == name)?;
    Some(listed.meaning())
}

/// Returns the symptoms with a reason of a condition.
fn sections(type_: &str) -> Vec<&'static Symptom> {
    let is_of = |advice: &Advice| {
        let mut conditions = advice.seen.iter().flat_map(|seen| seen.conditions());
        conditions.any(|(of, _)| of == type_)
    };
    let mut all = symptoms().to_vec();
    all.retain(|symptom| symptom.reasons.iter().any(is_of));
    all
}

fn conditions_table(page: &mut Page) {
    page.line("## Conditions");
    page.line(
        "When the reason of `Ready`, `Stalled` or `AdmissionBypassed` changes, or that of a condition \
         of the database, an event tells it with the same reason and message.",
    );
    page.table(&["Condition", "True means", "Reasons"]);
    for condition in conditions::ALL {
        let sections = sections(condition.name).into_iter().map(|symptom| {
            let anchor = anchor(symptom.title);
            format!("[{}](#{anchor})", symptom.title)
        });
        let sections: Vec<String> = sections.collect();
        page.row(&[
            format!("`{}`", condition.name),
            condition.meaning(),
            sections.join(", "),
        ]);
    }
    page.end_of_table();
}

fn row(advice: &Advice) -> [String; 4] {
    let seen: Vec<String> = advice.seen.iter().map(|seen| seen.words()).collect();
    [
        format!("`{}`", advice.reason),
        seen.join(", "),
        meaning(reasons::ALL, advice.reason).unwrap_or_default(),
        advice.remedy.to_owned(),
    ]
}

/// Returns the anchor of a heading.
fn anchor(title: &str) -> String {
    let title = title.to_lowercase();
    let kept = title
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests;
