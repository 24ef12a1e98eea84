//! Verification of the database's certificate.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::names;
use crate::value::{ParametersError, key};

/// The extent of the verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// Only that the other side holds the key of the certificate that it shows.
    Nothing,
    /// In addition, that a trusted CA signed the certificate.
    Chain,
    /// In addition, that the certificate is for the host.
    ChainAndName,
}

/// A verifier that works as libpq with OpenSSL does. Two things differ from web servers: the common
/// name counts where a certificate has no subject alternative name, and a certificate may be
/// trusted itself (PostgreSQL's manual makes a self-signed one).
#[derive(Debug)]
pub(super) struct Verifier {
    check: Check,
    trusted: Vec<CertificateDer<'static>>,
    roots: RootCertStore,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    /// Returns a verifier that trusts these certificates.
    ///
    /// # Errors
    /// [`ParametersError::Invalid`] if none of them can be used as a CA.
    pub(super) fn new(
        check: Check,
        trusted: Vec<CertificateDer<'static>>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, ParametersError> {
        let mut roots = RootCertStore::empty();
        let (usable, _) = roots.add_parsable_certificates(trusted.iter().cloned());
        if check != Check::Nothing && usable == 0 {
            let why = "holds no certificate that can be used as a CA (X.509 version 3 is needed)";
            return Err(ParametersError::invalid(key::CA, why));
        }
        Ok(Self {
            check,
            trusted,
            roots,
            algorithms: provider.signature_verification_algorithms,
        })
    }

    fn verify_chain(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        if self.trusted.iter().any(|trusted| trusted == end_entity) {
            return verify_dates(end_entity, now);
        }
        let parsed = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.algorithms.all;
        verify_server_cert_signed_by_trust_anchor(
            &parsed,
            &self.roots,
            intermediates,
            now,
            algorithms,
        )
    }
}

fn parse<'a>(certificate: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, Error> {
    X509Certificate::from_der(certificate)
        .map(|(_, parsed)| parsed)
        .map_err(|_| CertificateError::BadEncoding.into())
}

/// Checks the dates of a certificate that is trusted itself; nothing else is left to check.
fn verify_dates(certificate: &CertificateDer<'_>, time: UnixTime) -> Result<(), Error> {
    let parsed = parse(certificate)?;
    let seconds = |at: x509_parser::time::ASN1Time| {
        let seconds = u64::try_from(at.timestamp()).unwrap_or_default();
        UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds))
    };
    let validity = parsed.validity();
    let (not_before, not_after) = (seconds(validity.not_before), seconds(validity.not_after));
    if time < not_before {
        return Err(CertificateError::NotValidYetContext { time, not_before }.into());
    }
    if time > not_after {
        return Err(CertificateError::ExpiredContext { time, not_after }.into());
    }
    Ok(())
}

/// Checks the name by its alternative names; without any, by its common name.
fn verify_name(certificate: &CertificateDer<'_>, name: &ServerName<'_>) -> Result<(), Error> {
    let parsed = parse(certificate)?;
    if let Some(common_name) = names::only_common_name(&parsed) {
        if names::matches(common_name, name) {
            return Ok(());
        }
        return Err(CertificateError::NotValidForNameContext {
            expected: name.to_owned(),
            presented: vec![format!("CN {common_name:?}")],
        }
        .into());
    }
    verify_server_name(&ParsedCertificate::try_from(certificate)?, name)
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.check != Check::Nothing {
            self.verify_chain(end_entity, intermediates, now)?;
        }
        if self.check == Check::ChainAndName {
            verify_name(end_entity, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
