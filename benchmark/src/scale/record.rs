//! From what was measured at both sizes to figures, their growth and the goals.

use serde::{Deserialize, Serialize};

use super::Database;
use crate::book::Book;
use crate::figures::{quotient, short};
use crate::goals::{self, ALL, GROWTH, Outcome, TENTH};

/// Every metric in the order of the table, its unit, and whether its growth says something.
const METRICS: [(&str, &str, bool); 32] = [
    ("load time", "s", false),
    ("load rate", "/s", false),
    ("load CPU", "ms/op", true),
    ("JSON a report", "bytes", false),
    ("memory after loading", "MiB", true),
    ("start", "s", true),
    ("start CPU of reports-server", "s", true),
    ("memory after the start", "MiB", true),
    ("memory at the start's peak", "MiB", true),
    ("memory at the end", "MiB", true),
    ("memory a report", "bytes", false),
    ("disk", "MB", true),
    ("disk a report", "bytes", false),
    ("log", "MB", false),
    ("limit=1", "ms", true),
    ("limit=1 CPU", "ms", true),
    ("page first", "ms", true),
    ("page middle", "ms", true),
    ("page last", "ms", true),
    ("page middle CPU", "ms", true),
    ("page middle gzip", "ms", true),
    ("all pages", "ms", true),
    ("all pages longest", "ms", true),
    ("label", "ms", true),
    ("label CPU", "ms", true),
    ("label in a namespace", "ms", true),
    ("update@16 rate", "/s", false),
    ("update@16 p50", "ms", true),
    ("update@16 p99", "ms", true),
    ("update@16 CPU", "ms/op", true),
    ("watch@100/s p50", "ms", true),
    ("watch@100/s p99", "ms", true),
];

/// The facts about a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The database.
    pub database: Database,
    /// The sort of the reports: `recorded` or `generated`.
    pub input: String,
    /// All reports.
    pub reports: usize,
    /// Reports at the first of both sizes.
    pub tenth: usize,
}

/// The samples at both sizes.
#[derive(Clone, Debug, Default)]
pub struct Books {
    /// With a tenth of the reports.
    pub tenth: Book,
    /// With all reports.
    pub all: Book,
}

/// A line of the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The metric.
    pub name: String,
    /// Unit of both values.
    pub unit: String,
    /// The median with a tenth of the reports.
    pub tenth: Option<f64>,
    /// The median with all reports.
    pub all: Option<f64>,
    /// See [`growth`].
    pub growth: Option<f64>,
}

/// The content of `--json FILE`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The run.
    pub run: Facts,
    /// The figures.
    pub figures: Vec<Figure>,
    /// The goals, each with its figure.
    pub goals: Vec<Outcome>,
}

/// Returns the power of the size with which a cost grows, where the size grows so many times: 0
/// when it stays, 1 in proportion, 2 when it is quadratic.
#[must_use]
pub fn growth(before: f64, after: f64, times: f64) -> Option<f64> {
    let grown = quotient(after, before)?;
    (grown > 0.0 && times > 1.0).then(|| grown.ln() / times.ln())
}

impl Record {
    /// Returns the record of what a system was measured to take.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    pub fn new(run: Facts, books: &Books, system: &str) -> Self {
        let times = run.reports as f64 / run.tenth as f64;
        let figures: Vec<Figure> = METRICS
            .iter()
            .filter_map(|metric| figure(metric, books, system, times))
            .collect();
        let book = flat(&figures);
        let goals = goals::of_many(run.reports);
        let goals = goals.iter().map(|goal| goal.outcome(&book)).collect();
        Self {
            run,
            figures,
            goals,
        }
    }

    /// Returns whether it is of as many reports as a run has unless told, or more.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.run.reports >= self.run.database.whole()
    }

    /// Returns the tables.
    #[must_use]
    pub fn text(&self) -> String {
        let Facts { reports, tenth, .. } = &self.run;
        let mut lines = vec![
            format!("| What | Unit | {tenth} reports | {reports} reports | Growth |"),
            "|---|---|---|---|---|".to_owned(),
        ];
        for figure in &self.figures {
            let cell = |value: Option<f64>| value.map(short).unwrap_or_default();
            lines.push(format!(
                "| {} | {} | {} | {} | {} |",
                figure.name,
                figure.unit,
                cell(figure.tenth),
                cell(figure.all),
                cell(figure.growth),
            ));
        }
        format!("{}\n\n{}", lines.join("\n"), goals::table(&self.goals))
    }
}

/// Returns the figure of a metric, if it was measured at any size.
fn figure(
    (name, unit, grows): &(&str, &str, bool),
    books: &Books,
    system: &str,
    times: f64,
) -> Option<Figure> {
    let median = |book: &Book| Some(book.spread(name, system)?.median);
    let (tenth, all) = (median(&books.tenth), median(&books.all));
    if tenth.is_none() && all.is_none() {
        return None;
    }
    let power = match (tenth, all) {
        (Some(tenth), Some(all)) if *grows => growth(tenth, all, times),
        _ => None,
    };
    Some(Figure {
        name: (*name).to_owned(),
        unit: (*unit).to_owned(),
        tenth,
        all,
        growth: power,
    })
}

/// Returns the figures as the book that the goals follow from.
fn flat(figures: &[Figure]) -> Book {
    let mut book = Book::default();
    for figure in figures {
        let values = [
            (TENTH, figure.tenth),
            (ALL, figure.all),
            (GROWTH, figure.growth),
        ];
        for (system, value) in values {
            if let Some(value) = value {
                book.add(&figure.name, system, value);
            }
        }
    }
    book
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(reports: usize) -> Facts {
        Facts {
            database: Database::Postgres,
            input: "made-up".to_owned(),
            reports,
            tenth: reports / 10,
        }
    }

    /// Returns books in which each cost is 1 with a tenth and `cost` with all.
    fn books(cost: f64) -> Books {
        let mut books = Books::default();
        for (name, ..) in METRICS {
            books.tenth.add(name, "s", 1.0);
            books.all.add(name, "s", cost);
        }
        books
    }

    fn met(record: &Record, what: &str) -> Option<bool> {
        let goal = record.goals.iter().find(|goal| goal.what == what);
        goal.unwrap().met
    }

    #[rstest::rstest]
    #[case(2.0, 2.0, 0.0)]
    #[case(2.0, 20.0, 1.0)]
    #[case(2.0, 200.0, 2.0)]
    #[case(20.0, 2.0, -1.0)]
    fn growth_is_a_power(#[case] before: f64, #[case] after: f64, #[case] power: f64) {
        let growth = growth(before, after, 10.0).unwrap();
        assert!((growth - power).abs() < 1e-9, "{growth}");
    }

    #[test]
    fn nothing_and_a_size_that_stays_have_no_growth() {
        assert_eq!(growth(0.0, 1.0, 10.0), None);
        assert_eq!(growth(1.0, 0.0, 10.0), None);
        assert_eq!(growth(1.0, 2.0, 1.0), None);
    }

    #[rstest::rstest]
    #[case(1.0, true, true)]
    #[case(10.0, true, false)]
    #[case(100.0, false, false)]
    fn growth_is_judged_from_two_sizes(
        #[case] cost: f64,
        #[case] linear: bool,
        #[case] flat: bool,
    ) {
        let record = Record::new(facts(20_000), &books(cost), "s");
        assert_eq!(met(&record, "growth of start"), Some(linear));
        assert_eq!(met(&record, "growth of page last"), Some(flat));
    }

    #[test]
    fn a_million_has_a_figure_for_every_goal_and_fewer_have_not() {
        let record = Record::new(facts(1_000_000), &books(1.0), "s");
        for goal in &record.goals {
            assert!(goal.figure.is_some(), "{goal:?}");
        }
        let fewer = Record::new(facts(20_000), &books(1.0), "s");
        assert_eq!(met(&fewer, "memory a report with 1,000,000"), None);
        assert_eq!(met(&fewer, "middle page of 500 of all reports"), Some(true));
    }

    #[test]
    fn a_run_that_failed_shows_what_it_had() {
        let books = Books {
            all: Book::default(),
            ..books(1.0)
        };
        let record = Record::new(facts(20_000), &books, "s");
        assert_eq!(record.figures.len(), METRICS.len());
        assert!(record.text().contains("| start | s | 1.00 |  |  |"));
        assert!(record.goals.iter().all(|goal| goal.met.is_none()));
    }

    #[test]
    fn the_tables_have_both_sizes_and_every_goal() {
        let text = Record::new(facts(20_000), &books(10.0), "s").text();
        for line in [
            "| What | Unit | 2000 reports | 20000 reports | Growth |",
            "| all pages | ms | 1.00 | 10.0 | 1.00 |",
            "| load rate | /s | 1.00 | 10.0 |  |",
            "| growth of page first | 19 | ≤ 0.250 as a power | 1.00 as a power | **missed** |",
            "| `limit=1` of all reports | 19 | ≤ 1.00 ms | 10.0 ms | **missed** |",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
