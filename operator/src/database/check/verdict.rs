//! The result of an examination, in words for a condition.

use std::time::Duration;

use crds::v1alpha1::reasons;
use database::inspect::{Contents, Held, Unfit};
use database::{ConnectError, Diagnosis, Parameters};

use crate::database::files::Problem;

/// The result of an examination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It can hold reports.
    Usable(Usable),
    /// It cannot.
    Unusable(Problem),
}

/// A database that can hold reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usable {
    /// The host that was connected to, with its port.
    pub endpoint: String,
    /// Version of the server.
    pub version: String,
    /// The content of the database.
    pub contents: Contents,
    /// Clusters that it holds, the wanted one among them where it holds that.
    pub held: Vec<Held>,
    /// The history that the cluster should have had there when this was read.
    pub sought: Option<String>,
}

impl Usable {
    /// Returns what conditions depend on. Sizes change all the time.
    fn telling(&self) -> impl PartialEq {
        let schema = self.contents.schema_version;
        (
            &self.endpoint,
            &self.version,
            schema,
            &self.held,
            &self.sought,
        )
    }
}

impl Verdict {
    /// Returns the verdict that no host will do.
    pub(super) fn unreachable(error: &ConnectError) -> Self {
        let message = format!("{error}{}", advice(error.diagnosis()));
        Self::Unusable(Problem::new(reason(error.diagnosis()), message))
    }

    /// Returns the verdict that there is a connection, and that it is of no use.
    pub(super) fn unfit(parameters: &Parameters, unfit: &Unfit) -> Self {
        let message = format!("PostgreSQL at {}: {unfit}", parameters.address());
        Self::Unusable(Problem::new(reason(unfit.diagnosis()), message))
    }

    /// Returns the verdict that the database answers, but takes too long.
    pub(super) fn too_slow(parameters: &Parameters, limit: Duration) -> Self {
        let message = format!(
            "PostgreSQL at {} did not answer the operator's queries within {} s",
            parameters.address(),
            limit.as_secs()
        );
        Self::Unusable(Problem::new(reasons::DATABASE_UNREACHABLE, message))
    }

    /// Returns the reason of the condition.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Usable(_) => reasons::DATABASE_AVAILABLE,
            Self::Unusable(problem) => problem.reason,
        }
    }

    /// Returns whether the difference is worth a look at conditions.
    pub(super) fn differs(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Usable(a), Self::Usable(b)) => a.telling() != b.telling(),
            (a, b) => a != b,
        }
    }
}

/// Returns the reason of a condition.
#[must_use]
pub fn reason(diagnosis: Diagnosis) -> &'static str {
    match diagnosis {
        Diagnosis::WrongPassword => reasons::WRONG_PASSWORD,
        Diagnosis::MissingDatabase => reasons::DATABASE_MISSING,
        Diagnosis::MissingRights => reasons::RIGHTS_MISSING,
        Diagnosis::TlsMismatch => reasons::TLS_MISMATCH,
        Diagnosis::TooOld => reasons::SERVER_TOO_OLD,
        Diagnosis::ReadOnly => reasons::DATABASE_READ_ONLY,
        Diagnosis::TooManyConnections => reasons::TOO_MANY_CONNECTIONS,
        Diagnosis::DiskFull => reasons::DISK_FULL,
        Diagnosis::Unsuitable => reasons::DATABASE_UNSUITABLE,
        Diagnosis::Unreachable => reasons::DATABASE_UNREACHABLE,
        Diagnosis::InvalidParameters => reasons::CONNECTION_INVALID,
        Diagnosis::Other => reasons::DATABASE_UNAVAILABLE,
    }
}

/// Returns the remedy, where the database's own words do not name it.
fn advice(diagnosis: Diagnosis) -> &'static str {
    match diagnosis {
        Diagnosis::WrongPassword => ": write the right password into the Secret",
        Diagnosis::MissingDatabase => ": create it, with ENCODING 'UTF8' and the user as owner",
        Diagnosis::MissingRights => ": grant CONNECT and CREATE on the database to the user",
        Diagnosis::ReadOnly => ": name the primary among the hosts",
        Diagnosis::TooManyConnections => {
            ": raise max_connections, or lower spec.database.pool.maxConnections"
        }
        Diagnosis::Unreachable => {
            ": the operator and the server's pods both have to reach it; see NetworkPolicies"
        }
        Diagnosis::TlsMismatch
        | Diagnosis::TooOld
        | Diagnosis::DiskFull
        | Diagnosis::Unsuitable
        | Diagnosis::InvalidParameters
        | Diagnosis::Other => "",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn usable(bytes: i64, version: &str) -> Verdict {
        Verdict::Usable(Usable {
            endpoint: "db:5432".into(),
            version: version.into(),
            contents: Contents {
                bytes,
                schema_version: None,
            },
            held: Vec::new(),
            sought: None,
        })
    }

    #[test]
    fn every_diagnosis_has_a_reason_of_its_own() {
        let reasons: BTreeSet<_> = Diagnosis::ALL.iter().map(|d| reason(*d)).collect();
        assert_eq!(reasons.len(), Diagnosis::ALL.len());
    }

    #[test]
    fn growth_is_no_news_and_everything_else_is() {
        assert!(!usable(1, "17.1").differs(&usable(2, "17.1")));
        assert!(usable(1, "17.1").differs(&usable(1, "17.2")));
        let mut emptied = usable(1, "17.1");
        if let Verdict::Usable(usable) = &mut emptied {
            usable.held.push(Held {
                identity: "a".into(),
                history: "h".into(),
                cluster_uid: "u".into(),
            });
        }
        assert!(usable(1, "17.1").differs(&emptied));
        let wrong = |message| Verdict::Unusable(Problem::new(reasons::WRONG_PASSWORD, message));
        assert!(usable(1, "17.1").differs(&wrong("a")));
        assert!(wrong("a").differs(&wrong("b")));
        assert!(!wrong("a").differs(&wrong("a")));
    }
}
