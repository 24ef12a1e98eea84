//! The page has figures that were measured, and what follows from them.

use serde_json::{Value, json};

use super::*;

const RECORD: &str = include_str!("../../../../docs/performance.json");
const COMMITTED: &str = include_str!("../../../../docs/sizing.md");

/// Returns a record; its figures are made up.
fn record() -> Value {
    let rows = [
        ("server memory, postgres", "MiB", 84.04, 4000.0),
        ("memory of 100,000, postgres", "MiB", 266.4, 0.0),
        ("server memory, sqlite", "MiB", 95.0, 0.0),
        ("memory of 100,000, sqlite", "MiB", 287.0, 0.0),
        ("kube-apiserver growth, postgres", "MiB", 32.0, 3403.2),
        ("disk a report, postgres", "bytes", 3900.0, 12_900.0),
        ("disk a report, sqlite", "bytes", 13_800.0, 12_900.0),
        ("update@64 CPU, postgres direct", "ms/op", 1.28, 11.3),
        ("WAL an update, postgres", "bytes", 1400.0, 0.0),
        ("WAL a rescan, postgres", "bytes", 551.0, 0.0),
        ("update@64 rate, postgres direct", "/s", 1206.4, 171.0),
        ("killed to serving, postgres", "s", 0.9, 0.0),
    ];
    let figures = rows.map(|(name, unit, ours, peer)| {
        json!({"name": name, "unit": unit, "ours": ours, "peer": peer, "peer_name": "crd"})
    });
    let upstream = json!({"name": "disk a report, postgres", "unit": "bytes", "ours": 3900.0,
        "peer": 6200.0, "peer_name": "upstream update"});
    let figures: Vec<Value> = [upstream].into_iter().chain(figures).collect();
    json!({"figures": figures})
}

#[test]
fn the_measured_sizes_come_out_as_they_were_measured() {
    let figures = Figures::read(&record().to_string()).unwrap();
    let at = |reports| memory(reports, &figures.memory_base, &figures.memory_many);
    assert_eq!(format!("{:.0} {:.0}", at(10_000), at(100_000)), "84 266");
    assert_eq!(format!("{:.0}", at(1_000)), "84");
    assert_eq!(limit(at(100_000)), "1Gi");
    assert_eq!(limit(3_000.0), "more than 4Gi");
    assert_eq!(gigabytes(disk(10_000, &figures.disk_postgres)), "39 MB");
    assert_eq!(gigabytes(disk(10_000, &figures.disk_etcd)), "129 MB");
    assert_eq!(volume(11.0 * GIBI), "20Gi");
    assert_eq!(volume(300.0 * GIBI), "more than 200Gi");
    let shown = [
        &figures.updates,
        &figures.wal_rescan,
        &figures.kube_apiserver,
    ];
    assert_eq!(
        shown.map(|figure| number(figure.value)),
        ["1,206", "0.55", "3,403"]
    );
}

#[test]
fn a_record_that_lacks_a_figure_is_refused() {
    let mut record = record();
    record["figures"].as_array_mut().unwrap().pop();
    let error = sizing(&record.to_string()).unwrap_err().to_string();
    assert!(error.contains("killed to serving"), "{error}");
    assert!(matches!(sizing("{}"), Err(SizingError::Record(_))));
}

#[test]
fn the_committed_page_is_what_is_generated() {
    assert!(
        COMMITTED == sizing(RECORD).unwrap(),
        "run hack/gen and commit docs/sizing.md"
    );
}
