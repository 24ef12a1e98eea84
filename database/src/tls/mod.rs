//! TLS as libpq means it.

mod names;
mod roots;
#[cfg(test)]
mod tests;
mod verifier;

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::value::{ParametersError, Password, SslMode, key};

use verifier::{Check, Verifier};

/// The material of TLS, as it was given.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Pem {
    /// CAs, PEM.
    pub(crate) ca: Option<Vec<u8>>,
    /// Client certificate with its chain, PEM.
    pub(crate) certificate: Option<Vec<u8>>,
    /// Key of the client certificate, PEM.
    pub(crate) key: Option<Password>,
}

/// Returns the configuration of TLS. Where TLS is not used, the configuration is never used either.
///
/// # Errors
/// [`ParametersError::Invalid`] names the key with the certificate that cannot be used.
pub(crate) fn client_config(mode: SslMode, pem: &Pem) -> Result<ClientConfig, ParametersError> {
    let unused = Pem::default();
    let pem = if mode == SslMode::Disable {
        &unused
    } else {
        pem
    };
    let check = check(mode, pem.ca.is_some());
    let trusted = match &pem.ca {
        Some(ca) => certificates(key::CA, ca)?,
        None if check == Check::Nothing => Vec::new(),
        None => roots::of_the_system(mode)?,
    };
    let provider = Arc::new(ring::default_provider());
    let verifier = Verifier::new(check, trusted, &provider)?;
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| ParametersError::invalid(key::SSLMODE, error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    match identity(pem, &provider)? {
        Some((chain, key)) => builder
            .with_client_auth_cert(chain, key)
            .map_err(|error| ParametersError::invalid(key::CERTIFICATE_KEY, unusable(&error))),
        None => Ok(builder.with_no_client_auth()),
    }
}

/// Returns what libpq verifies; a CA makes `require` as strict as `verify-ca`.
fn check(mode: SslMode, has_ca: bool) -> Check {
    match mode {
        SslMode::Disable => Check::Nothing,
        SslMode::Require if !has_ca => Check::Nothing,
        SslMode::Require | SslMode::VerifyCa => Check::Chain,
        SslMode::VerifyFull => Check::ChainAndName,
    }
}

fn unusable(error: &rustls::Error) -> String {
    format!("does not match `{}`: {error}", key::CERTIFICATE)
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Returns the client certificate. One half without the other is a mistake.
fn identity(pem: &Pem, provider: &CryptoProvider) -> Result<Option<Identity>, ParametersError> {
    let (certificate, private) = match (&pem.certificate, &pem.key) {
        (None, None) => return Ok(None),
        (Some(certificate), Some(key)) => (certificate, key),
        (certificate, _) => {
            let (there, gone) = if certificate.is_some() {
                (key::CERTIFICATE, key::CERTIFICATE_KEY)
            } else {
                (key::CERTIFICATE_KEY, key::CERTIFICATE)
            };
            let why = format!("is missing, but `{there}` is set: give both, or none");
            return Err(ParametersError::invalid(gone, why));
        }
    };
    let chain = certificates(key::CERTIFICATE, certificate)?;
    let not_a_key = |why: String| {
        let why = format!("holds no usable private key (PEM, not encrypted): {why}");
        ParametersError::invalid(key::CERTIFICATE_KEY, why)
    };
    let private = PrivateKeyDer::from_pem_slice(private.expose())
        .map_err(|error| not_a_key(error.to_string()))?;
    provider
        .key_provider
        .load_private_key(private.clone_key())
        .map_err(|error| not_a_key(error.to_string()))?;
    Ok(Some((chain, private)))
}

fn certificates(key: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, ParametersError> {
    let all: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| ParametersError::invalid(key, format!("is not PEM: {error}")))?;
    if all.is_empty() {
        let why = "holds no certificate: it must begin with -----BEGIN CERTIFICATE-----";
        return Err(ParametersError::invalid(key, why));
    }
    Ok(all)
}
