//! The goals: each with the figure that it is about, its bound, and how the figure follows from what
//! was measured. [`list`] has them all, also those that are measured elsewhere; [`scale`] those of very
//! many reports.

mod goal;
mod list;
mod scale;
mod served;
mod set;

use super::book::Book;
use super::figures::short;

pub use goal::{Bound, Derivation, Goal, Metric, Outcome};
pub use list::goals;
pub use scale::{ALL, GROWTH, TENTH, of_many};

/// Returns every goal beside its figure.
#[must_use]
pub fn outcomes(book: &Book) -> Vec<Outcome> {
    goals().iter().map(|goal| goal.outcome(book)).collect()
}

/// Returns the goals as a table, the missed ones first, and the number of each sort.
#[must_use]
pub fn table(outcomes: &[Outcome]) -> String {
    let mut lines = vec![
        "| Goal | Set by | Bound | Figure | | Derived from |".to_owned(),
        "|---|---|---|---|---|---|".to_owned(),
    ];
    for met in [Some(false), Some(true), None] {
        let sort = outcomes.iter().filter(|outcome| outcome.met == met);
        lines.extend(sort.map(line));
    }
    lines.push(String::new());
    lines.push(count(outcomes));
    lines.join("\n")
}

fn line(outcome: &Outcome) -> String {
    let unit = &outcome.unit;
    let figure = outcome
        .figure
        .map(|figure| format!("{} {unit}", short(figure)))
        .unwrap_or_default();
    format!(
        "| {} | {} | {} {unit} | {figure} | {} | {} |",
        outcome.what,
        outcome.source,
        outcome.bound,
        verdict(outcome.met),
        outcome.derived,
    )
}

fn verdict(met: Option<bool>) -> &'static str {
    match met {
        Some(true) => "met",
        Some(false) => "**missed**",
        None => "not measured",
    }
}

/// Returns the number of goals that are met, missed and not measured.
fn count(outcomes: &[Outcome]) -> String {
    let of = |met| outcomes.iter().filter(|outcome| outcome.met == met).count();
    format!(
        "Of {} goals {} are met, {} missed and {} not measured.",
        outcomes.len(),
        of(Some(true)),
        of(Some(false)),
        of(None)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(name: &str) -> Metric {
        (name.to_owned(), "s".to_owned())
    }

    fn goal(bound: Bound, from: Derivation) -> Goal {
        Goal {
            source: "here",
            what: "speed".to_owned(),
            unit: "x",
            bound,
            from,
            cost: "in waiting",
        }
    }

    #[test]
    fn figures_follow_from_the_book() {
        let mut book = Book::default();
        for (name, value) in [("a", 6.0), ("b", 2.0), ("zero", 0.0)] {
            book.add(name, "s", value);
        }
        let quotient = |by| Derivation::Quotient(metric("a"), metric(by));
        for (from, figure) in [
            (Derivation::Median(metric("a")), Some(6.0)),
            (quotient("b"), Some(3.0)),
            (quotient("none"), None),
            (quotient("zero"), None),
            (Derivation::Elsewhere("another command"), None),
        ] {
            assert_eq!(from.figure(&book), figure, "{from}");
        }
    }

    #[rstest::rstest]
    #[case(Bound::AtLeast(2.0), 2.0, true)]
    #[case(Bound::AtLeast(2.0), 1.9, false)]
    #[case(Bound::AtMost(2.0), 2.0, true)]
    #[case(Bound::AtMost(2.0), 2.1, false)]
    fn bounds_hold(#[case] bound: Bound, #[case] figure: f64, #[case] holds: bool) {
        assert_eq!(bound.holds(figure), holds);
    }

    #[test]
    fn a_goal_is_met_missed_or_not_measured() {
        let mut book = Book::default();
        let goal = goal(Bound::AtLeast(2.0), Derivation::Median(metric("a")));
        assert_eq!(goal.outcome(&book).met, None);
        assert!(table(&[goal.outcome(&book)]).contains("| not measured | a, s |"));
        book.add("a", "s", 1.0);
        let missed = goal.outcome(&book);
        assert_eq!((missed.figure, missed.met), (Some(1.0), Some(false)));
        assert!(table(&[missed]).ends_with("0 are met, 1 missed and 0 not measured."));
    }

    #[test]
    fn no_goal_is_there_twice() {
        let goals = goals();
        let mut seen = std::collections::BTreeSet::new();
        for goal in &goals {
            let key = (goal.source, goal.what.clone(), goal.bound.to_string());
            assert!(seen.insert(key), "{goal:?}");
        }
        assert!(goals.len() > 60, "{}", goals.len());
    }
}
