//! Fault points for the kill tests: the process aborts right before or after a step, or within it,
//! once.
//!
//! Only with the feature `fault-points`, which images that are shipped do not have: without it the
//! environment is not read.
//!
//! `REPORTS_SERVER_OPERATOR_FAULT` holds one point or several with commas between them:
//! `SwitchPatch` aborts after that step, `before:SwitchPatch` before it, and
//! `within:ImportDatabase` after the first page of an import; the names are those of [`StepName`].
//! A point that fires is noted in the notes' `ConfigMap` (key `fault.<point>`, `:` written as `_`)
//! before the abort, so the restarted process, whose environment is the same, goes on.

use crate::migration::observe::notes::NoteBook;
use crate::migration::plan::step::StepName;

/// The environment variable.
pub const VARIABLE: &str = "REPORTS_SERVER_OPERATOR_FAULT";

/// The side of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Before it begins.
    Before,
    /// After a part of it, where a step has parts.
    Within,
    /// After it is carried out, before that is reported.
    After,
}

/// The fault points of this process.
#[derive(Clone, Debug, Default)]
pub struct Faults(Vec<(Side, StepName)>);

impl Faults {
    /// Reads them from the environment; a name that is no step is reported and ignored.
    #[must_use]
    pub fn from_environment() -> Self {
        if !cfg!(feature = "fault-points") {
            return Self::default();
        }
        let text = std::env::var(VARIABLE).unwrap_or_default();
        let (faults, unknown) = Self::parse(&text);
        for name in unknown {
            tracing::warn!(name, "{VARIABLE} names a step that does not exist");
        }
        faults
    }

    fn parse(text: &str) -> (Self, Vec<&str>) {
        let mut points = Vec::new();
        let mut unknown = Vec::new();
        for name in text.split(',').map(str::trim).filter(|n| !n.is_empty()) {
            let (side, step) = match name.split_once(':') {
                Some(("before", step)) => (Side::Before, step),
                Some(("within", step)) => (Side::Within, step),
                _ => (Side::After, name),
            };
            match StepName::parse(step) {
                Some(step) => points.push((side, step)),
                None => unknown.push(name),
            }
        }
        (Self(points), unknown)
    }

    /// Aborts the process if this point is set and has not fired yet.
    pub async fn at(&self, side: Side, step: StepName, notes: &NoteBook) {
        if !self.0.contains(&(side, step)) {
            return;
        }
        let key = key(side, step);
        match notes.get(&key).await {
            Ok(None) => {}
            Ok(Some(_)) => return,
            Err(error) => {
                tracing::warn!(%step, %error, "cannot tell whether the fault point has fired");
                return;
            }
        }
        if let Err(error) = notes.set(&key, Some("fired")).await {
            tracing::warn!(%step, %error, "the fault point cannot be noted and does not fire");
            return;
        }
        tracing::warn!(%step, ?side, "fault point: aborting");
        std::process::abort();
    }
}

fn key(side: Side, step: StepName) -> String {
    match side {
        Side::Before => format!("fault.before_{step}"),
        Side::Within => format!("fault.within_{step}"),
        Side::After => format!("fault.{step}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_parsed_and_unknown_ones_named() {
        let (faults, unknown) =
            Faults::parse("SwitchPatch, before:Verify,within:ImportDatabase,nonsense,at:Verify");
        let points = [
            (Side::After, StepName::SwitchPatch),
            (Side::Before, StepName::Verify),
            (Side::Within, StepName::ImportDatabase),
        ];
        assert_eq!(faults.0, points);
        assert_eq!(unknown, ["nonsense", "at:Verify"]);
        assert!(Faults::parse("").0.0.is_empty());
    }
}
