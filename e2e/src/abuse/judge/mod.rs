//! The judgement of conditions and actions: whether the conditions tell the truth, and how an
//! action ended. Nothing here asks a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crds::v1alpha1::conditions::{
    API_SERVICES_REGISTERED, CERTIFICATES_READY, DATABASE_READY, READY, RECONCILING,
    SERVER_AVAILABLE, STALLED,
};
use crds::v1alpha1::reasons;

use super::action::Action;
use super::expect::{Expect, has};
use super::seen::Seen;
use super::told::Told;

/// The end of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// As it has to be.
    Fine,
    /// Clients are served, and something still goes on, in words.
    Busy(String),
    /// Not served, or not as asked for, and a condition says what a person has to do.
    Told(String),
    /// Conditions do not say what they have to.
    Untrue(String),
    /// Not served, and nobody says what to do.
    Stuck(String),
}

/// Returns what conditions say that a client finds otherwise, each in a sentence.
#[must_use]
pub fn contradictions(told: &Told, seen: &Seen) -> BTreeSet<String> {
    let problem = seen.problem();
    let misplaced = seen.misplaced(&told.wanted);
    let well = problem.is_none() && misplaced.is_none() && seen.control_api && seen.certificate;
    let mut found = BTreeSet::new();
    let mut note = |when: bool, type_: &str, why: &str| {
        if when {
            let is = told.get(type_).map_or("absent", |said| said.is.as_str());
            found.insert(format!("{type_} is {is}, and {why}"));
        }
    };
    if let Some(problem) = &problem {
        note(told.is(READY, "True"), READY, problem);
    }
    let reasoned = told.is(RECONCILING, "True") || told.is(STALLED, "True");
    let ready = told.is(READY, "True");
    note(well && !ready && !reasoned, READY, "everything is served");
    let resting = told
        .get(READY)
        .is_some_and(|said| said.reason == reasons::SUSPENDED);
    note(
        !well && !ready && !reasoned && !resting,
        READY,
        "neither Reconciling nor Stalled is there",
    );
    let available = told.is(SERVER_AVAILABLE, "True");
    let away = "the control API does not answer";
    note(available && !seen.control_api, SERVER_AVAILABLE, away);
    let there = seen.control_api && seen.is_stored();
    let why = "it has answered and stored a report";
    note(there && !available, SERVER_AVAILABLE, why);
    note(
        there && told.is(DATABASE_READY, "False"),
        DATABASE_READY,
        "a report was stored",
    );
    let registered = told.is(API_SERVICES_REGISTERED, "True");
    if let Some(group) = misplaced {
        let why = format!("{group} is not where it is wanted");
        note(registered, API_SERVICES_REGISTERED, &why);
        note(ready, READY, &why);
    }
    let why = "every group is where it is wanted";
    let all = misplaced.is_none();
    note(all && !registered, API_SERVICES_REGISTERED, why);
    let why = "its Secret is not complete";
    let certified = told.is(CERTIFICATES_READY, "True");
    note(certified && !seen.certificate, CERTIFICATES_READY, why);
    found
}

/// Returns why an action is not at its end; nothing where it is.
#[must_use]
pub fn waits_for(expect: &Expect, told: &Told, seen: &Seen) -> Option<String> {
    let problem = seen.problem();
    match expect {
        Expect::Served => problem
            .or_else(|| {
                let misplaced = seen.misplaced(&told.wanted)?;
                Some(format!("{misplaced} is not where it is wanted"))
            })
            .or_else(|| {
                let ready = told.is(READY, "True") && told.get(STALLED).is_none();
                (!ready).then(|| told.summary())
            }),
        Expect::Refused(words) => problem.or_else(|| {
            let refused = told.says(STALLED, "True", words);
            (!refused).then(|| format!("Stalled does not name {words:?}: {}", told.summary()))
        }),
        Expect::Told(type_, is, words) => problem.or_else(|| {
            let said = told.says(type_, is, words) && told.is(READY, "True");
            (!said).then(|| format!("{type_} is not {is} with {words:?}: {}", told.summary()))
        }),
        Expect::Away(words) => {
            let ready = told
                .get(READY)
                .filter(|said| said.is != "True" && has(&said.message, words));
            let away = told.is(SERVER_AVAILABLE, "False") || told.is(DATABASE_READY, "False");
            let said = ready.is_some() && away && problem.is_some();
            (!said).then(|| format!("not told as away: {}", told.summary()))
        }
    }
}

/// Returns how an action has ended whose time is over.
#[must_use]
pub fn late(expect: &Expect, told: &Told, seen: &Seen) -> End {
    let Some(why) = waits_for(expect, told, seen) else {
        return End::Fine;
    };
    if !told.current {
        return End::Stuck(format!("the specification is not observed: {why}"));
    }
    let problem = seen.problem();
    let served = problem.is_none();
    if matches!(expect, Expect::Away(_)) || (served && *expect != Expect::Served) {
        return End::Untrue(why);
    }
    if let Some(remedy) = told.remedy() {
        return End::Told(remedy.to_owned());
    }
    match problem {
        Some(problem) => End::Stuck(format!("{problem}; {}", told.summary())),
        None if told.is(STALLED, "True") => End::Untrue(format!("no remedy: {why}")),
        None => End::Busy(told.summary()),
    }
}

/// Returns how an action has ended that still goes on after a time that is enough for everything.
#[must_use]
pub fn endless(end: End) -> End {
    match end {
        End::Busy(what) => End::Stuck(format!("it comes to no end: {what}")),
        other => other,
    }
}

/// Returns how an action has ended: what the operator mends by itself, it does not ask a person for.
#[must_use]
pub fn alone(action: &Action, end: End) -> End {
    match end {
        End::Told(remedy) if action.is_mended() => {
            End::Stuck(format!("a person is asked to mend it: {remedy}"))
        }
        other => other,
    }
}

/// Returns how an action has ended that the kube-apiserver has refused.
#[must_use]
pub fn refused(expect: &Expect, message: &str) -> End {
    // Otherwise it is a child that its own API keeps from harm.
    let Expect::Refused(words) = expect else {
        return End::Fine;
    };
    if has(message, words) {
        return End::Fine;
    }
    End::Untrue(format!("the refusal does not name {words:?}: {message}"))
}

/// Contradictions, which count once they have lasted.
#[derive(Debug, Default)]
pub struct Contradicted {
    since: BTreeMap<String, Instant>,
    untrue: BTreeSet<String>,
}

impl Contradicted {
    /// Takes in those of a look. One that is gone is forgotten; one that has been there for
    /// `limit` counts.
    pub fn look(&mut self, found: BTreeSet<String>, at: Instant, limit: Duration) {
        self.since.retain(|text, _| found.contains(text));
        for text in found {
            if self.untrue.contains(&text) {
                continue;
            }
            let since = *self.since.entry(text.clone()).or_insert(at);
            if at.saturating_duration_since(since) >= limit {
                self.since.remove(&text);
                self.untrue.insert(text);
            }
        }
    }

    /// Returns whether one may still come to count.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.since.is_empty()
    }

    /// Returns those that count.
    #[must_use]
    pub fn untrue(self) -> BTreeSet<String> {
        self.untrue
    }
}

#[cfg(test)]
mod tests;
