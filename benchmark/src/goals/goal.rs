//! A goal, and its figure.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::book::Book;
use crate::figures::{quotient, short};

/// The limit of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// The figure has to be as large.
    AtLeast(f64),
    /// The figure may be as large.
    AtMost(f64),
}

/// A metric of a system, under their names in the book.
pub type Metric = (String, String);

/// The way from what was measured to the figure of a goal.
#[derive(Clone, Debug, PartialEq)]
pub enum Derivation {
    /// The median of a metric.
    Median(Metric),
    /// The median of the first by the median of the second.
    Quotient(Metric, Metric),
    /// Another command measures it, or none does.
    Elsewhere(&'static str),
}

/// A goal.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// The place where it is set.
    pub source: &'static str,
    /// The figure.
    pub what: String,
    /// Unit of figure and bound; `x` for a quotient.
    pub unit: &'static str,
    /// The bound.
    pub bound: Bound,
    /// The way to the figure.
    pub from: Derivation,
    /// The place where the cost goes; shown when the goal is missed.
    pub cost: &'static str,
}

/// A goal beside its figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The place where the goal is set.
    pub source: String,
    /// The figure.
    pub what: String,
    /// Unit of figure and bound.
    pub unit: String,
    /// The bound, with its direction.
    pub bound: String,
    /// The way from the measured figures to this one.
    pub derived: String,
    /// The figure; none when this run did not measure it.
    pub figure: Option<f64>,
    /// Says if the figure is within the bound.
    pub met: Option<bool>,
    /// The place where the cost goes.
    pub cost: String,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(bound) => write!(f, "≥ {}", short(*bound)),
            Self::AtMost(bound) => write!(f, "≤ {}", short(*bound)),
        }
    }
}

impl Bound {
    /// Returns whether a figure is within the bound.
    #[must_use]
    pub fn holds(self, figure: f64) -> bool {
        match self {
            Self::AtLeast(bound) => figure >= bound,
            Self::AtMost(bound) => figure <= bound,
        }
    }
}

impl fmt::Display for Derivation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Median((metric, system)) => write!(f, "{metric}, {system}"),
            Self::Quotient((metric, system), (other, peer)) => {
                write!(f, "{metric}, {system} / {other}, {peer}")
            }
            Self::Elsewhere(place) => f.write_str(place),
        }
    }
}

impl Derivation {
    /// Returns the figure, if this run measured it.
    #[must_use]
    pub fn figure(&self, book: &Book) -> Option<f64> {
        let median = |(metric, system): &Metric| Some(book.spread(metric, system)?.median);
        match self {
            Self::Median(metric) => median(metric),
            Self::Quotient(metric, by) => quotient(median(metric)?, median(by)?),
            Self::Elsewhere(_) => None,
        }
    }
}

impl Goal {
    /// Returns the goal beside its figure.
    #[must_use]
    pub fn outcome(&self, book: &Book) -> Outcome {
        let figure = self.from.figure(book);
        Outcome {
            source: self.source.to_owned(),
            what: self.what.clone(),
            unit: self.unit.to_owned(),
            bound: self.bound.to_string(),
            derived: self.from.to_string(),
            figure,
            met: figure.map(|figure| self.bound.holds(figure)),
            cost: self.cost.to_owned(),
        }
    }
}
