//! From samples to figures: ours beside a peer's, and the ratio.

use serde::{Deserialize, Serialize};

use super::book::{Book, Spread};

/// A line of the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The metric, and our system.
    pub name: String,
    /// Unit of both values.
    pub unit: String,
    /// The median of our system.
    pub ours: f64,
    /// The median of the peer.
    pub peer: Option<f64>,
    /// The name of the peer.
    pub peer_name: Option<String>,
    /// Number of times by which ours is better than the peer's.
    pub ratio: Option<f64>,
    /// All rounds of our system.
    pub ours_rounds: Spread,
    /// All rounds of the peer.
    pub peer_rounds: Option<Spread>,
}

/// The parts of a figure.
#[derive(Clone, Debug)]
pub struct Row {
    metric: String,
    unit: &'static str,
    ours: String,
    peer: Option<(String, String)>,
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

    /// Returns the figure, if it was measured.
    #[must_use]
    pub fn figure(&self, book: &Book) -> Option<Figure> {
        let ours = book.spread(&self.metric, &self.ours)?;
        let mut figure = Figure::alone(&self.metric, self.unit, &self.ours, ours);
        if let Some((metric, system)) = &self.peer
            && let Some(peer) = book.spread(metric, system)
        {
            figure.peer = Some(peer.median);
            figure.peer_name = Some(system.clone());
            figure.peer_rounds = Some(peer);
            figure.ratio = if self.unit == "/s" {
                quotient(ours.median, peer.median)
            } else {
                quotient(peer.median, ours.median)
            };
        }
        Some(figure)
    }
}

/// Returns `a` by `b`, where `b` is more than nothing.
#[must_use]
pub fn quotient(a: f64, b: f64) -> Option<f64> {
    (b > 0.0).then(|| a / b)
}

impl Figure {
    /// Returns a figure without a peer.
    #[must_use]
    pub fn alone(metric: &str, unit: &str, system: &str, ours: Spread) -> Self {
        Self {
            name: format!("{metric}, {system}"),
            unit: unit.to_owned(),
            ours: ours.median,
            peer: None,
            peer_name: None,
            ratio: None,
            ours_rounds: ours,
            peer_rounds: None,
        }
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

/// Returns the figures as a table.
#[must_use]
pub fn table(figures: &[Figure]) -> String {
    let mut lines = vec![
        "| What | Unit | Ours: median [min-max] | Peer | Its median [min-max] | Ratio |".to_owned(),
        "|---|---|---|---|---|---|".to_owned(),
    ];
    for figure in figures {
        lines.push(format!(
            "| {} | {} | {} | {} | {} | {} |",
            figure.name,
            figure.unit,
            rounds(figure.ours_rounds),
            figure.peer_name.as_deref().unwrap_or_default(),
            figure.peer_rounds.map(rounds).unwrap_or_default(),
            figure.ratio.map(short).unwrap_or_default(),
        ));
    }
    lines.join("\n")
}

fn rounds(spread: Spread) -> String {
    format!(
        "{} [{}-{}]",
        short(spread.median),
        short(spread.min),
        short(spread.max)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(unit: &'static str, ours: &[f64], peer: &[f64]) -> Figure {
        let mut book = Book::default();
        for value in ours {
            book.add("m", "ours", *value);
        }
        for value in peer {
            book.add("p", "theirs", *value);
        }
        let row = Row::new("m", unit, "ours").beside_metric("p", "theirs");
        row.figure(&book).unwrap()
    }

    #[rstest::rstest]
    #[case("/s", Some(2.0))]
    #[case("ms", Some(0.5))]
    fn ratios_say_how_much_better_ours_is(#[case] unit: &'static str, #[case] ratio: Option<f64>) {
        assert_eq!(figure(unit, &[10.0, 20.0, 30.0], &[10.0]).ratio, ratio);
    }

    #[test]
    fn a_figure_without_its_peer_has_no_ratio() {
        let figure = figure("/s", &[1.0], &[]);
        assert_eq!((figure.ratio, figure.peer), (None, None));
        assert!(table(&[figure]).ends_with("| m, ours | /s | 1.00 [1.00-1.00] |  |  |  |"));
    }

    #[test]
    fn the_list_has_the_agreed_keys() {
        let json = serde_json::to_value(figure("/s", &[4.0], &[2.0])).unwrap();
        assert_eq!(json["ratio"], 2.0);
        assert_eq!(json["ours"], 4.0);
        assert_eq!(json["peer"], 2.0);
        assert_eq!(json["peer_name"], "theirs");
        assert_eq!(json["ours_rounds"]["rounds"], 1);
    }
}
