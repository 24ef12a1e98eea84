//! The measured figures from which sizes follow, read from the record of a run of `hack/bench`.

use serde::Deserialize;

/// The number of reports with which memory and disk were measured.
pub(super) const BASE: u32 = 10_000;
/// The larger number of reports with which the memory was measured.
pub(super) const MANY: u32 = 100_000;
/// Bytes of a kB.
const KILO: f64 = 1_000.0;
/// The name of the CRD among the measured systems.
const CRD: &str = "crd";

/// The reason why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum SizingError {
    /// The record is none.
    #[error("the record of the run cannot be read: {0}")]
    Record(#[from] serde_json::Error),
    /// The record lacks a figure.
    #[error("the record has no figure {0:?}; run hack/bench whole")]
    Missing(String),
}

/// A measured figure.
#[derive(Clone, Debug)]
pub(super) struct Figure {
    /// The measured quantity.
    pub(super) what: &'static str,
    /// The value of the quantity.
    pub(super) value: f64,
    /// The unit of the value.
    pub(super) unit: &'static str,
    /// The first cell of the row that has it, in the table of all figures.
    pub(super) row: &'static str,
    /// The system whose value it is, where it is not in the row's name.
    pub(super) peer: Option<&'static str>,
}

/// The figures from which sizes follow.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    /// Memory of a server with [`BASE`] reports.
    pub(super) memory_base: Figure,
    /// Memory of a server with [`MANY`] reports.
    pub(super) memory_many: Figure,
    /// Memory of a server on SQLite with [`BASE`] reports.
    pub(super) embedded_base: Figure,
    /// Memory of a server on SQLite with [`MANY`] reports.
    pub(super) embedded_many: Figure,
    /// Memory that the kube-apiserver needs for [`BASE`] reports of a CRD.
    pub(super) kube_apiserver: Figure,
    /// Disk of a report in PostgreSQL.
    pub(super) disk_postgres: Figure,
    /// Disk of a report in SQLite.
    pub(super) disk_sqlite: Figure,
    /// Disk of a report in etcd.
    pub(super) disk_etcd: Figure,
    /// Processor time of an update.
    pub(super) cpu_update: Figure,
    /// WAL of an update that changes what a report says.
    pub(super) wal_update: Figure,
    /// WAL of an update that changes times alone.
    pub(super) wal_rescan: Figure,
    /// Updates a second of two servers on two cores.
    pub(super) updates: Figure,
    /// Time from a killed server to its first answer.
    pub(super) restart: Figure,
}

impl Figures {
    /// Reads them from the record of a run.
    ///
    /// # Errors
    /// If it is none, or lacks one.
    #[rustfmt::skip] // a table
    pub(super) fn read(json: &str) -> Result<Self, SizingError> {
        let record: Record = serde_json::from_str(json)?;
        let ours = |what, unit, row| record.figure(what, unit, row, None);
        let crd = |what, unit, row| record.figure(what, unit, row, Some(CRD));
        Ok(Self {
            memory_base: ours("memory of a server on PostgreSQL, 10,000 reports and 20,000 events", "MiB", "server memory, postgres")?,
            memory_many: ours("the same with 100,000 reports", "MiB", "memory of 100,000, postgres")?,
            embedded_base: ours("memory of a server on SQLite, 10,000 reports and 20,000 events", "MiB", "server memory, sqlite")?,
            embedded_many: ours("the same with 100,000 reports", "MiB", "memory of 100,000, sqlite")?,
            kube_apiserver: crd("growth of a kube-apiserver with 10,000 reports and 20,000 events of a CRD", "MiB", "kube-apiserver growth, postgres")?,
            disk_postgres: ours("disk a report in PostgreSQL: all tables and indexes but the log", "kB", "disk a report, postgres")?,
            disk_sqlite: ours("disk a report in SQLite: likewise", "kB", "disk a report, sqlite")?,
            disk_etcd: crd("disk a report in etcd", "kB", "disk a report, postgres")?,
            cpu_update: ours("processor time of server and database for an update", "ms", "update@64 CPU, postgres direct")?,
            wal_update: ours("WAL for an update that changes a verdict", "kB", "WAL an update, postgres")?,
            wal_rescan: ours("WAL for an update that changes times alone, as a rescan does", "kB", "WAL a rescan, postgres")?,
            updates: ours("updates a second that two servers and PostgreSQL took on two cores", "/s", "update@64 rate, postgres direct")?,
            restart: ours("a killed server answers again, 10,000 reports and more, PostgreSQL", "s", "killed to serving, postgres")?,
        })
    }

    /// Returns every figure, in the order of the page.
    pub(super) fn all(&self) -> [&Figure; 13] {
        [
            &self.memory_base,
            &self.memory_many,
            &self.embedded_base,
            &self.embedded_many,
            &self.kube_apiserver,
            &self.disk_postgres,
            &self.disk_sqlite,
            &self.disk_etcd,
            &self.cpu_update,
            &self.wal_update,
            &self.wal_rescan,
            &self.updates,
            &self.restart,
        ]
    }
}

/// The part of the record that is read here.
#[derive(Deserialize)]
struct Record {
    figures: Vec<Measured>,
}

#[derive(Deserialize)]
struct Measured {
    name: String,
    unit: String,
    ours: f64,
    peer: Option<f64>,
    peer_name: Option<String>,
}

impl Record {
    /// Returns the figure of a row: ours, or that of a peer.
    fn figure(
        &self,
        what: &'static str,
        unit: &'static str,
        row: &'static str,
        peer: Option<&'static str>,
    ) -> Result<Figure, SizingError> {
        let value = self.figures.iter().find_map(|measured| {
            let value = match peer {
                Some(_) if measured.peer_name.as_deref() == peer => measured.peer?,
                Some(_) => return None,
                None => measured.ours,
            };
            let bytes = measured.unit == "bytes" && unit == "kB";
            let value = if bytes { value / KILO } else { value };
            (measured.name == row).then_some(rounded(value))
        });
        Ok(Figure {
            what,
            value: value.ok_or_else(|| SizingError::Missing(row.to_owned()))?,
            unit,
            row,
            peer,
        })
    }
}

/// Returns a value with as many digits as it can be measured with.
fn rounded(value: f64) -> f64 {
    let digits = match value {
        large if large >= 100.0 => 1.0,
        medium if medium >= 10.0 => 10.0,
        _ => 100.0,
    };
    (value * digits).round() / digits
}
