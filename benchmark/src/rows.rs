//! The comparisons: every metric of ours, and the peer beside it.

use super::book::Book;
use super::figures::{Figure, Row};

const CRD: &str = "crd";
const NULL: &str = "null aggregated";
const WIRE: &str = "null direct";
const ACROSS: &str = "postgres direct across replicas";

/// Returns all figures that were measured: those that are compared first, then the CPU time of each
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
    for load in ["create@64", "update@16", "update@64", "update@256"] {
        let direct =
            |what: &str, unit| Row::new(&format!("{load} {what}"), unit, direct).beside(CRD);
        rows.extend([
            direct("rate", "/s"),
            direct("p50", "ms"),
            direct("p99", "ms"),
            direct("CPU", "ms/op"),
        ]);
        let aggregated = |what: &str, unit| Row::new(&format!("{load} {what}"), unit, aggregated);
        rows.extend([
            aggregated("rate", "/s").beside(NULL),
            aggregated("CPU of all", "ms/op").beside(CRD),
        ]);
    }
    for load in ["delete@64", "no-op@16", "life", "bare update@64"] {
        rows.push(Row::new(&format!("{load} rate"), "/s", direct).beside(CRD));
        rows.push(Row::new(&format!("{load} CPU"), "ms/op", direct).beside(CRD));
        rows.push(Row::new(&format!("{load} rate"), "/s", aggregated).beside(NULL));
    }
    rows.extend(reads(direct, aggregated));
    rows.extend(watches(direct, aggregated));
    rows.extend(sizes(engine));
    rows
}

fn reads(direct: &str, aggregated: &str) -> Vec<Row> {
    let mut rows = vec![
        Row::new("get@16 rate", "/s", direct).beside(CRD),
        Row::new("get@16 CPU", "ms/op", direct).beside(CRD),
        Row::new("get@16 rate", "/s", aggregated).beside(NULL),
    ];
    for metric in [
        "list",
        "list gzip",
        "page",
        "page gzip",
        "all pages",
        "metadata json",
        "metadata protobuf",
        "watch list",
        "label",
    ] {
        rows.extend([
            Row::new(metric, "ms", direct).beside(CRD),
            Row::new(metric, "ms", direct).beside(WIRE),
            Row::new(metric, "ms", aggregated).beside(CRD),
            Row::new(metric, "ms", aggregated).beside(NULL),
        ]);
        if metric == "all pages" {
            rows.push(Row::new("all pages longest", "ms", direct).beside(CRD));
        } else {
            let first = format!("{metric} first byte");
            rows.push(Row::new(&first, "ms", aggregated).beside(CRD));
            rows.push(Row::new(&first, "ms", aggregated).beside(NULL));
        }
    }
    rows
}

fn watches(direct: &str, aggregated: &str) -> Vec<Row> {
    vec![
        Row::new("watch@50/s p50", "ms", aggregated).beside(CRD),
        Row::new("watch@50/s p99", "ms", aggregated).beside(CRD),
        Row::new("watch@1000/s p50", "ms", direct),
        Row::new("watch@1000/s p99", "ms", direct),
        Row::new("fan-out rate", "/s", direct).beside(WIRE),
    ]
}

fn sizes(engine: &str) -> Vec<Row> {
    let row = |metric, unit| Row::new(metric, unit, engine);
    vec![
        row("kube-apiserver growth", "MiB").beside(CRD),
        row("server memory", "MiB"),
        row("server memory", "MiB").beside_metric("kube-apiserver memory", CRD),
        row("server memory after lists", "MiB"),
        row("memory of 100,000", "MiB"),
        row("disk a report", "bytes").beside(CRD),
        row("log a report", "bytes"),
        row("killed to serving", "s"),
        row("start to ready", "s"),
        // What the housekeeping writes meanwhile is in it.
        row("no-op update WAL", "bytes"),
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
        ),
        sql(
            Row::new("update@16 rate", "/s", "postgres direct"),
            "upstream update",
        ),
        sql(store("storage update@16 rate", "/s"), "kine update"),
        best(store("storage update@64 rate", "/s"), "kine update"),
        best(store("storage update@256 rate", "/s"), "kine update"),
        sql(store("storage bare update@16 rate", "/s"), "kine update"),
        sql(store("storage rescan@16 rate", "/s"), "kine update"),
        best(store("storage rescan@256 rate", "/s"), "kine update"),
        sql(store("storage create@16 rate", "/s"), "insert"),
        best(store("storage create@64 rate", "/s"), "insert"),
        best(store("storage create@256 rate", "/s"), "insert"),
        sql(store("storage update@64 rate", "/s"), "transaction"),
        store("storage update@64 CPU of postgres", "ms/op")
            .beside_metric("sql@16 CPU", "kine update"),
        store("storage create@64 CPU of postgres", "ms/op").beside_metric("sql@16 CPU", "insert"),
        store("disk a report", "bytes").beside_metric("disk a row", "upstream update"),
        store("WAL an update", "bytes").beside_metric("WAL a statement", "kine update"),
        store("WAL a bare update", "bytes").beside_metric("WAL a statement", "kine update"),
        store("WAL a rescan", "bytes").beside_metric("WAL a statement", "kine update"),
        store("WAL a create", "bytes").beside_metric("WAL a statement", "kine create"),
        store("p99 while compacting", "ms").beside_metric("p99 while deleting", "postgres"),
        store("p99 while compacting", "ms").beside_metric("p99 before", "postgres"),
        Row::new("watch@50/s p99", "ms", ACROSS),
        Row::new("watch@1000/s p50", "ms", ACROSS),
        Row::new("watch@1000/s p99", "ms", ACROSS),
    ]
}

/// Returns the rows of disks whose fsync takes a millisecond or five longer than this machine's.
fn slow_disks() -> Vec<Row> {
    let row = |metric: &str| Row::new(metric, "/s", "postgres");
    vec![
        row("+1 ms update@16 rate").beside_metric("+1 ms sql@16 rate", "kine update"),
        row("+1 ms update@256 rate").beside_metric("+1 ms sql best rate", "kine update"),
        row("+1 ms create@256 rate").beside_metric("+1 ms sql best rate", "insert"),
        row("+1 ms rescan@256 rate").beside_metric("+1 ms sql best rate", "kine update"),
        row("+5 ms update@64 rate").beside_metric("+5 ms sql@16 rate", "transaction"),
        row("+5 ms update@256 rate").beside_metric("+5 ms sql@16 rate", "transaction"),
        row("+5 ms rescan@256 rate").beside_metric("+5 ms sql@16 rate", "transaction"),
    ]
}

/// Returns the rows of SQLite beside PostgreSQL in the same test.
fn engines() -> Vec<Row> {
    ["create@64 rate", "update@64 rate"]
        .map(|metric| Row::new(metric, "/s", "sqlite direct").beside("postgres direct"))
        .into()
}

/// Returns the CPU time of each process.
fn processes(book: &Book) -> impl Iterator<Item = Figure> {
    book.iter()
        .filter(|(metric, ..)| metric.contains(" CPU of ") && !metric.ends_with("CPU of all"))
        .map(|(metric, system, spread)| Figure::alone(metric, "ms/op", system, spread))
}
