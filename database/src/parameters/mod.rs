//! The parameters of a connection: hosts, database, role and protection.

mod endpoint;
mod raw;
mod reader;
#[cfg(test)]
mod tests;
mod uri;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use tokio_postgres_rustls::MakeRustlsConnect;

use crate::tls;

pub use crate::value::{ParametersError, Password, SslMode, TargetSessionAttrs, key};
pub use endpoint::{DEFAULT_PORT, Endpoint, Host};
pub use reader::{ParametersReader, Reading};

use raw::Raw;

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
    /// The protection of the connection.
    pub ssl_mode: SslMode,
    /// The kind of host that will do.
    pub target_session_attrs: TargetSessionAttrs,
    /// Options of the URI that are known and have no effect here; worth a line in the log.
    pub ignored: Vec<String>,
    pem: tls::Pem,
    tls: MakeRustlsConnect,
}

impl Parameters {
    /// Reads keys and values as they lie in a Secret. One newline at the end of a value is dropped,
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

    /// Reads the files of a directory, as [`Parameters::from_map`]. They are small, and are read on
    /// the caller's thread.
    ///
    /// # Errors
    /// See [`ParametersError`].
    pub fn from_directory(directory: &Path) -> Result<Self, ParametersError> {
        Self::from_map(reader::read_files(directory)?)
    }

    /// Returns every host with its port, as a person writes it.
    #[must_use]
    pub fn address(&self) -> String {
        let all: Vec<String> = self.hosts.iter().map(ToString::to_string).collect();
        all.join(",")
    }

    /// Returns the TLS connector for the connections that use TLS.
    pub(crate) fn tls(&self) -> MakeRustlsConnect {
        self.tls.clone()
    }

    /// Returns whether a client certificate is shown.
    #[must_use]
    pub fn has_client_certificate(&self) -> bool {
        self.pem.certificate.is_some()
    }

    /// Returns whether these parameters lead to where `other` leads, protected alike: they differ in
    /// role, password, certificates and CAs at most.
    #[must_use]
    pub fn leads_where(&self, other: &Self) -> bool {
        let Self {
            hosts,
            dbname,
            username: _,
            password: _,
            ssl_mode,
            target_session_attrs,
            ignored: _,
            pem: _,
            tls: _,
        } = self;
        *hosts == other.hosts
            && *dbname == other.dbname
            && *ssl_mode == other.ssl_mode
            && *target_session_attrs == other.target_session_attrs
    }

    /// Returns whether the certificate of the database is verified against a CA at all.
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
        self.leads_where(other)
            && self.username == other.username
            && self.password == other.password
            && self.pem == other.pem
    }
}

impl Eq for Parameters {}

/// Shows neither password nor key, so that none reaches a log.
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
