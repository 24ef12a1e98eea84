//! The systems that are compared.

use super::bodies::base_name;
use super::client::{Endpoint, Request};
use super::names::{EPHEMERAL_VERSION, VERSION, namespace};
use super::usage::Watched;
use testreports::ReportKind;

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

/// A resource under the names by which a system serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// The reports in it.
    pub report: ReportKind,
    /// API group.
    pub group: String,
    /// Version.
    pub version: &'static str,
    /// Plural name.
    pub plural: String,
}

impl Served {
    fn new(report: ReportKind, group: String, version: &'static str) -> Self {
        let plural = report.plural();
        Self {
            report,
            group,
            version,
            plural,
        }
    }

    /// Returns the path of all objects.
    #[must_use]
    pub fn all(&self) -> String {
        format!("/apis/{}/{}/{}", self.group, self.version, self.plural)
    }

    /// Returns the path of a namespace's objects.
    #[must_use]
    pub fn collection(&self, namespace: &str) -> String {
        let (group, version, plural) = (&self.group, self.version, &self.plural);
        format!("/apis/{group}/{version}/namespaces/{namespace}/{plural}")
    }
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

    /// Returns the name in tables of the system that is reached in one way.
    #[must_use]
    pub fn system(self, way: Way) -> String {
        match (self, way) {
            (Self::Crd, _) => "crd".to_owned(),
            (kind, Way::Aggregated) => format!("{} aggregated", kind.name()),
            (kind, Way::Direct) => format!("{} direct", kind.name()),
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

    /// Returns the reports.
    #[must_use]
    pub fn reports(self) -> Served {
        Served::new(ReportKind::PolicyReport, self.group(), VERSION)
    }

    /// Returns the ephemeral reports, in a group of their own.
    #[must_use]
    pub fn ephemerals(self) -> Served {
        let report = ReportKind::EphemeralReport;
        let group = match self {
            Self::Postgres | Self::Second => report.group().to_owned(),
            other => format!("ephemeral.{}", other.group()),
        };
        Served::new(report, group, EPHEMERAL_VERSION)
    }

    /// Returns everything that it serves.
    #[must_use]
    pub fn served(self) -> Vec<Served> {
        match self {
            Self::Null => vec![self.reports()],
            other => vec![other.reports(), other.ephemerals()],
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
        self.kind.system(self.way)
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
        self.kind.reports().all()
    }

    /// Returns the path of a namespace's reports.
    #[must_use]
    pub fn collection(&self, namespace: &str) -> String {
        self.kind.reports().collection(namespace)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::PLURAL;

    #[test]
    fn every_system_serves_under_groups_of_its_own() {
        assert_eq!(Kind::Crd.reports().plural, PLURAL);
        assert_eq!(
            Kind::Crd.ephemerals().collection("n"),
            "/apis/ephemeral.crd.bench.reports-server.io/v1/namespaces/n/ephemeralreports"
        );
        assert_eq!(
            Kind::Second.ephemerals().all(),
            "/apis/reports.kyverno.io/v1/ephemeralreports"
        );
        assert_eq!(Kind::Null.served(), [Kind::Null.reports()]);
    }
}
