//! The meaning of a database error for the person who set the database up.

use std::error::Error;
use std::{fmt, io};

use tokio_postgres::error::SqlState;

/// The remedy that an error needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Diagnosis {
    /// The role does not exist, or its password is another one.
    WrongPassword,
    /// The database does not exist.
    MissingDatabase,
    /// The role may not do what is needed, or not connect from here.
    MissingRights,
    /// Both sides do not agree about TLS: a certificate, a name, or the use of TLS at all.
    TlsMismatch,
    /// The server is older than [`MINIMUM_MAJOR`](crate::MINIMUM_MAJOR).
    TooOld,
    /// The server takes no writes: a standby, or a primary that was made read-only.
    ReadOnly,
    /// The server, the role or a pooler has no connection left.
    TooManyConnections,
    /// The disk of the server is full.
    DiskFull,
    /// The database or the server lacks something that reports need: encoding, compression.
    Unsuitable,
    /// No server answers, not in time, or only to say that it is starting or stopping.
    Unreachable,
    /// The parameters themselves cannot be used.
    InvalidParameters,
    /// Anything else.
    Other,
}

impl Diagnosis {
    /// All diagnoses.
    pub const ALL: [Self; 12] = [
        Self::WrongPassword,
        Self::MissingDatabase,
        Self::MissingRights,
        Self::TlsMismatch,
        Self::TooOld,
        Self::ReadOnly,
        Self::TooManyConnections,
        Self::DiskFull,
        Self::Unsuitable,
        Self::Unreachable,
        Self::InvalidParameters,
        Self::Other,
    ];

    /// Returns a stable name for metrics and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WrongPassword => "WrongPassword",
            Self::MissingDatabase => "MissingDatabase",
            Self::MissingRights => "MissingRights",
            Self::TlsMismatch => "TlsMismatch",
            Self::TooOld => "TooOld",
            Self::ReadOnly => "ReadOnly",
            Self::TooManyConnections => "TooManyConnections",
            Self::DiskFull => "DiskFull",
            Self::Unsuitable => "Unsuitable",
            Self::Unreachable => "Unreachable",
            Self::InvalidParameters => "InvalidParameters",
            Self::Other => "Other",
        }
    }

    /// Returns whether time alone may heal it, without a change of parameters, rights or version.
    #[must_use]
    pub fn may_pass(self) -> bool {
        match self {
            Self::ReadOnly | Self::TooManyConnections | Self::DiskFull | Self::Unreachable => true,
            Self::WrongPassword
            | Self::MissingDatabase
            | Self::MissingRights
            | Self::TlsMismatch
            | Self::TooOld
            | Self::Unsuitable
            | Self::InvalidParameters
            | Self::Other => false,
        }
    }

    /// Sorts an error of the driver, of a connection attempt or of any statement.
    #[must_use]
    pub fn of(error: &tokio_postgres::Error) -> Self {
        if let Some(db) = error.as_db_error() {
            return Self::of_server(db.code(), db.message());
        }
        if find::<rustls::Error>(error).is_some() {
            return Self::TlsMismatch;
        }
        if find::<io::Error>(error).is_some() || error.is_closed() {
            return Self::Unreachable;
        }
        // The driver tells these apart only in words.
        let cause = error.source().map(ToString::to_string).unwrap_or_default();
        match cause.as_str() {
            "server does not support TLS" => Self::TlsMismatch,
            "password missing" => Self::WrongPassword,
            _ if error.to_string() == "timeout waiting for server" => Self::Unreachable,
            _ => Self::Other,
        }
    }

    /// Sorts what a server or a pooler answered. The text only decides where the code is used for
    /// several things.
    #[must_use]
    pub fn of_server(code: &SqlState, message: &str) -> Self {
        const BY_CODE: [(SqlState, Diagnosis); 15] = [
            (SqlState::INVALID_PASSWORD, Diagnosis::WrongPassword),
            (SqlState::INVALID_CATALOG_NAME, Diagnosis::MissingDatabase),
            (SqlState::DATABASE_DROPPED, Diagnosis::MissingDatabase),
            (SqlState::INSUFFICIENT_PRIVILEGE, Diagnosis::MissingRights),
            (SqlState::READ_ONLY_SQL_TRANSACTION, Diagnosis::ReadOnly),
            (
                SqlState::TOO_MANY_CONNECTIONS,
                Diagnosis::TooManyConnections,
            ),
            (SqlState::DISK_FULL, Diagnosis::DiskFull),
            (SqlState::CANNOT_CONNECT_NOW, Diagnosis::Unreachable),
            (SqlState::ADMIN_SHUTDOWN, Diagnosis::Unreachable),
            (SqlState::CRASH_SHUTDOWN, Diagnosis::Unreachable),
            (SqlState::CONNECTION_EXCEPTION, Diagnosis::Unreachable),
            (SqlState::CONNECTION_FAILURE, Diagnosis::Unreachable),
            (SqlState::CONNECTION_DOES_NOT_EXIST, Diagnosis::Unreachable),
            (
                SqlState::SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION,
                Diagnosis::Unreachable,
            ),
            (
                SqlState::SQLSERVER_REJECTED_ESTABLISHMENT_OF_SQLCONNECTION,
                Diagnosis::Unreachable,
            ),
        ];
        if let Some((_, known)) = BY_CODE.iter().find(|(known, _)| known == code) {
            return *known;
        }
        if *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION {
            return by_text(&AUTHORIZATION, message).unwrap_or(Self::WrongPassword);
        }
        if *code == SqlState::PROTOCOL_VIOLATION {
            return by_text(&POOLER, message).unwrap_or(Self::Other);
        }
        Self::Other
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Texts of PostgreSQL with 28000; the first that is found counts.
const AUTHORIZATION: [(&str, Diagnosis); 6] = [
    ("no encryption", Diagnosis::TlsMismatch),
    ("SSL off", Diagnosis::TlsMismatch),
    ("certificate", Diagnosis::TlsMismatch),
    ("pg_hba.conf", Diagnosis::MissingRights),
    ("not permitted to log in", Diagnosis::MissingRights),
    ("does not exist", Diagnosis::WrongPassword),
];

/// Texts of pgbouncer with 08P01, its code for almost everything.
const POOLER: [(&str, Diagnosis); 13] = [
    ("no such database", Diagnosis::MissingDatabase),
    ("authentication failed", Diagnosis::WrongPassword),
    ("no such user", Diagnosis::WrongPassword),
    ("login rejected", Diagnosis::MissingRights),
    ("no more connections allowed", Diagnosis::TooManyConnections),
    ("TLS required", Diagnosis::TlsMismatch),
    ("SSL required", Diagnosis::TlsMismatch),
    ("cannot connect", Diagnosis::Unreachable),
    ("connect failed", Diagnosis::Unreachable),
    ("login failed", Diagnosis::Unreachable),
    ("login has been failing", Diagnosis::Unreachable),
    ("query_wait_timeout", Diagnosis::TooManyConnections),
    ("server conn", Diagnosis::Unreachable),
];

fn by_text(table: &[(&str, Diagnosis)], message: &str) -> Option<Diagnosis> {
    let found = table.iter().find(|(text, _)| message.contains(text));
    found.map(|(_, diagnosis)| *diagnosis)
}

/// Looks for a kind of error among the causes. An [`io::Error`] shows what it carries only when it
/// is asked itself.
pub(crate) fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(current) = next {
        if let Some(found) = current.downcast_ref::<E>() {
            return Some(found);
        }
        let carried = current
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        next = match carried {
            Some(carried) => Some(carried),
            None => current.source(),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case(
        "28P01",
        "password authentication failed for user \"r\"",
        Diagnosis::WrongPassword
    )]
    #[case("28000", "role \"r\" does not exist", Diagnosis::WrongPassword)]
    #[case(
        "28000",
        "role \"r\" is not permitted to log in",
        Diagnosis::MissingRights
    )]
    #[case(
        "28000",
        "no pg_hba.conf entry for host \"10.0.0.1\", user \"r\", database \"d\", SSL encryption",
        Diagnosis::MissingRights
    )]
    #[case(
        "28000",
        "no pg_hba.conf entry for host \"10.0.0.1\", user \"r\", database \"d\", no encryption",
        Diagnosis::TlsMismatch
    )]
    #[case(
        "28000",
        "connection requires a valid client certificate",
        Diagnosis::TlsMismatch
    )]
    #[case("3D000", "database \"d\" does not exist", Diagnosis::MissingDatabase)]
    #[case("42501", "permission denied for database d", Diagnosis::MissingRights)]
    #[case(
        "53300",
        "sorry, too many clients already",
        Diagnosis::TooManyConnections
    )]
    #[case("53100", "could not extend file", Diagnosis::DiskFull)]
    #[case(
        "25006",
        "cannot execute INSERT in a read-only transaction",
        Diagnosis::ReadOnly
    )]
    #[case("57P03", "the database system is starting up", Diagnosis::Unreachable)]
    #[case("08P01", "no such database: d", Diagnosis::MissingDatabase)]
    #[case("08P01", "SASL authentication failed", Diagnosis::WrongPassword)]
    #[case(
        "08P01",
        "no more connections allowed (max_client_conn)",
        Diagnosis::TooManyConnections
    )]
    #[case("08P01", "pgbouncer cannot connect to server", Diagnosis::Unreachable)]
    #[case("22023", "invalid value for parameter", Diagnosis::Other)]
    fn answers_are_sorted(#[case] code: &str, #[case] message: &str, #[case] expected: Diagnosis) {
        assert_eq!(
            Diagnosis::of_server(&SqlState::from_code(code), message),
            expected
        );
    }

    #[test]
    fn causes_are_found_inside_input_output_errors() {
        let inner = rustls::Error::HandshakeNotComplete;
        let outer = io::Error::other(io::Error::other(inner));
        assert!(find::<rustls::Error>(&outer).is_some());
        assert!(find::<rustls::Error>(&io::Error::other("text")).is_none());
    }

    #[test]
    fn every_diagnosis_has_its_own_name() {
        let names: std::collections::BTreeSet<_> = Diagnosis::ALL
            .iter()
            .map(|diagnosis| diagnosis.as_str())
            .collect();
        assert_eq!(names.len(), Diagnosis::ALL.len());
    }
}
