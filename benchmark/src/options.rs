//! The choice of what a run measures.

use std::path::PathBuf;

use testreports::Input;

use super::target::Kind;

/// One subject of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Job {
    /// Creates with 64 connections, and deletes of what they made.
    Create,
    /// Updates with 16, 64 and 256 connections.
    Update,
    /// Gets with 16 connections.
    Get,
    /// Lists: all, a page, by label; compressed, metadata alone, page by page, and as a watch.
    List,
    /// The life of a report, as it was recorded of Kyverno.
    Life,
    /// Time from a write to its event.
    Watch,
    /// Events to many watchers.
    FanOut,
    /// The store without HTTP, and plain SQL on the same PostgreSQL.
    Sql,
    /// Both on disks whose fsync takes longer.
    SlowDisk,
    /// Writes while old changes are dropped.
    Compaction,
    /// From SIGKILL to serving.
    Start,
    /// Memory of 100,000 reports.
    Memory,
    /// Updates that change nothing: their cost, and that they leave nothing.
    NoOp,
}

impl Job {
    /// Returns whether it needs no cluster, nor reports in it.
    pub(super) fn is_database_only(self) -> bool {
        matches!(self, Self::Sql | Self::SlowDisk | Self::Compaction)
    }
}

/// A system that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum System {
    /// The CRD.
    Crd,
    /// Our server on SQLite.
    Sqlite,
    /// Our servers on PostgreSQL, and plain SQL.
    Postgres,
}

/// Options of a run.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// The `reports-server` to measure: a release build.
    pub server: PathBuf,
    /// This program.
    pub own: PathBuf,
    /// Systems that are left out.
    pub without: Vec<System>,
    /// The source of the reports.
    pub input: Input,
    /// The jobs that run; all when empty.
    pub only: Vec<Job>,
    /// Number of rounds in which each is measured.
    pub rounds: usize,
    /// Reports in the base set.
    pub reports: usize,
    /// Requests in a run straight at a server; other ways take a part of it.
    pub requests: usize,
    /// Watchers that receive the events.
    pub watchers: usize,
}

impl BenchOptions {
    /// Returns whether a job runs.
    pub(super) fn wants(&self, job: Job) -> bool {
        let is_possible = self.has(System::Postgres) || !job.is_database_only();
        is_possible && (self.only.is_empty() || self.only.contains(&job))
    }

    /// Returns whether a system takes part.
    pub(super) fn has(&self, system: System) -> bool {
        !self.without.contains(&system)
    }

    /// Returns our engines that take part.
    pub(super) fn engines(&self) -> Vec<Kind> {
        [
            (System::Postgres, Kind::Postgres),
            (System::Sqlite, Kind::Sqlite),
        ]
        .into_iter()
        .filter(|(system, _)| self.has(*system))
        .map(|(_, kind)| kind)
        .collect()
    }
}
