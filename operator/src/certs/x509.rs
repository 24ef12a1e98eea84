//! The reading and the verification of certificates.

use std::sync::Arc;

use jiff::Timestamp;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use sha2::{Digest, Sha256};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::*;

use super::issue::BACKDATE;
use super::plan::{CaInfo, Fingerprint, LeafInfo};
use super::time::plus;

/// Returns the certificates of a bundle, one PEM each, ending in a newline.
pub(super) fn split(bundle: &str) -> Vec<String> {
    const END: &str = "-----END CERTIFICATE-----";
    bundle
        .split_inclusive(END)
        .filter(|part| part.ends_with(END))
        .map(|part| format!("{}\n", part.trim()))
        .collect()
}

/// Returns the certificates of a bundle, one PEM each and none twice, without what stands around
/// them; nothing where one cannot be read.
pub(super) fn authorities(bundle: &str) -> Option<Vec<String>> {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    let mut found: Vec<String> = Vec::new();
    for part in split(bundle) {
        let pem = part.get(part.find(BEGIN)?..)?.replace('\r', "");
        read(&pem)?;
        if !found.contains(&pem) {
            found.push(pem);
        }
    }
    Some(found)
}

/// Returns the first certificate of a PEM text.
fn der(pem: &str) -> Option<CertificateDer<'static>> {
    CertificateDer::from_pem_slice(pem.as_bytes()).ok()
}

/// Returns the identity of the first certificate of a PEM text.
pub(super) fn fingerprint_of(pem: &str) -> Option<Fingerprint> {
    Some(hex::encode(Sha256::digest(der(pem)?)))
}

/// Returns whether it is a private key that can be used.
pub(super) fn is_key(pem: &str) -> bool {
    let key = PrivateKeyDer::from_pem_slice(pem.as_bytes());
    key.is_ok_and(|key| ring::sign::any_supported_type(&key).is_ok())
}

/// Returns a certificate's beginning and end. Ours begin [`BACKDATE`] before their
/// issue.
fn validity(cert: &X509Certificate<'_>) -> Option<(Timestamp, Timestamp)> {
    let begin = Timestamp::from_second(cert.validity().not_before.timestamp()).ok()?;
    let end = Timestamp::from_second(cert.validity().not_after.timestamp()).ok()?;
    Some((plus(begin, BACKDATE), end))
}

/// Returns the beginning and the end of the first certificate of a PEM text.
#[must_use]
pub fn validity_of(pem: &str) -> Option<(Timestamp, Timestamp)> {
    let der = der(pem)?;
    let (_, cert) = X509Certificate::from_der(&der).ok()?;
    let begin = Timestamp::from_second(cert.validity().not_before.timestamp()).ok()?;
    let end = Timestamp::from_second(cert.validity().not_after.timestamp()).ok()?;
    Some((begin, end))
}

/// Returns the facts about a certificate authority.
pub(super) fn read_ca(pem: &str) -> Option<CaInfo> {
    let der = der(pem)?;
    let (_, cert) = X509Certificate::from_der(&der).ok()?;
    if !cert.is_ca() {
        return None;
    }
    read(pem)
}

/// Returns the facts about a certificate that is trusted, whatever it says about itself.
pub(super) fn read(pem: &str) -> Option<CaInfo> {
    let der = der(pem)?;
    let (_, cert) = X509Certificate::from_der(&der).ok()?;
    let (issued, not_after) = validity(&cert)?;
    Some(CaInfo {
        fingerprint: hex::encode(Sha256::digest(&der)),
        issued,
        not_after,
    })
}

/// Returns the facts about a server's certificate, where one of `cas` may have signed it.
pub(super) fn read_leaf(pem: &str, cas: &[&str]) -> Option<LeafInfo> {
    let chain = chain(pem);
    let (_, cert) = X509Certificate::from_der(chain.first()?).ok()?;
    let (issued, not_after) = validity(&cert)?;
    let dns_names = dns_names(&cert);
    let name = host(dns_names.first()?);
    let signer = cas.iter().find(|ca| verifies(&chain, ca, &name, issued));
    Some(LeafInfo {
        issuer: signer.and_then(|ca| fingerprint_of(ca)),
        issued,
        not_after,
        dns_names,
    })
}

/// Returns the certificates of a PEM text as far as they can be read, that of the server first.
fn chain(pem: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem.as_bytes())
        .map_while(Result::ok)
        .collect()
}

/// Returns the DNS names that a certificate is for.
pub(super) fn dns_names(cert: &X509Certificate<'_>) -> Vec<String> {
    let names = cert.subject_alternative_name().ok().flatten();
    names
        .iter()
        .flat_map(|san| &san.value.general_names)
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        })
        .collect()
}

/// Returns whether a DNS name of a certificate, which may begin with `*`, covers a host.
pub(super) fn is_for(name: &str, host: &str) -> bool {
    let rest = |name: &str| name.split_once('.').map(|(_, rest)| rest.to_owned());
    match name.strip_prefix("*.") {
        Some(domain) => rest(host).is_some_and(|rest| rest.eq_ignore_ascii_case(domain)),
        None => name.eq_ignore_ascii_case(host),
    }
}

/// Returns a host that a DNS name of a certificate covers.
fn host(name: &str) -> String {
    match name.strip_prefix("*.") {
        Some(domain) => format!("any.{domain}"),
        None => name.to_owned(),
    }
}

/// Returns whether somebody who trusts `cas` accepts a server's certificate at a time, under the
/// first of its names.
pub(super) fn is_trusted(pem: &str, cas: &[String], at: Timestamp) -> bool {
    let check = || {
        let chain = chain(pem);
        let (_, cert) = X509Certificate::from_der(chain.first()?).ok()?;
        let name = host(dns_names(&cert).first()?);
        verify(&chain, cas, &name, at).ok()
    };
    check().is_some()
}

/// Verifies a server's certificate as a TLS client does that trusts `cas`.
///
/// # Errors
/// The reason, in words, why such a client refuses it.
pub(super) fn verify(
    chain: &[CertificateDer<'_>],
    cas: &[String],
    host: &str,
    at: Timestamp,
) -> Result<(), String> {
    let (leaf, intermediates) = chain.split_first().ok_or("there is no certificate")?;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(cas.iter().filter_map(|ca| der(ca)));
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| error.to_string())?;
    let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
    let at = unix(at).ok_or("the time is out of range")?;
    verifier
        .verify_server_cert(leaf, intermediates, &name, &[], at)
        .map(drop)
        .map_err(|error| error.to_string())
}

/// Returns a client's certificate; its name is the role.
pub(super) fn read_client(pem: &str, cas: &[&str]) -> Option<LeafInfo> {
    let der = der(pem)?;
    let (_, cert) = X509Certificate::from_der(&der).ok()?;
    let (issued, not_after) = validity(&cert)?;
    let role = cert.subject().iter_common_name().next()?.as_str().ok()?;
    let signer = cas.iter().find(|ca| verifies_client(&der, ca, issued));
    Some(LeafInfo {
        issuer: signer.and_then(|ca| fingerprint_of(ca)),
        issued,
        not_after,
        dns_names: vec![role.to_owned()],
    })
}

/// Returns whether a TLS server that trusts `ca` lets the client in, at the time of the
/// certificate's issue.
fn verifies_client(leaf: &CertificateDer<'_>, ca: &str, at: Timestamp) -> bool {
    let check = || {
        let mut roots = RootCertStore::empty();
        roots.add(der(ca)?).ok()?;
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .ok()?;
        verifier.verify_client_cert(leaf, &[], unix(at)?).ok()
    };
    check().is_some()
}

/// Returns a time as the verifiers take it; nothing before 1970.
fn unix(at: Timestamp) -> Option<UnixTime> {
    let seconds = u64::try_from(at.as_second()).ok()?;
    Some(UnixTime::since_unix_epoch(std::time::Duration::from_secs(
        seconds,
    )))
}

/// Returns whether a TLS client that trusts `ca` accepts the certificate at the time of its issue.
/// The signature is in question here, not the present validity.
fn verifies(chain: &[CertificateDer<'_>], ca: &str, name: &str, at: Timestamp) -> bool {
    verify(chain, &[ca.to_owned()], name, at).is_ok()
}
