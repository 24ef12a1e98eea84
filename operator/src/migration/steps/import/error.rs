//! The reasons why an import does not come to its end.

use crds::v1alpha1::reasons;
use database::{ConnectError, Diagnosis};

use crate::database::{check, files};
use crate::migration::cluster::wire::WireError;

/// The reason why an import does not come to its end. Each message names the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The Secret cannot be read.
    #[error(transparent)]
    Secret(#[from] files::Error),
    /// The Secret is missing, or its content cannot be used.
    #[error("{}", .0.message)]
    Parameters(files::Problem),
    /// There is no connection.
    #[error("{}{}", .0, advice(.0.diagnosis()))]
    Connect(#[from] ConnectError),
    /// The connection is lost, or a statement is refused.
    #[error("PostgreSQL at {place}: {}{}", said(.source), advice(Diagnosis::of(.source)))]
    Query {
        /// Host, port and database.
        place: String,
        /// The error of the driver.
        source: tokio_postgres::Error,
    },
    /// The database is not that of kyverno/reports-server, or does not belong to its user.
    #[error(
        "PostgreSQL at {place} has no table {table} with the column {column} that its user can see: \
         name the database of kyverno/reports-server (0.1.2 or later) in the Secret of \
         spec.apis[].from.database.connectionSecretRef"
    )]
    NoTable {
        /// Host, port and database.
        place: String,
        /// The table.
        table: String,
        /// The first column that is missing.
        column: &'static str,
    },
    /// The database has reports of other clusters only.
    #[error(
        "PostgreSQL at {place} has no reports of cluster {own}, but of {}: set \
         spec.apis[].from.database.clusterID to the intended cluster",
        .found.join(", ")
    )]
    OtherClusters {
        /// Host, port and database.
        place: String,
        /// The cluster that was asked for.
        own: String,
        /// The clusters that were found, with the number of their rows.
        found: Vec<String>,
    },
    /// Our server does not take the reports.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The namespaces cannot be listed.
    #[error("the namespaces cannot be listed: {}", crate::said::said(.0))]
    Namespaces(#[source] Box<kube::Error>),
    /// The operator's notes cannot be read or written.
    #[error("the operator's notes cannot be written: {}", crate::said::said(.0))]
    Notes(#[source] Box<kube::Error>),
}

impl ImportError {
    /// Returns the reason of the condition, and true when somebody has to act before it can
    /// succeed.
    #[must_use]
    pub fn reason(&self) -> (&'static str, bool) {
        let diagnosed = |diagnosis: Diagnosis| (check::reason(diagnosis), !diagnosis.may_pass());
        match self {
            Self::Parameters(problem) => (problem.reason, true),
            Self::Connect(error) => diagnosed(error.diagnosis()),
            Self::Query { source, .. } => diagnosed(Diagnosis::of(source)),
            Self::NoTable { .. } => (reasons::TABLES_MISSING, true),
            Self::OtherClusters { .. } => (reasons::OTHER_CLUSTERS, true),
            Self::Secret(_) | Self::Wire(_) | Self::Namespaces(_) | Self::Notes(_) => {
                (reasons::IMPORTING, false)
            }
        }
    }
}

/// Returns the words of PostgreSQL where there are any, else those of the driver.
fn said(error: &tokio_postgres::Error) -> String {
    let said = error.as_db_error().map(|said| said.message().to_owned());
    said.unwrap_or_else(|| error.to_string())
}

/// Returns the remedy, where the database's own words do not name it.
fn advice(diagnosis: Diagnosis) -> &'static str {
    match diagnosis {
        Diagnosis::WrongPassword => ": write the right password into the Secret",
        Diagnosis::MissingDatabase => ": write the right dbname into the Secret",
        Diagnosis::MissingRights => ": grant its user CONNECT, and SELECT on the tables",
        Diagnosis::Unreachable => ": start it, and let the operator reach it",
        Diagnosis::TooManyConnections => ": raise max_connections, or end those that use it",
        Diagnosis::TlsMismatch => ": see sslmode and ca.crt of the Secret",
        Diagnosis::ReadOnly
        | Diagnosis::TooOld
        | Diagnosis::DiskFull
        | Diagnosis::Unsuitable
        | Diagnosis::InvalidParameters
        | Diagnosis::Other => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_that_were_found_are_named_with_the_field_to_set() {
        let error = ImportError::OtherClusters {
            place: "db:5432/reports".to_owned(),
            own: "a".to_owned(),
            found: vec!["b (3 rows)".to_owned(), "c (1 rows)".to_owned()],
        };
        let text = error.to_string();
        assert!(text.contains("b (3 rows), c (1 rows)"), "{text}");
        assert!(
            text.contains("spec.apis[].from.database.clusterID"),
            "{text}"
        );
        assert_eq!(error.reason(), (reasons::OTHER_CLUSTERS, true));
    }
}
