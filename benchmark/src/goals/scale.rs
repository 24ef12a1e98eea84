//! The goals of very many reports, which `hack/scale` measures: at all reports, and by the growth
//! from a tenth of them.

use super::goal::{Derivation, Goal};
use super::set::{Set, by, median};

/// The size at which all reports are there, as the system of a metric.
pub const ALL: &str = "all reports";
/// The size at which a tenth of them are there.
pub const TENTH: &str = "a tenth";
/// The growth from a tenth to all, as the power of the number of reports.
pub const GROWTH: &str = "growth";

/// The number of reports for which some goals were set.
const MILLION: usize = 1_000_000;
const PLACE: &str = "`hack/scale --reports 1000000`";
/// Highest power of a cost in proportion: what two measurements of one thing differ by is in it.
const LINEAR: f64 = 1.1;
/// Highest power of a cost that does not depend on the number of reports, likewise.
const FLAT: f64 = 0.25;

/// The costs of the whole collection.
const WHOLE: [&str; 5] = ["disk", "memory at the end", "start", "all pages", "label"];
/// The costs of one request.
const SINGLE: [&str; 7] = [
    "load CPU",
    "limit=1",
    "page first",
    "page middle",
    "page last",
    "update@16 CPU",
    "watch@100/s p50",
];

/// Returns the goals of a run with so many reports: those of a million are measured by one with as
/// many.
#[must_use]
pub fn of_many(reports: usize) -> Vec<Goal> {
    let mut all = set_by_number(Some(reports));
    all.extend(growths());
    all
}

/// Returns the goals with a bound in units; without a number of reports, as those of another
/// command.
pub(super) fn set_by_number(reports: Option<usize>) -> Vec<Goal> {
    let is_million = reports.is_some_and(|reports| reports >= MILLION);
    let million = |from| measured(is_million, from);
    let any = |from| measured(reports.is_some(), from);
    let memory = million(median("memory a report", ALL));
    let by_json = million(by("memory a report", ALL, "JSON a report", ALL));
    let start = million(median("start", ALL));
    let limit = any(median("limit=1", ALL));
    let what = "start with 1,000,000 reports";
    let pages = ["first", "middle", "last"];
    let real = Set::new("19", "")
        .most("memory a report with 1,000,000", "bytes", &[900.0], &memory)
        .most(what, "s", &[60.0], &start)
        .most("`limit=1` of all reports", "ms", &[1.0], &limit);
    let real = pages.into_iter().fold(real, |set, page| {
        let from = any(median(&format!("page {page}"), ALL));
        let what = format!("{page} page of 500 of all reports");
        set.most(&what, "ms", &[25.0], &from)
    });
    let json = "memory with 1,000,000 reports by their JSON";
    let sets = [
        Set::new("13.12", "").most(json, "x", &[0.25, 0.125], &by_json),
        Set::new("13.21", "").most(what, "s", &[15.0, 8.0], &start),
        real,
    ];
    sets.into_iter().flat_map(|set| set.goals).collect()
}

/// Returns the way to a figure of this run, or the place where it is measured.
fn measured(here: bool, from: Derivation) -> Derivation {
    if here {
        from
    } else {
        Derivation::Elsewhere(PLACE)
    }
}

/// Returns the goals of growth: in proportion to the reports at most, and hardly at all where a
/// request has nothing to do with most of them.
fn growths() -> Vec<Goal> {
    let mut set = Set::new("19", "");
    for (metrics, bound) in [(&WHOLE[..], LINEAR), (&SINGLE[..], FLAT)] {
        for metric in metrics {
            let what = format!("growth of {metric}");
            set = set.most(&what, "as a power", &[bound], &median(metric, GROWTH));
        }
    }
    set.goals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goals::Bound;

    #[test]
    fn a_smaller_run_measures_no_goal_of_a_million() {
        let elsewhere = |reports| {
            let goals = set_by_number(reports);
            let not = |goal: &&Goal| matches!(goal.from, Derivation::Elsewhere(_));
            (goals.iter().filter(not).count(), goals.len())
        };
        assert_eq!(elsewhere(Some(MILLION)), (0, 10));
        assert_eq!(elsewhere(Some(MILLION - 1)), (6, 10));
        assert_eq!(elsewhere(None), (10, 10));
    }

    #[test]
    fn every_growth_is_bounded_by_a_line() {
        for goal in growths() {
            assert!(
                matches!(goal.bound, Bound::AtMost(power) if power <= LINEAR),
                "{goal:?}"
            );
        }
    }
}
