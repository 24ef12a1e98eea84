//! Errors between the store and PostgreSQL.

use std::time::Duration;

use database::{ConnectError, Diagnosis, ParametersError};
use tokio_postgres::error::{DbError, SqlState};

use super::place::OtherDatabase;

/// A statement, or the connection for it, failed.
#[derive(Debug, thiserror::Error)]
pub enum PostgresError {
    /// The parameters of the connection cannot be read.
    #[error(transparent)]
    Parameters(#[from] ParametersError),
    /// No connection could be opened.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A statement failed, or the connection was lost while it was carried out.
    #[error("{}", sentence(.0))]
    Statement(#[from] tokio_postgres::Error),
    /// A statement that always has an answer had none.
    #[error("the database gave no answer")]
    NoAnswer,
    /// The database did not answer a statement.
    #[error("the database did not answer within {} s", .0.as_secs_f32())]
    Timeout(Duration),
    /// The connection leads to a database that does not have the cluster's history.
    #[error(transparent)]
    OtherDatabase(#[from] OtherDatabase),
}

impl PostgresError {
    /// Returns whether the statement may have been carried out all the same.
    pub(super) fn is_ambiguous(&self) -> bool {
        match self {
            Self::Parameters(_) | Self::Connect(_) | Self::NoAnswer | Self::OtherDatabase(_) => {
                false
            }
            Self::Timeout(_) => true,
            Self::Statement(error) => error.as_db_error().is_none_or(ends_connection),
        }
    }

    /// Returns whether another attempt may succeed at once: the database took the transaction back
    /// because of another one.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Self::Statement(error) if error.code().is_some_and(|code| {
            [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED].contains(code)
        }))
    }

    /// Returns whether the database does not support the statement.
    pub(super) fn is_unsupported(&self) -> bool {
        matches!(self, Self::Statement(error) if error.code().is_some_and(|code| {
            [SqlState::FEATURE_NOT_SUPPORTED, SqlState::SYNTAX_ERROR].contains(code)
        }))
    }

    /// Returns whether the database has refused the statement with this code.
    pub(super) fn is(&self, code: &SqlState) -> bool {
        matches!(self, Self::Statement(error) if error.code() == Some(code))
    }

    /// Returns what has to be done about the error.
    #[must_use]
    pub fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Parameters(_) => Diagnosis::InvalidParameters,
            Self::Connect(error) => error.diagnosis(),
            Self::Statement(error) => Diagnosis::of(error),
            Self::NoAnswer | Self::OtherDatabase(_) => Diagnosis::Other,
            Self::Timeout(_) => Diagnosis::Unreachable,
        }
    }
}

/// Returns whether the server, or a pooler before it, gave up the connection rather than the
/// statement: that may happen after the commit.
fn ends_connection(error: &DbError) -> bool {
    let severity = error.severity();
    let class = error.code().code().get(..2).unwrap_or_default();
    severity == "FATAL"
        || severity == "PANIC"
        || matches!(class, "08" | "57") && {
            // A statement that was cancelled was taken back.
            *error.code() != SqlState::QUERY_CANCELED
        }
}

/// Returns the text of an error with its cause. The driver's text alone says only that the database
/// failed.
fn sentence(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(answer) => format!("{} (SQLSTATE {})", answer.message(), answer.code().code()),
        None => match std::error::Error::source(error) {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        },
    }
}
