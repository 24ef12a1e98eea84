//! The systems that are compared.

use super::bodies::base_name;
use super::client::{Endpoint, Request};
use super::names::{PLURAL, VERSION, namespace};
use super::usage::Watched;

/// The group whose reports PostgreSQL keeps, with their projections.
pub const REPORTS: &str = "wgpolicyk8s.io";

/// The system that serves the reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The CRD: kube-apiserver and etcd.
    Crd,
    /// Our server on SQLite.
    Sqlite,
    /// Our server on PostgreSQL.
    Postgres,
    /// Another of our servers on the same PostgreSQL.
    Second,
    /// The null backend.
    Null,
}

/// The way to reach it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// Through the kube-apiserver.
    Aggregated,
    /// Straight at the server.
    Direct,
}

impl Kind {
    /// The kinds that the kube-apiserver reaches by a Service.
    pub const SERVED: [Self; 4] = [Self::Sqlite, Self::Postgres, Self::Second, Self::Null];

    /// Returns the name of the process and its Service.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Crd => "crd",
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Second => "second",
            Self::Null => "null",
        }
    }

    /// Returns the API group under which it serves; servers on one database serve the same.
    #[must_use]
    pub fn group(self) -> String {
        match self {
            // Findings and counts are kept of groups that are known to have reports.
            Self::Postgres | Self::Second => REPORTS.to_owned(),
            other => format!("{}.bench.reports-server.io", other.name()),
        }
    }

    /// Returns the port of the server.
    pub(super) fn port(self) -> u16 {
        match self {
            Self::Crd => 6443,
            Self::Sqlite => 8451,
            Self::Postgres => 8452,
            Self::Second => 8453,
            Self::Null => 8454,
        }
    }

    /// Returns whether PostgreSQL works for it.
    #[must_use]
    pub fn on_postgres(self) -> bool {
        matches!(self, Self::Postgres | Self::Second)
    }
}

/// A system, reached in one way.
#[derive(Clone)]
pub struct Target {
    /// The system.
    pub kind: Kind,
    /// The way to reach it.
    pub way: Way,
    /// The endpoint.
    pub endpoint: Endpoint,
    /// All processes that work for its requests.
    pub processes: Vec<Watched>,
}

impl Target {
    pub(super) fn new(kind: Kind, way: Way, endpoint: Endpoint, processes: Vec<Watched>) -> Self {
        Self {
            kind,
            way,
            endpoint,
            processes,
        }
    }

    /// Returns the name in tables: `crd`, `postgres direct`, `null aggregated`.
    #[must_use]
    pub fn system(&self) -> String {
        match (self.kind, self.way) {
            (Kind::Crd, _) => "crd".to_owned(),
            (kind, Way::Aggregated) => format!("{} aggregated", kind.name()),
            (kind, Way::Direct) => format!("{} direct", kind.name()),
        }
    }

    /// Returns whether nothing is between the clients and the system: the CRD is a part of the
    /// kube-apiserver.
    #[must_use]
    pub fn is_straight(&self) -> bool {
        self.way == Way::Direct || self.kind == Kind::Crd
    }

    /// Returns the path of all reports.
    #[must_use]
    pub fn all(&self) -> String {
        format!("/apis/{}/{VERSION}/{PLURAL}", self.kind.group())
    }

    /// Returns the path of a namespace's reports.
    #[must_use]
    pub fn collection(&self, namespace: &str) -> String {
        let group = self.kind.group();
        format!("/apis/{group}/{VERSION}/namespaces/{namespace}/{PLURAL}")
    }

    /// Returns the path of a report of the base set.
    #[must_use]
    pub fn base(&self, index: usize) -> String {
        format!(
            "{}/{}",
            self.collection(&namespace(index)),
            base_name(index)
        )
    }

    /// Returns a request that costs little and makes a connection warm.
    #[must_use]
    pub fn warm(&self) -> Request {
        Request::get(format!("{}?limit=1", self.collection("default")))
    }

    /// Returns whether a process is part of the service itself: one that serves or stores, and not
    /// one that only passes on or looks on.
    #[must_use]
    pub fn serves(&self, process: &str) -> bool {
        match self.kind {
            Kind::Crd => matches!(process, "kube-apiserver" | "etcd"),
            _ => matches!(process, "reports-server" | "postgres" | "null-backend"),
        }
    }

    /// Returns the number of requests for a round of a few seconds: `direct` of them straight at a
    /// server.
    #[must_use]
    pub fn count(&self, direct: usize) -> usize {
        match (self.kind, self.way) {
            (Kind::Crd, _) => (direct / 16).max(1),
            (_, Way::Aggregated) => (direct / 5).max(1),
            (_, Way::Direct) => direct,
        }
    }
}
