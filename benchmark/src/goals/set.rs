//! The making of goals.

use super::goal::{Bound, Derivation, Goal, Metric};

/// The place where the cost of a checked write goes.
pub(super) const CHECKING: &str = "an update is decoded, compared, validated, and its owners are \
                                   tracked";
/// The place where the cost of what SQL reads goes.
pub(super) const PROJECTING: &str = "findings with their indexes, counters and tallies";

fn metric(name: &str, system: &str) -> Metric {
    (name.to_owned(), system.to_owned())
}

/// Returns the median of a metric of a system.
pub(super) fn median(name: &str, system: &str) -> Derivation {
    Derivation::Median(metric(name, system))
}

/// Returns the quotient of two metrics.
pub(super) fn by(name: &str, system: &str, other: &str, peer: &str) -> Derivation {
    Derivation::Quotient(metric(name, system), metric(other, peer))
}

/// The goals of a source, in the making.
pub(super) struct Set {
    source: &'static str,
    cost: &'static str,
    pub(super) goals: Vec<Goal>,
}

impl Set {
    /// Returns an empty set; `cost` says where the cost of its figures goes.
    pub(super) fn new(source: &'static str, cost: &'static str) -> Self {
        let goals = Vec::new();
        Self {
            source,
            cost,
            goals,
        }
    }

    /// Adds a goal for each of the bounds.
    fn add(
        mut self,
        what: &str,
        unit: &'static str,
        bounds: impl Iterator<Item = Bound>,
        from: &Derivation,
    ) -> Self {
        let (source, cost) = (self.source, self.cost);
        self.goals.extend(bounds.map(|bound| Goal {
            source,
            what: what.to_owned(),
            unit,
            bound,
            from: from.clone(),
            cost,
        }));
        self
    }

    /// Adds a figure that has to be as large as each of the bounds.
    pub(super) fn least(
        self,
        what: &str,
        unit: &'static str,
        bounds: &[f64],
        from: &Derivation,
    ) -> Self {
        self.add(what, unit, bounds.iter().copied().map(Bound::AtLeast), from)
    }

    /// Adds a figure that may be as large as each of the bounds.
    pub(super) fn most(
        self,
        what: &str,
        unit: &'static str,
        bounds: &[f64],
        from: &Derivation,
    ) -> Self {
        self.add(what, unit, bounds.iter().copied().map(Bound::AtMost), from)
    }
}
