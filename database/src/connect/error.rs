//! The reasons why no connection could be opened, in words for the person who set it up.

use std::error::Error;
use std::time::Duration;
use std::{fmt, io};

use rustls::{AlertDescription, CertificateError};

use crate::diagnosis::find;
use crate::parameters::{ParametersError, SslMode, key};
use crate::{Diagnosis, MINIMUM_MAJOR, ServerVersion};

/// No host will do. The text names each address that was tried and the error there.
#[derive(Debug)]
pub struct ConnectError {
    /// The failed attempts, in order; never empty.
    pub attempts: Vec<AttemptError>,
}

/// One address will not do.
#[derive(Debug, thiserror::Error)]
#[error("PostgreSQL at {place} {reason}")]
pub struct AttemptError {
    /// Host and port as in the parameters, and the address behind the name.
    pub place: String,
    /// The error at this address.
    #[source]
    pub reason: Reason,
}

/// The error at an address.
#[derive(Debug, thiserror::Error)]
pub enum Reason {
    /// The name is not known.
    #[error("cannot be found: {0}")]
    Lookup(#[source] io::Error),
    /// The server did not answer in time.
    #[error("did not answer within {} s", .0.as_secs_f32())]
    TimedOut(Duration),
    /// The server or the network answered, but not with a connection.
    #[error("{}", sentence(.error, .role, *.ssl_mode))]
    Refused {
        /// The driver's error.
        #[source]
        error: tokio_postgres::Error,
        /// The role that wanted to connect.
        role: Role,
        /// The TLS mode of the connection.
        ssl_mode: SslMode,
    },
    /// The server is too old.
    #[error("is version {version}, which is too old: version {minimum} or newer is needed")]
    TooOld {
        /// The version of the server.
        version: ServerVersion,
        /// The oldest version that will do.
        minimum: u32,
    },
    /// The server does not tell its version.
    #[error("does not report its version: PostgreSQL {MINIMUM_MAJOR} or newer is needed")]
    UnknownVersion,
    /// The server is a standby and takes no writes.
    #[error("does not accept writes: it is a standby")]
    Standby,
    /// The server is read-only and takes no writes.
    #[error("does not accept writes: default_transaction_read_only is on")]
    ReadOnly,
}

/// The role of a connection, and its database.
#[derive(Clone, Debug)]
pub struct Role {
    /// Name of the role.
    pub username: String,
    /// Name of the database.
    pub dbname: String,
    /// True when a password is given.
    pub has_password: bool,
}

impl Reason {
    /// Returns what has to be done.
    #[must_use]
    pub fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Lookup(_) | Self::TimedOut(_) => Diagnosis::Unreachable,
            Self::Refused { error, .. } => Diagnosis::of(error),
            Self::TooOld { .. } | Self::UnknownVersion => Diagnosis::TooOld,
            Self::Standby | Self::ReadOnly => Diagnosis::ReadOnly,
        }
    }

    /// Returns whether the search ends, because the other hosts would give the same answer.
    pub(super) fn ends_search(&self) -> bool {
        let diagnosis = self.diagnosis();
        matches!(
            diagnosis,
            Diagnosis::WrongPassword | Diagnosis::MissingDatabase
        )
    }
}

impl ConnectError {
    /// Returns what has to be done. Of several hosts, the one counts that was furthest from being
    /// unreachable: a host that answers tells more than one that does not.
    #[must_use]
    pub fn diagnosis(&self) -> Diagnosis {
        let all = self
            .attempts
            .iter()
            .map(|attempt| attempt.reason.diagnosis());
        all.max_by_key(|diagnosis| weight(*diagnosis))
            .unwrap_or(Diagnosis::Unreachable)
    }
}

fn weight(diagnosis: Diagnosis) -> u8 {
    match diagnosis {
        Diagnosis::Unreachable => 0,
        Diagnosis::ReadOnly => 1,
        Diagnosis::TooManyConnections | Diagnosis::DiskFull => 2,
        Diagnosis::Other => 3,
        Diagnosis::TooOld
        | Diagnosis::Unsuitable
        | Diagnosis::MissingRights
        | Diagnosis::TlsMismatch => 4,
        Diagnosis::MissingDatabase | Diagnosis::WrongPassword => 5,
        Diagnosis::InvalidParameters => 6,
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, attempt) in self.attempts.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{attempt}")?;
        }
        Ok(())
    }
}

impl Error for ConnectError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.attempts.last().map(|attempt| &attempt.reason as _)
    }
}

impl ParametersError {
    /// Returns [`Diagnosis::InvalidParameters`], always.
    #[must_use]
    pub fn diagnosis(&self) -> Diagnosis {
        Diagnosis::InvalidParameters
    }
}

/// Returns what goes after `PostgreSQL at PLACE`.
fn sentence(error: &tokio_postgres::Error, role: &Role, mode: SslMode) -> String {
    let said = said(error);
    let Role {
        username, dbname, ..
    } = role;
    match Diagnosis::of(error) {
        Diagnosis::WrongPassword if !role.has_password => {
            format!("asks user {username:?} for a password, but none is given ({said})")
        }
        Diagnosis::WrongPassword => {
            format!("refuses user {username:?}: wrong password, or no such user ({said})")
        }
        Diagnosis::MissingDatabase => format!("has no database {dbname:?} ({said})"),
        Diagnosis::MissingRights => {
            format!("does not let user {username:?} connect to database {dbname:?} ({said})")
        }
        Diagnosis::TlsMismatch => tls_sentence(error, mode, &said),
        Diagnosis::TooManyConnections => format!("has no connection left ({said})"),
        Diagnosis::Unreachable if error.as_db_error().is_some() => {
            format!("accepts no connections now ({said})")
        }
        Diagnosis::Unreachable => format!("cannot be reached ({said})"),
        _ => format!("refuses the connection ({said})"),
    }
}

/// Returns the innermost words: those of the server where there are any, else those of the system.
fn said(error: &tokio_postgres::Error) -> String {
    if let Some(db) = error.as_db_error() {
        return db.message().to_owned();
    }
    match error.source() {
        Some(cause) => cause.to_string(),
        None => error.to_string(),
    }
}

fn tls_sentence(error: &tokio_postgres::Error, mode: SslMode, said: &str) -> String {
    use CertificateError as C;
    let Some(tls) = find::<rustls::Error>(error) else {
        return match (error.as_db_error(), mode) {
            (None, _) => format!(
                "does not use TLS, but sslmode is {mode}: enable it, or set sslmode to disable"
            ),
            (Some(_), SslMode::Disable) => {
                format!("accepts only TLS connections, but sslmode is {mode} ({said})")
            }
            (Some(_), _) => format!("does not accept the client certificate ({said})"),
        };
    };
    match tls {
        rustls::Error::InvalidCertificate(why) => match why {
            C::UnknownIssuer | C::BadSignature => {
                format!("presents a certificate not signed by a CA in `{}`", key::CA)
            }
            C::NotValidForName | C::NotValidForNameContext { .. } => {
                format!("presents a certificate for another host: {why}")
            }
            C::Expired | C::ExpiredContext { .. } => {
                format!("presents a certificate that has expired: {why}")
            }
            _ => format!("presents a certificate that cannot be used with {mode}: {why}"),
        },
        rustls::Error::AlertReceived(
            alert @ (AlertDescription::CertificateRequired
            | AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::DecryptError
            | AlertDescription::UnsupportedCertificate),
        ) => format!("does not accept the client certificate (TLS alert {alert:?})"),
        other => format!("fails the TLS handshake: {other}"),
    }
}
