//! What is compared with what, and the goals.

use super::{
    book::Book,
    figures::{Better, Figure, Goal, Row},
};

use Better::{Higher, Lower};

const CRD: &str = "crd";
const NULL: &str = "null aggregated";

const fn row(
    metric: &'static str,
    unit: &'static str,
    ours: &'static str,
    peer: Option<(&'static str, &'static str)>,
    better: Better,
    goal: Goal,
) -> Row {
    Row {
        metric,
        unit,
        ours,
        peer,
        better,
        goal,
    }
}

/// A metric that the peer has under the same name.
macro_rules! same {
    ($metric:literal, $unit:literal, $ours:literal, $peer:expr, $better:expr, $goal:expr) => {
        row(
            $metric,
            $unit,
            $ours,
            Some(($metric, $peer)),
            $better,
            $goal,
        )
    };
}

/// The rows of one engine: `$direct`, `$aggregated`, `$store` are its names in the book.
macro_rules! engine {
    ($direct:literal, $aggregated:literal, $store:literal) => {
        [
            same!(
                "create@64 rate",
                "/s",
                $direct,
                CRD,
                Higher,
                Goal::Value(7000.0)
            ),
            same!("create@64 p50", "ms", $direct, CRD, Lower, Goal::None),
            same!("create@64 p99", "ms", $direct, CRD, Lower, Goal::None),
            same!(
                "create@64 CPU",
                "ms/op",
                $direct,
                CRD,
                Lower,
                Goal::Value(0.25)
            ),
            same!(
                "create@64 rate",
                "/s",
                $aggregated,
                NULL,
                Higher,
                Goal::Ratio(0.9)
            ),
            same!(
                "create@64 CPU of all",
                "ms/op",
                $aggregated,
                CRD,
                Lower,
                Goal::None
            ),
            same!("update@16 rate", "/s", $direct, CRD, Higher, Goal::None),
            same!("update@16 p50", "ms", $direct, CRD, Lower, Goal::None),
            same!("update@16 p99", "ms", $direct, CRD, Lower, Goal::None),
            same!(
                "update@16 CPU",
                "ms/op",
                $direct,
                CRD,
                Lower,
                Goal::Value(0.25)
            ),
            same!(
                "update@16 rate",
                "/s",
                $aggregated,
                NULL,
                Higher,
                Goal::Ratio(0.9)
            ),
            same!(
                "update@64 rate",
                "/s",
                $direct,
                CRD,
                Higher,
                Goal::Value(6500.0)
            ),
            same!("update@64 p50", "ms", $direct, CRD, Lower, Goal::None),
            same!("update@64 p99", "ms", $direct, CRD, Lower, Goal::None),
            same!(
                "update@64 CPU",
                "ms/op",
                $direct,
                CRD,
                Lower,
                Goal::Value(0.25)
            ),
            same!(
                "update@64 rate",
                "/s",
                $aggregated,
                NULL,
                Higher,
                Goal::Ratio(0.9)
            ),
            same!(
                "update@64 CPU of all",
                "ms/op",
                $aggregated,
                CRD,
                Lower,
                Goal::None
            ),
            same!("update@256 rate", "/s", $direct, CRD, Higher, Goal::None),
            same!("update@256 p50", "ms", $direct, CRD, Lower, Goal::None),
            same!("update@256 p99", "ms", $direct, CRD, Lower, Goal::None),
            same!(
                "update@256 CPU",
                "ms/op",
                $direct,
                CRD,
                Lower,
                Goal::Value(0.25)
            ),
            same!("get@16 rate", "/s", $direct, CRD, Higher, Goal::None),
            same!(
                "get@16 CPU",
                "ms/op",
                $direct,
                CRD,
                Lower,
                Goal::Value(0.05)
            ),
            same!(
                "get@16 rate",
                "/s",
                $aggregated,
                NULL,
                Higher,
                Goal::Ratio(0.9)
            ),
            same!("list", "ms", $direct, CRD, Lower, Goal::Ratio(12.0)),
            same!(
                "list",
                "ms",
                $aggregated,
                NULL,
                Lower,
                Goal::Ratio(1.0 / 1.2)
            ),
            same!("list", "ms", $aggregated, CRD, Lower, Goal::None),
            same!(
                "list first byte",
                "ms",
                $aggregated,
                CRD,
                Lower,
                Goal::Value(20.0)
            ),
            row(
                "list",
                "ms",
                $direct,
                Some(("list", "null direct")),
                Lower,
                Goal::Ratio(0.5),
            ),
            same!("page", "ms", $aggregated, CRD, Lower, Goal::Value(10.0)),
            same!("page", "ms", $direct, CRD, Lower, Goal::None),
            same!("label", "ms", $aggregated, CRD, Lower, Goal::Value(2.0)),
            same!("label", "ms", $direct, CRD, Lower, Goal::None),
            same!(
                "watch@50/s p50",
                "ms",
                $aggregated,
                CRD,
                Lower,
                Goal::Value(2.0)
            ),
            same!(
                "watch@50/s p99",
                "ms",
                $aggregated,
                CRD,
                Lower,
                Goal::Value(5.0)
            ),
            row(
                "watch@1000/s p50",
                "ms",
                $direct,
                None,
                Lower,
                Goal::Value(3.0),
            ),
            row(
                "watch@1000/s p99",
                "ms",
                $direct,
                None,
                Lower,
                Goal::Value(10.0),
            ),
            row(
                "fan-out rate",
                "/s",
                $direct,
                Some(("fan-out rate", "null direct")),
                Higher,
                Goal::Ratio(0.5),
            ),
            same!(
                "kube-apiserver growth",
                "MiB",
                $store,
                CRD,
                Lower,
                Goal::Value(25.0)
            ),
            row(
                "server memory",
                "MiB",
                $store,
                Some(("kube-apiserver growth", CRD)),
                Lower,
                Goal::Value(60.0),
            ),
            row(
                "server memory after lists",
                "MiB",
                $store,
                None,
                Lower,
                Goal::Value(60.0),
            ),
            row("memory of 100,000", "MiB", $store, None, Lower, Goal::None),
            same!(
                "disk a report",
                "bytes",
                $store,
                CRD,
                Lower,
                Goal::Value(1300.0)
            ),
            row(
                "killed to serving",
                "s",
                $store,
                None,
                Lower,
                Goal::Value(1.0),
            ),
            row("start to ready", "s", $store, None, Lower, Goal::None),
            row(
                "no-op update WAL",
                "bytes",
                $store,
                None,
                Lower,
                Goal::Value(0.0),
            ),
        ]
    };
}

const POSTGRES: [Row; 46] = engine!("postgres direct", "postgres aggregated", "postgres");
const SQLITE: [Row; 46] = engine!("sqlite direct", "sqlite aggregated", "sqlite");

/// What only PostgreSQL has.
const DATABASE: [Row; 9] = [
    row(
        "update@16 rate",
        "/s",
        "postgres direct",
        Some(("sql@16 rate", "kine update")),
        Higher,
        Goal::Ratio(1.2),
    ),
    row(
        "create@64 rate",
        "/s",
        "postgres direct",
        Some(("sql@16 rate", "insert")),
        Higher,
        Goal::None,
    ),
    row(
        "update@64 rate",
        "/s",
        "postgres direct",
        Some(("sql@16 rate", "transaction")),
        Higher,
        Goal::None,
    ),
    row(
        "storage update@16",
        "/s",
        "postgres",
        Some(("sql@16 rate", "kine update")),
        Higher,
        Goal::Ratio(2.5),
    ),
    row(
        "storage create@16",
        "/s",
        "postgres",
        Some(("sql@16 rate", "insert")),
        Higher,
        Goal::Ratio(1.0),
    ),
    row(
        "WAL an update",
        "bytes",
        "postgres",
        Some(("WAL a statement", "kine update")),
        Lower,
        Goal::Ratio(4.0),
    ),
    row(
        "watch@50/s p99",
        "ms",
        "postgres direct across replicas",
        None,
        Lower,
        Goal::Value(5.0),
    ),
    row(
        "watch@1000/s p50",
        "ms",
        "postgres direct across replicas",
        None,
        Lower,
        Goal::Value(3.0),
    ),
    row(
        "watch@1000/s p99",
        "ms",
        "postgres direct across replicas",
        None,
        Lower,
        Goal::Value(10.0),
    ),
];

/// SQLite beside PostgreSQL in the same test.
const ENGINES: [Row; 2] = [
    row(
        "create@64 rate",
        "/s",
        "sqlite direct",
        Some(("create@64 rate", "postgres direct")),
        Higher,
        Goal::Ratio(1.0),
    ),
    row(
        "update@64 rate",
        "/s",
        "sqlite direct",
        Some(("update@64 rate", "postgres direct")),
        Higher,
        Goal::Ratio(1.0),
    ),
];

/// All figures that were measured: those with goals first, then the CPU time of each process.
#[must_use]
pub fn figures(book: &Book) -> Vec<Figure> {
    let rows = POSTGRES
        .iter()
        .chain(&DATABASE)
        .chain(&SQLITE)
        .chain(&ENGINES);
    let mut figures: Vec<Figure> = rows.filter_map(|row| row.figure(book)).collect();
    for (metric, system, spread) in book.iter() {
        if metric.contains(" CPU of ") && !metric.ends_with("CPU of all") {
            figures.push(Figure {
                name: format!("{metric}, {system}"),
                unit: "ms/op",
                ours: spread,
                peer: None,
                ratio: None,
                goal: Goal::None,
                better: Lower,
            });
        }
    }
    figures
}
