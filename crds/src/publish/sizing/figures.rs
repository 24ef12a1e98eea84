//! The measured figures from which sizes follow. Each names the cell of the table in
//! `docs/performance.md` that it is from, and a test reads it there.

/// A measured figure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figure {
    /// The measured quantity.
    pub(super) what: &'static str,
    /// The value of the quantity.
    pub(super) value: f64,
    /// The unit of the value.
    pub(super) unit: &'static str,
    /// The first cell of the row that has it.
    pub(super) row: &'static str,
    /// The head of the column that has it.
    pub(super) column: &'static str,
}

/// The number of reports with which memory and disk were measured.
pub(super) const BASE: u32 = 10_000;
/// The larger number of reports with which the memory was measured.
pub(super) const MANY: u32 = 100_000;

const MEMORY: &str = "memory of a server then; after all rounds; with 100,000 reports";
const DISK: &str = "disk a report, each updated once";
const CPU: &str = "CPU of server and database: create, update@64, get";
const WAL: &str = "WAL: create, update, rescan";

/// Memory of a server with [`BASE`] reports.
pub(super) const MEMORY_BASE: Figure = Figure {
    what: "memory of a server on PostgreSQL, 10,000 reports and 20,000 events",
    value: 84.0,
    unit: "MiB",
    row: MEMORY,
    column: "Ours",
};
/// Memory of a server with [`MANY`] reports.
pub(super) const MEMORY_MANY: Figure = Figure {
    what: "the same with 100,000 reports",
    value: 266.0,
    row: MEMORY,
    ..MEMORY_BASE
};
/// Memory of a server on SQLite with [`BASE`] reports.
pub(super) const EMBEDDED_BASE: Figure = Figure {
    what: "memory of a server on SQLite, 10,000 reports and 20,000 events",
    value: 95.0,
    column: "SQLite",
    ..MEMORY_BASE
};
/// Memory of a server on SQLite with [`MANY`] reports.
pub(super) const EMBEDDED_MANY: Figure = Figure {
    what: "the same with 100,000 reports",
    value: 287.0,
    ..EMBEDDED_BASE
};
/// Memory that the kube-apiserver needs for [`BASE`] reports of a CRD.
pub(super) const KUBE_APISERVER: Figure = Figure {
    what: "growth of a kube-apiserver with 10,000 reports and 20,000 events of a CRD",
    value: 3403.0,
    unit: "MiB",
    row: "kube-apiserver's growth with 10,000 reports and 20,000 events",
    column: "CRD",
};
/// Disk of a report in PostgreSQL.
pub(super) const DISK_POSTGRES: Figure = Figure {
    what: "disk a report in PostgreSQL: objects, their texts and indexes",
    value: 3.9,
    unit: "kB",
    row: DISK,
    column: "Ours",
};
/// Disk of a report in SQLite.
pub(super) const DISK_SQLITE: Figure = Figure {
    what: "disk a report in SQLite",
    value: 13.8,
    column: "SQLite",
    ..DISK_POSTGRES
};
/// Disk of a report in etcd.
pub(super) const DISK_ETCD: Figure = Figure {
    what: "disk a report in etcd",
    value: 12.9,
    column: "CRD",
    ..DISK_POSTGRES
};
/// Processor time of an update.
pub(super) const CPU_UPDATE: Figure = Figure {
    what: "processor time of server and database for an update",
    value: 1.28,
    unit: "ms",
    row: CPU,
    column: "Ours",
};
/// WAL of an update that changes what a report says.
pub(super) const WAL_UPDATE: Figure = Figure {
    what: "WAL for an update that changes a verdict",
    value: 1.4,
    unit: "kB",
    row: WAL,
    column: "Ours",
};
/// WAL of an update that changes times alone.
pub(super) const WAL_RESCAN: Figure = Figure {
    what: "WAL for an update that changes times alone, as a rescan does",
    value: 0.55,
    ..WAL_UPDATE
};
/// Updates a second of two servers on two cores.
pub(super) const UPDATES: Figure = Figure {
    what: "updates a second that two servers and PostgreSQL took on two cores",
    value: 1206.0,
    unit: "/s",
    row: "update, 64 connections, straight",
    column: "Ours",
};
/// Time from a killed server to its first answer.
pub(super) const RESTART: Figure = Figure {
    what: "a killed server answers again, 10,000 reports and more, PostgreSQL",
    value: 0.9,
    unit: "s",
    row: "killed to serving, 10,000 reports and more",
    column: "Ours",
};

/// Every figure, in the order of the page.
pub(super) const ALL: [Figure; 13] = [
    MEMORY_BASE,
    MEMORY_MANY,
    EMBEDDED_BASE,
    EMBEDDED_MANY,
    KUBE_APISERVER,
    DISK_POSTGRES,
    DISK_SQLITE,
    DISK_ETCD,
    CPU_UPDATE,
    WAL_UPDATE,
    WAL_RESCAN,
    UPDATES,
    RESTART,
];
