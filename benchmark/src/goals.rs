//! The comparisons, and their goals.

use super::book::Book;
use super::figures::{Better, Figure, Goal, Row};

const CRD: &str = "crd";
const NULL: &str = "null aggregated";
const WIRE: &str = "null direct";
const ACROSS: &str = "postgres direct across replicas";

/// Returns all figures that were measured: those with goals first, then the CPU time of each
/// process.
#[must_use]
pub fn figures(book: &Book) -> Vec<Figure> {
    let rows = [
        served("postgres"),
        database(),
        slow_disks(),
        served("sqlite"),
        engines(),
    ];
    let rows = rows.iter().flatten();
    rows.filter_map(|row| row.figure(book))
        .chain(processes(book))
        .collect()
}

/// Returns the rows of an engine over HTTP, and the resources that it takes.
fn served(engine: &str) -> Vec<Row> {
    let direct = &format!("{engine} direct");
    let aggregated = &format!("{engine} aggregated");
    let mut rows = Vec::new();
    for (load, rate) in [
        ("create@64", Some(7000.0)),
        ("update@16", None),
        ("update@64", Some(6500.0)),
        ("update@256", None),
    ] {
        let direct =
            |what: &str, unit| Row::new(&format!("{load} {what}"), unit, direct).beside(CRD);
        let measured = direct("rate", "/s");
        rows.extend([
            match rate {
                Some(rate) => measured.value(rate),
                None => measured,
            },
            direct("p50", "ms"),
            direct("p99", "ms"),
            direct("CPU", "ms/op").value(0.25),
        ]);
        let aggregated = |what: &str, unit| Row::new(&format!("{load} {what}"), unit, aggregated);
        rows.extend([
            aggregated("rate", "/s").beside(NULL).times(0.9),
            aggregated("CPU of all", "ms/op").beside(CRD),
        ]);
    }
    rows.extend(bare(direct));
    rows.extend(reads(direct, aggregated));
    rows.extend(watches(direct, aggregated));
    rows.extend(sizes(engine));
    rows
}

/// Returns the rows of updates that change a verdict without its message.
fn bare(direct: &str) -> [Row; 2] {
    [("rate", "/s"), ("CPU", "ms/op")]
        .map(|(what, unit)| Row::new(&format!("bare update@64 {what}"), unit, direct).beside(CRD))
}

fn reads(direct: &str, aggregated: &str) -> Vec<Row> {
    vec![
        Row::new("get@16 rate", "/s", direct).beside(CRD),
        Row::new("get@16 CPU", "ms/op", direct)
            .beside(CRD)
            .value(0.05),
        Row::new("get@16 rate", "/s", aggregated)
            .beside(NULL)
            .times(0.9),
        Row::new("list", "ms", direct).beside(CRD).times(12.0),
        Row::new("list", "ms", aggregated)
            .beside(NULL)
            .times(1.0 / 1.2),
        Row::new("list", "ms", aggregated).beside(CRD),
        Row::new("list first byte", "ms", aggregated)
            .beside(CRD)
            .value(20.0),
        Row::new("list", "ms", direct).beside(WIRE).times(0.5),
        Row::new("page", "ms", aggregated).beside(CRD).value(10.0),
        Row::new("page", "ms", direct).beside(CRD),
        Row::new("label", "ms", aggregated).beside(CRD).value(2.0),
        Row::new("label", "ms", direct).beside(CRD),
    ]
}

fn watches(direct: &str, aggregated: &str) -> Vec<Row> {
    vec![
        Row::new("watch@50/s p50", "ms", aggregated)
            .beside(CRD)
            .value(2.0),
        Row::new("watch@50/s p99", "ms", aggregated)
            .beside(CRD)
            .value(5.0),
        Row::new("watch@1000/s p50", "ms", direct).value(3.0),
        Row::new("watch@1000/s p99", "ms", direct).value(10.0),
        Row::new("fan-out rate", "/s", direct)
            .beside(WIRE)
            .times(0.5),
    ]
}

fn sizes(engine: &str) -> Vec<Row> {
    let row = |metric, unit| Row::new(metric, unit, engine);
    vec![
        row("kube-apiserver growth", "MiB").beside(CRD).value(25.0),
        row("server memory", "MiB").value(60.0),
        row("server memory", "MiB")
            .beside_metric("kube-apiserver memory", CRD)
            .times(25.0),
        row("server memory after lists", "MiB").value(60.0),
        row("memory of 100,000", "MiB"),
        row("disk a report", "bytes").beside(CRD).value(1300.0),
        row("killed to serving", "s").value(1.0),
        row("start to ready", "s"),
        // What the housekeeping writes meanwhile is in it.
        row("no-op update WAL", "bytes").value(1.0),
    ]
}

/// Returns the rows that only PostgreSQL has: the store without HTTP beside plain SQL, and other
/// servers.
fn database() -> Vec<Row> {
    let store = |metric: &str, unit| Row::new(metric, unit, "postgres");
    let sql = |row: Row, statement: &str| row.beside_metric("sql@16 rate", statement);
    let best = |row: Row, statement: &str| row.beside_metric("sql best rate", statement);
    vec![
        sql(
            Row::new("update@16 rate", "/s", "postgres direct"),
            "kine update",
        )
        .times(1.2),
        sql(
            Row::new("update@16 rate", "/s", "postgres direct"),
            "upstream update",
        ),
        sql(store("storage update@16 rate", "/s"), "kine update").times(2.5),
        best(store("storage update@64 rate", "/s"), "kine update"),
        best(store("storage update@256 rate", "/s"), "kine update").times(6.0),
        sql(store("storage bare update@16 rate", "/s"), "kine update"),
        sql(store("storage rescan@16 rate", "/s"), "kine update").times(2.5),
        best(store("storage rescan@256 rate", "/s"), "kine update").times(6.0),
        sql(store("storage create@16 rate", "/s"), "insert").times(1.0),
        best(store("storage create@64 rate", "/s"), "insert"),
        best(store("storage create@256 rate", "/s"), "insert").times(2.7),
        sql(store("storage update@64 rate", "/s"), "transaction"),
        store("storage update@64 CPU of postgres", "ms/op")
            .beside_metric("sql@16 CPU", "kine update"),
        store("storage create@64 CPU of postgres", "ms/op").beside_metric("sql@16 CPU", "insert"),
        store("disk a report", "bytes")
            .beside_metric("disk a row", "upstream update")
            .times(3.0),
        store("WAL an update", "bytes")
            .beside_metric("WAL a statement", "kine update")
            .times(4.0),
        store("WAL a bare update", "bytes").beside_metric("WAL a statement", "kine update"),
        store("WAL a rescan", "bytes").beside_metric("WAL a statement", "kine update"),
        store("WAL a create", "bytes").beside_metric("WAL a statement", "kine create"),
        store("p99 while compacting", "ms")
            .beside_metric("p99 while deleting", "postgres")
            .times(3.0),
        store("p99 while compacting", "ms").beside_metric("p99 before", "postgres"),
        Row::new("watch@50/s p99", "ms", ACROSS).value(5.0),
        Row::new("watch@1000/s p50", "ms", ACROSS).value(3.0),
        Row::new("watch@1000/s p99", "ms", ACROSS).value(10.0),
    ]
}

/// Returns the rows of disks whose fsync takes a millisecond or five longer than this machine's.
fn slow_disks() -> Vec<Row> {
    let row = |metric: &str| Row::new(metric, "/s", "postgres");
    vec![
        row("+1 ms update@16 rate")
            .beside_metric("+1 ms sql@16 rate", "kine update")
            .times(1.3),
        row("+1 ms update@256 rate")
            .beside_metric("+1 ms sql best rate", "kine update")
            .times(3.0),
        row("+1 ms create@256 rate")
            .beside_metric("+1 ms sql best rate", "insert")
            .times(2.0),
        row("+1 ms rescan@256 rate")
            .beside_metric("+1 ms sql best rate", "kine update")
            .times(3.0),
        row("+5 ms update@64 rate")
            .beside_metric("+5 ms sql@16 rate", "transaction")
            .times(25.0),
        row("+5 ms update@256 rate")
            .beside_metric("+5 ms sql@16 rate", "transaction")
            .times(70.0),
        row("+5 ms rescan@256 rate")
            .beside_metric("+5 ms sql@16 rate", "transaction")
            .times(70.0),
    ]
}

/// Returns the rows of SQLite beside PostgreSQL in the same test.
fn engines() -> Vec<Row> {
    ["create@64 rate", "update@64 rate"]
        .map(|metric| {
            Row::new(metric, "/s", "sqlite direct")
                .beside("postgres direct")
                .times(1.0)
        })
        .into()
}

/// Returns the CPU time of each process.
fn processes(book: &Book) -> impl Iterator<Item = Figure> {
    book.iter()
        .filter(|(metric, ..)| metric.contains(" CPU of ") && !metric.ends_with("CPU of all"))
        .map(|(metric, system, spread)| Figure {
            name: format!("{metric}, {system}"),
            unit: "ms/op",
            ours: spread,
            peer: None,
            ratio: None,
            goal: Goal::None,
            better: Better::Lower,
        })
}
