//! From samples to figures: ours beside a peer's, the ratio, and the goal.

use serde_json::{Value, json};

use super::book::{Book, Spread};

/// The better direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Rates.
    Higher,
    /// Times, sizes, CPU.
    Lower,
}

/// The goal of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// No goal; the figure is only shown.
    None,
    /// Our value.
    Value(f64),
    /// A number of times better than the peer; 0.9 is nine tenths as good.
    Ratio(f64),
}

/// A line of the result.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The metric, and our system.
    pub name: String,
    /// Unit of both values.
    pub unit: &'static str,
    /// The value of our system.
    pub ours: Spread,
    /// The value of the peer and its name.
    pub peer: Option<(Spread, String)>,
    /// Number of times by which ours is better than the peer's.
    pub ratio: Option<f64>,
    /// The goal.
    pub goal: Goal,
    /// The better direction.
    pub better: Better,
}

/// The parts of a figure.
#[derive(Clone, Debug)]
pub struct Row {
    metric: String,
    unit: &'static str,
    ours: String,
    peer: Option<(String, String)>,
    better: Better,
    goal: Goal,
}

impl Row {
    /// Returns a metric of a system of ours, under their names in the book. More is better of
    /// rates, less of everything else.
    #[must_use]
    pub fn new(metric: &str, unit: &'static str, ours: &str) -> Self {
        Self {
            metric: metric.to_owned(),
            unit,
            ours: ours.to_owned(),
            peer: None,
            better: if unit == "/s" {
                Better::Higher
            } else {
                Better::Lower
            },
            goal: Goal::None,
        }
    }

    /// Returns the row beside a system that has the metric under the same name.
    #[must_use]
    pub fn beside(self, system: &str) -> Self {
        let metric = self.metric.clone();
        self.beside_metric(&metric, system)
    }

    /// Returns the row beside another metric.
    #[must_use]
    pub fn beside_metric(mut self, metric: &str, system: &str) -> Self {
        self.peer = Some((metric.to_owned(), system.to_owned()));
        self
    }

    /// Returns the row with a value that ours has to reach.
    #[must_use]
    pub fn value(mut self, value: f64) -> Self {
        self.goal = Goal::Value(value);
        self
    }

    /// Returns the row with the number of times that ours has to be better than the peer's.
    #[must_use]
    pub fn times(mut self, ratio: f64) -> Self {
        self.goal = Goal::Ratio(ratio);
        self
    }

    /// Returns the figure, if it was measured.
    #[must_use]
    pub fn figure(&self, book: &Book) -> Option<Figure> {
        let ours = book.spread(&self.metric, &self.ours)?;
        let peer = self
            .peer
            .as_ref()
            .and_then(|(metric, system)| Some((book.spread(metric, system)?, system.clone())));
        let ratio = peer.as_ref().and_then(|(peer, _)| match self.better {
            Better::Higher => divide(ours.median, peer.median),
            Better::Lower => divide(peer.median, ours.median),
        });
        Some(Figure {
            name: format!("{}, {}", self.metric, self.ours),
            unit: self.unit,
            ours,
            peer,
            ratio,
            goal: self.goal,
            better: self.better,
        })
    }
}

fn divide(a: f64, b: f64) -> Option<f64> {
    (b > 0.0).then(|| a / b)
}

impl Figure {
    /// Returns whether the goal is met; `None` without a goal or a value to compare with.
    #[must_use]
    pub fn met(&self) -> Option<bool> {
        match (self.goal, self.better) {
            (Goal::None, _) => None,
            (Goal::Value(goal), Better::Higher) => Some(self.ours.median >= goal),
            (Goal::Value(goal), Better::Lower) => Some(self.ours.median <= goal),
            (Goal::Ratio(goal), _) => Some(self.ratio? >= goal),
        }
    }

    /// Returns the goal in words.
    #[must_use]
    pub fn goal_text(&self) -> Option<String> {
        let bound = match self.better {
            Better::Higher => ">=",
            Better::Lower => "<=",
        };
        match self.goal {
            Goal::None => None,
            Goal::Value(value) => Some(format!("{bound} {} {}", short(value), self.unit)),
            Goal::Ratio(ratio) => Some(format!("{}x", short(ratio))),
        }
    }

    /// Returns the figure as in the list of `--json`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let spread = |spread: Spread| {
            json!({"median": spread.median, "min": spread.min, "max": spread.max,
                "rounds": spread.rounds})
        };
        json!({
            "name": self.name,
            "unit": self.unit,
            "ours": self.ours.median,
            "peer": self.peer.as_ref().map(|(peer, _)| peer.median),
            "peer_name": self.peer.as_ref().map(|(_, name)| name),
            "ratio": self.ratio,
            "goal": self.goal_text(),
            "met": self.met(),
            "ours_rounds": spread(self.ours),
            "peer_rounds": self.peer.as_ref().map(|(peer, _)| spread(*peer)),
        })
    }
}

/// Returns a number with the digits that matter.
#[must_use]
pub fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Returns the figures as a table, and the names of those that miss their goal.
#[must_use]
pub fn table(figures: &[Figure]) -> String {
    let mut lines = vec![
        "| What | Unit | Ours: median [min-max] | Peer | Its median [min-max] | Ratio | Goal | Met |"
            .to_owned(),
        "|---|---|---|---|---|---|---|---|".to_owned(),
    ];
    let spread = |spread: Spread| {
        format!(
            "{} [{}-{}]",
            short(spread.median),
            short(spread.min),
            short(spread.max)
        )
    };
    for figure in figures {
        let met = figure
            .met()
            .map_or("", |met| if met { "yes" } else { "**no**" });
        let (peer, name) = figure
            .peer
            .as_ref()
            .map_or((String::new(), ""), |(peer, name)| (spread(*peer), name));
        lines.push(format!(
            "| {} | {} | {} | {name} | {peer} | {} | {} | {met} |",
            figure.name,
            figure.unit,
            spread(figure.ours),
            figure.ratio.map(short).unwrap_or_default(),
            figure.goal_text().unwrap_or_default(),
        ));
    }
    let missed: Vec<&str> = figures
        .iter()
        .filter(|figure| figure.met() == Some(false))
        .map(|figure| figure.name.as_str())
        .collect();
    lines.push(String::new());
    lines.push(if missed.is_empty() {
        "Every goal that was measured is met.".to_owned()
    } else {
        format!("Missed: {}.", missed.join("; "))
    });
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(ours: &[f64], peer: &[f64], better: Better, goal: Goal) -> Figure {
        let mut book = Book::default();
        for value in ours {
            book.add("m", "ours", *value);
        }
        for value in peer {
            book.add("p", "theirs", *value);
        }
        let unit = match better {
            Better::Higher => "/s",
            Better::Lower => "ms",
        };
        let mut row = Row::new("m", unit, "ours").beside_metric("p", "theirs");
        row.goal = goal;
        row.figure(&book).unwrap()
    }

    #[rstest::rstest]
    #[case(Better::Higher, Goal::Ratio(2.0), Some(true))]
    #[case(Better::Higher, Goal::Ratio(2.1), Some(false))]
    #[case(Better::Lower, Goal::Ratio(0.5), Some(true))]
    #[case(Better::Higher, Goal::Value(21.0), Some(false))]
    #[case(Better::Lower, Goal::Value(20.0), Some(true))]
    #[case(Better::Lower, Goal::None, None)]
    fn goals(#[case] better: Better, #[case] goal: Goal, #[case] met: Option<bool>) {
        let figure = figure(&[10.0, 20.0, 30.0], &[10.0], better, goal);
        assert_eq!(figure.met(), met, "{figure:?}");
    }

    #[test]
    fn a_ratio_without_its_peer_is_neither_met_nor_missed() {
        let figure = figure(&[1.0], &[], Better::Higher, Goal::Ratio(1.0));
        assert_eq!((figure.ratio, figure.met()), (None, None));
        assert!(table(&[figure]).ends_with("is met."));
    }

    #[test]
    fn the_list_has_the_agreed_keys() {
        let json = figure(&[4.0], &[2.0], Better::Higher, Goal::Ratio(3.0)).to_json();
        assert_eq!(json["ratio"], 2.0);
        assert_eq!(json["goal"], "3.00x");
        assert_eq!(json["met"], false);
        assert_eq!(json["peer_name"], "theirs");
        assert_eq!(json["ours_rounds"]["rounds"], 1);
    }
}
