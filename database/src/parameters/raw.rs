//! The way from keys and values to parameters.

use std::collections::BTreeMap;

use tokio_postgres_rustls::MakeRustlsConnect;

use super::uri::{self, Uri};
use super::{Parameters, ParametersError, Password, SslMode, TargetSessionAttrs, endpoint, key};
use crate::tls::{self, Pem};

/// Everything as it was written, from the URI and the single keys together.
pub(super) struct Raw {
    uri: Uri,
    pem: Pem,
}

impl Raw {
    pub(super) fn from_values(values: &BTreeMap<String, Vec<u8>>) -> Result<Self, ParametersError> {
        let single = |key: &str| text(values, key);
        let mut uri = match single(key::URI)? {
            Some(written) => uri::parse(&written)?,
            None => Uri::default(),
        };
        if let Some(hosts) = single(key::HOST)? {
            (uri.hosts, uri.ports) = (Some(hosts), None);
        }
        uri.ports = single(key::PORT)?.or(uri.ports);
        uri.dbname = single(key::DBNAME)?.or(uri.dbname);
        uri.username = single(key::USERNAME)?.or(uri.username);
        uri.password = bytes(values, key::PASSWORD)
            .map(<[u8]>::to_vec)
            .or(uri.password);
        uri.ssl_mode = single(key::SSLMODE)?.or(uri.ssl_mode);
        let attributes = single(key::TARGET_SESSION_ATTRS)?;
        uri.target_session_attrs = attributes.or(uri.target_session_attrs);
        let pem = Pem {
            ca: bytes(values, key::CA).map(<[u8]>::to_vec),
            certificate: bytes(values, key::CERTIFICATE).map(<[u8]>::to_vec),
            key: bytes(values, key::CERTIFICATE_KEY).map(Password::new),
        };
        Ok(Self { uri, pem })
    }

    pub(super) fn into_parameters(self) -> Result<Parameters, ParametersError> {
        let Self { uri, pem } = self;
        let (Some(hosts), Some(dbname), Some(username)) = (&uri.hosts, &uri.dbname, &uri.username)
        else {
            return Err(missing(&uri));
        };
        let ssl_mode = uri.ssl_mode.as_deref().map(SslMode::parse).transpose()?;
        let ssl_mode = ssl_mode.unwrap_or_default();
        let attributes = uri.target_session_attrs.as_deref();
        let attributes = attributes.map(TargetSessionAttrs::parse).transpose()?;
        let hosts = endpoint::pair(hosts, uri.ports.as_deref())?;
        // A Unix socket needs no TLS, and so no CA.
        let tcp = hosts
            .iter()
            .any(|at| matches!(at.host, super::Host::Tcp(_)));
        let ssl_mode = if tcp { ssl_mode } else { SslMode::Disable };
        let tls = MakeRustlsConnect::new(tls::client_config(ssl_mode, &pem)?);
        Ok(Parameters {
            hosts,
            dbname: dbname.clone(),
            username: username.clone(),
            password: uri.password.map(Password::new),
            ssl_mode,
            target_session_attrs: attributes.unwrap_or_default(),
            ignored: uri.ignored,
            pem,
            tls,
        })
    }
}

fn missing(uri: &Uri) -> ParametersError {
    let parts = [
        (key::HOST, &uri.hosts),
        (key::DBNAME, &uri.dbname),
        (key::USERNAME, &uri.username),
    ];
    let keys = parts
        .into_iter()
        .filter(|(_, value)| value.is_none())
        .map(|(key, _)| key)
        .collect();
    ParametersError::Missing { keys }
}

fn bytes<'a>(values: &'a BTreeMap<String, Vec<u8>>, key: &str) -> Option<&'a [u8]> {
    let value = values.get(key)?.as_slice();
    let value = value.strip_suffix(b"\n").unwrap_or(value);
    let value = value.strip_suffix(b"\r").unwrap_or(value);
    (!value.is_empty()).then_some(value)
}

fn text(values: &BTreeMap<String, Vec<u8>>, key: &str) -> Result<Option<String>, ParametersError> {
    bytes(values, key)
        .map(|value| String::from_utf8(value.to_vec()))
        .transpose()
        .map_err(|_| ParametersError::invalid(key, "is not UTF-8 text"))
}
