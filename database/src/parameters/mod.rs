//! Where the database is, who connects, and how.

mod endpoint;
mod raw;
mod reader;
mod secret;
#[cfg(test)]
mod tests;
mod uri;

use std::{collections::BTreeMap, fmt, path::Path};

use tokio_postgres_rustls::MakeRustlsConnect;

use crate::tls;

pub use endpoint::{DEFAULT_PORT, Endpoint, Host};
pub use reader::{ParametersReader, Reading};
pub use secret::Password;

use raw::Raw;

/// Names of the files of the directory, and of the keys of the map.
pub mod key {
    /// A whole `postgres://` URI. Where one of the single keys is there as well, the single key is
    /// what counts.
    pub const URI: &str = "uri";
    /// Host, or several separated by commas. One that begins with `/` is the directory of a Unix
    /// socket.
    pub const HOST: &str = "host";
    /// Port, or one for each host, separated by commas.
    pub const PORT: &str = "port";
    /// Database.
    pub const DBNAME: &str = "dbname";
    /// Role.
    pub const USERNAME: &str = "username";
    /// Password. Not needed where a client certificate is enough.
    pub const PASSWORD: &str = "password";
    /// `disable`, `require`, `verify-ca` or `verify-full` (the default).
    pub const SSLMODE: &str = "sslmode";
    /// `read-write` (the default), `primary` or `any`.
    pub const TARGET_SESSION_ATTRS: &str = "target_session_attrs";
    /// CAs that sign the database's certificate, PEM.
    pub const CA: &str = "ca.crt";
    /// Client certificate with its chain, PEM.
    pub const CERTIFICATE: &str = "tls.crt";
    /// Key of the client certificate, PEM.
    pub const CERTIFICATE_KEY: &str = "tls.key";

    /// All of them. Whatever else lies beside them is ignored.
    pub const ALL: [&str; 11] = [
        URI,
        HOST,
        PORT,
        DBNAME,
        USERNAME,
        PASSWORD,
        SSLMODE,
        TARGET_SESSION_ATTRS,
        CA,
        CERTIFICATE,
        CERTIFICATE_KEY,
    ];
}

/// The parameters cannot be used. No message holds a password or a key.
#[derive(Debug, thiserror::Error)]
pub enum ParametersError {
    /// The directory or one of its files cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The directory or file.
        path: std::path::PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Something is not there without which nothing can be connected to.
    #[error("{} missing: give a `uri`, or `host`, `dbname` and `username`", listed(.keys))]
    Missing {
        /// Keys that are not there or empty.
        keys: Vec<&'static str>,
    },
    /// A value cannot be used.
    #[error("`{key}` {why}")]
    Invalid {
        /// The key.
        key: String,
        /// What is wrong with it, and what to write instead.
        why: String,
    },
}

fn listed(keys: &[&'static str]) -> String {
    let names: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
    match names.as_slice() {
        [one] => format!("{one} is"),
        _ => format!("{} are", names.join(", ")),
    }
}

impl ParametersError {
    pub(crate) fn invalid(key: &str, why: impl Into<String>) -> Self {
        Self::Invalid {
            key: key.to_owned(),
            why: why.into(),
        }
    }
}

/// How far the connection is protected, as libpq means it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SslMode {
    /// No TLS.
    Disable,
    /// TLS. Whoever answers is believed, unless a CA is given: then as [`SslMode::VerifyCa`].
    Require,
    /// TLS, and the certificate is signed by one of the CAs.
    VerifyCa,
    /// As [`SslMode::VerifyCa`], and the certificate is for the host that was asked for.
    #[default]
    VerifyFull,
}

impl SslMode {
    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Require => "require",
            Self::VerifyCa => "verify-ca",
            Self::VerifyFull => "verify-full",
        }
    }

    fn parse(text: &str) -> Result<Self, ParametersError> {
        let why = match text {
            "disable" => return Ok(Self::Disable),
            "require" => return Ok(Self::Require),
            "verify-ca" => return Ok(Self::VerifyCa),
            "verify-full" => return Ok(Self::VerifyFull),
            "allow" | "prefer" => {
                "is {}, which may end without TLS: choose `verify-full`, or `disable` to go without"
            }
            _ => "is {}: choose one of `verify-full`, `verify-ca`, `require`, `disable`",
        };
        let why = why.replace("{}", &format!("{text:?}"));
        Err(ParametersError::invalid(key::SSLMODE, why))
    }
}

impl fmt::Display for SslMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which of several hosts will do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetSessionAttrs {
    /// The first that answers.
    Any,
    /// The first whose sessions can write.
    #[default]
    ReadWrite,
    /// The first that is not a standby.
    Primary,
}

impl TargetSessionAttrs {
    fn parse(text: &str) -> Result<Self, ParametersError> {
        let why = match text {
            "any" => return Ok(Self::Any),
            "read-write" => return Ok(Self::ReadWrite),
            "primary" => return Ok(Self::Primary),
            "read-only" | "standby" | "prefer-standby" => {
                "asks for a server that cannot be written to, but reports are written"
            }
            _ => "is not one of `read-write`, `primary`, `any`",
        };
        Err(ParametersError::invalid(key::TARGET_SESSION_ATTRS, why))
    }
}

/// Everything that is needed to connect. Two are equal when nothing that matters for a connection
/// differs.
#[derive(Clone)]
pub struct Parameters {
    /// Hosts in the order in which they are tried; at least one.
    pub hosts: Vec<Endpoint>,
    /// Database.
    pub dbname: String,
    /// Role.
    pub username: String,
    /// Password, where one is given.
    pub password: Option<Password>,
    /// How far the connection is protected.
    pub ssl_mode: SslMode,
    /// Which of the hosts will do.
    pub target_session_attrs: TargetSessionAttrs,
    /// Options of the URI that are known and have no effect here; worth a line in the log.
    pub ignored: Vec<String>,
    pem: tls::Pem,
    tls: MakeRustlsConnect,
}

impl Parameters {
    /// From keys and values as they lie in a Secret. One newline at the end of a value is dropped,
    /// and a value that is empty then counts as missing.
    ///
    /// # Errors
    /// [`ParametersError::Missing`] and [`ParametersError::Invalid`].
    pub fn from_map<K, V>(values: impl IntoIterator<Item = (K, V)>) -> Result<Self, ParametersError>
    where
        K: AsRef<str>,
        V: AsRef<[u8]>,
    {
        let values: BTreeMap<String, Vec<u8>> = values
            .into_iter()
            .filter(|(key, _)| key::ALL.contains(&key.as_ref()))
            .map(|(key, value)| (key.as_ref().to_owned(), value.as_ref().to_vec()))
            .collect();
        Raw::from_values(&values)?.into_parameters()
    }

    /// From the files of a directory, as [`Parameters::from_map`]. They are small, and are read
    /// where the caller stands.
    ///
    /// # Errors
    /// See [`ParametersError`].
    pub fn from_directory(directory: &Path) -> Result<Self, ParametersError> {
        Self::from_map(reader::read_files(directory)?)
    }

    /// Every host with its port, as a person writes it.
    #[must_use]
    pub fn address(&self) -> String {
        let all: Vec<String> = self.hosts.iter().map(ToString::to_string).collect();
        all.join(",")
    }

    /// How TLS is spoken, where it is.
    pub(crate) fn tls(&self) -> MakeRustlsConnect {
        self.tls.clone()
    }

    /// Whether a client certificate is shown.
    #[must_use]
    pub fn has_client_certificate(&self) -> bool {
        self.pem.certificate.is_some()
    }

    /// Whether the certificate of the database is verified against a CA at all.
    #[must_use]
    pub fn verifies_server(&self) -> bool {
        match self.ssl_mode {
            SslMode::Disable => false,
            SslMode::Require => self.pem.ca.is_some(),
            SslMode::VerifyCa | SslMode::VerifyFull => true,
        }
    }
}

impl PartialEq for Parameters {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            hosts,
            dbname,
            username,
            password,
            ssl_mode,
            target_session_attrs,
            ignored: _,
            pem,
            tls: _,
        } = self;
        *hosts == other.hosts
            && *dbname == other.dbname
            && *username == other.username
            && *password == other.password
            && *ssl_mode == other.ssl_mode
            && *target_session_attrs == other.target_session_attrs
            && *pem == other.pem
    }
}

impl Eq for Parameters {}

/// Neither password nor key reaches a log.
impl fmt::Debug for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parameters")
            .field("hosts", &self.address())
            .field("dbname", &self.dbname)
            .field("username", &self.username)
            .field("password", &self.password)
            .field("ssl_mode", &self.ssl_mode)
            .field("target_session_attrs", &self.target_session_attrs)
            .finish_non_exhaustive()
    }
}
