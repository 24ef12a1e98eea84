//! Certificates and keys as they lie in the Secrets, and the facts about them that the plan needs.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::CertifiedKey;
use sha2::{Digest, Sha256};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::*;

use super::plan::{CaInfo, Fingerprint, LeafInfo, Observed};

/// Key of a certificate in a Secret of type `kubernetes.io/tls`.
pub const TLS_CRT: &str = "tls.crt";
/// Key of a private key in a Secret of type `kubernetes.io/tls`.
pub const TLS_KEY: &str = "tls.key";
/// Key of the bundle beside the server's certificate.
pub const CA_CRT: &str = "ca.crt";
/// Key of the CAs on their way out, in the CA's Secret.
pub const PREVIOUS_CRT: &str = "previous-ca.crt";

/// A certificate and its private key, both PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    /// The certificate.
    pub cert: String,
    /// PKCS#8 private key.
    pub key: String,
}

/// Hides the key, which never reaches a log.
impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pair")
            .field("cert", &self.cert)
            .finish_non_exhaustive()
    }
}

/// Everything that the operator issues for one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Material {
    /// The CA that signs.
    pub ca: Option<Pair>,
    /// CAs that still have to be trusted, PEM, newest first.
    pub previous: Vec<String>,
    /// The server's certificate.
    pub leaf: Option<Pair>,
    /// The certificate of the database, where the operator runs one.
    pub database_server: Option<Pair>,
    /// The certificate by which servers are let into that database.
    pub database_client: Option<Pair>,
}

impl Material {
    /// Reads the two Secrets. Whatever cannot be read counts as missing, and is issued anew. The
    /// bundle beside the leaf keeps a CA trusted whose own Secret was lost.
    #[must_use]
    pub fn from_secrets(ca: Option<&Secret>, serving: Option<&Secret>) -> Self {
        let pair = ca
            .and_then(pair)
            .filter(|pair| matches(pair) && read_ca(&pair.cert).is_some());
        let signing = pair.as_ref().and_then(|pair| fingerprint_of(&pair.cert));
        let mut previous: Vec<String> = Vec::new();
        let mut seen: Vec<Fingerprint> = signing.into_iter().collect();
        let texts = [
            text(ca, PREVIOUS_CRT),
            text(serving, CA_CRT).filter(|_| pair.is_none()),
        ];
        for cert in texts.into_iter().flatten().flat_map(|pem| split(&pem)) {
            if let Some(info) = read_ca(&cert).filter(|info| !seen.contains(&info.fingerprint)) {
                seen.push(info.fingerprint);
                previous.push(cert);
            }
        }
        let leaf = serving.and_then(self::pair).filter(matches);
        Self {
            ca: pair,
            previous,
            leaf,
            ..Self::default()
        }
    }

    /// Adds the certificates of a database, as they lie in their Secrets.
    #[must_use]
    pub fn with_database(self, server: Option<&Secret>, client: Option<&Secret>) -> Self {
        Self {
            database_server: server.and_then(pair).filter(matches),
            database_client: client.and_then(pair).filter(matches),
            ..self
        }
    }

    /// Returns the bundle for the `APIService`s: the signing CA, then those on their way out.
    #[must_use]
    pub fn bundle(&self) -> String {
        let signing = self.ca.iter().map(|pair| pair.cert.as_str());
        signing
            .chain(self.previous.iter().map(String::as_str))
            .collect()
    }

    /// Returns the facts that the plan needs. `published` is the bundle of each `APIService` that
    /// points to the server.
    #[must_use]
    pub fn observe(&self, published: &[Vec<u8>]) -> Observed {
        let bundle = self.bundle();
        let ca = self.ca.as_ref().and_then(|pair| read_ca(&pair.cert));
        let previous: Vec<CaInfo> = self
            .previous
            .iter()
            .filter_map(|pem| read_ca(pem))
            .collect();
        let certs: Vec<&str> = self
            .ca
            .iter()
            .map(|pair| pair.cert.as_str())
            .chain(self.previous.iter().map(String::as_str))
            .collect();
        Observed {
            leaf: self
                .leaf
                .as_ref()
                .and_then(|pair| read_leaf(&pair.cert, &certs)),
            database_server: self
                .database_server
                .as_ref()
                .and_then(|pair| read_leaf(&pair.cert, &certs)),
            database_client: self
                .database_client
                .as_ref()
                .and_then(|pair| read_client(&pair.cert, &certs)),
            published: published.iter().all(|pem| pem == bundle.as_bytes()),
            ca,
            previous,
        }
    }

    /// Returns the data of the CA's Secret.
    #[must_use]
    pub fn ca_data(&self) -> BTreeMap<String, ByteString> {
        let mut data = self.ca.as_ref().map(data).unwrap_or_default();
        if !self.previous.is_empty() {
            data.insert(PREVIOUS_CRT.to_owned(), bytes(&self.previous.concat()));
        }
        data
    }

    /// Returns the data of the server's Secret.
    #[must_use]
    pub fn serving_data(&self) -> BTreeMap<String, ByteString> {
        self.with_bundle(self.leaf.as_ref())
    }

    /// Returns the data of the Secret with the database's certificate.
    #[must_use]
    pub fn database_server_data(&self) -> BTreeMap<String, ByteString> {
        self.with_bundle(self.database_server.as_ref())
    }

    /// Returns the data of the Secret with the certificate by which servers are let in.
    #[must_use]
    pub fn database_client_data(&self) -> BTreeMap<String, ByteString> {
        self.with_bundle(self.database_client.as_ref())
    }

    fn with_bundle(&self, leaf: Option<&Pair>) -> BTreeMap<String, ByteString> {
        let mut data = leaf.map(data).unwrap_or_default();
        data.insert(CA_CRT.to_owned(), bytes(&self.bundle()));
        data
    }

    /// Returns the fingerprints of the trusted CAs, the signing one first.
    #[must_use]
    pub fn ca_fingerprints(&self) -> Vec<Fingerprint> {
        split(&self.bundle())
            .iter()
            .filter_map(|pem| fingerprint_of(pem))
            .collect()
    }

    /// Returns the time at which the server's certificate expires.
    #[must_use]
    pub fn leaf_not_after(&self) -> Option<Timestamp> {
        self.leaf
            .as_ref()
            .and_then(|pair| read_leaf(&pair.cert, &[]))
            .map(|leaf| leaf.not_after)
    }
}

fn pair(secret: &Secret) -> Option<Pair> {
    Some(Pair {
        cert: text(Some(secret), TLS_CRT)?,
        key: text(Some(secret), TLS_KEY)?,
    })
}

fn text(secret: Option<&Secret>, key: &str) -> Option<String> {
    let value = secret?.data.as_ref()?.get(key)?;
    String::from_utf8(value.0.clone())
        .ok()
        .filter(|text| !text.is_empty())
}

fn data(pair: &Pair) -> BTreeMap<String, ByteString> {
    BTreeMap::from([
        (TLS_CRT.to_owned(), bytes(&pair.cert)),
        (TLS_KEY.to_owned(), bytes(&pair.key)),
    ])
}

fn bytes(text: &str) -> ByteString {
    ByteString(text.as_bytes().to_vec())
}

/// Returns the certificates of a bundle, one PEM each, ending in a newline.
fn split(bundle: &str) -> Vec<String> {
    const END: &str = "-----END CERTIFICATE-----";
    bundle
        .split_inclusive(END)
        .filter(|part| part.ends_with(END))
        .map(|part| format!("{}\n", part.trim()))
        .collect()
}

fn der(pem: &str) -> Option<CertificateDer<'static>> {
    CertificateDer::from_pem_slice(pem.as_bytes()).ok()
}

fn fingerprint_of(pem: &str) -> Option<Fingerprint> {
    Some(hex::encode(Sha256::digest(der(pem)?)))
}

/// Returns whether the key belongs to the certificate.
fn matches(pair: &Pair) -> bool {
    let (Some(cert), Ok(key)) = (
        der(&pair.cert),
        PrivateKeyDer::from_pem_slice(pair.key.as_bytes()),
    ) else {
        return false;
    };
    ring::sign::any_supported_type(&key)
        .is_ok_and(|key| CertifiedKey::new(vec![cert], key).keys_match().is_ok())
}

/// Returns a certificate's beginning and end. Ours begin [`super::issue::BACKDATE`] before their
/// issue.
fn validity(cert: &X509Certificate<'_>) -> Option<(Timestamp, Timestamp)> {
    let begin = Timestamp::from_second(cert.validity().not_before.timestamp()).ok()?;
    let end = Timestamp::from_second(cert.validity().not_after.timestamp()).ok()?;
    Some((super::plan::plus(begin, super::issue::BACKDATE), end))
}

fn read_ca(pem: &str) -> Option<CaInfo> {
    let der = der(pem)?;
    let (_, cert) = X509Certificate::from_der(&der).ok()?;
    if !cert.is_ca() {
        return None;
    }
    let (issued, not_after) = validity(&cert)?;
    Some(CaInfo {
        fingerprint: hex::encode(Sha256::digest(&der)),
        issued,
        not_after,
    })
}

fn read_leaf(pem: &str, cas: &[&str]) -> Option<LeafInfo> {
    let der = der(pem)?;
    let (_, cert) = X509Certificate::from_der(&der).ok()?;
    let (issued, not_after) = validity(&cert)?;
    let names = cert.subject_alternative_name().ok().flatten();
    let dns_names: Vec<String> = names
        .iter()
        .flat_map(|san| &san.value.general_names)
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        })
        .collect();
    let name = dns_names.first()?;
    let signer = cas.iter().find(|ca| verifies(&der, ca, name, issued));
    Some(LeafInfo {
        issuer: signer.and_then(|ca| fingerprint_of(ca)),
        issued,
        not_after,
        dns_names,
    })
}

/// Returns a client's certificate; its name is the role.
fn read_client(pem: &str, cas: &[&str]) -> Option<LeafInfo> {
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

fn unix(at: Timestamp) -> Option<UnixTime> {
    let seconds = u64::try_from(at.as_second()).ok()?;
    Some(UnixTime::since_unix_epoch(std::time::Duration::from_secs(
        seconds,
    )))
}

/// Returns whether a TLS client that trusts `ca` accepts `leaf` at the time of its issue. The
/// signature is in question here, not the present validity.
fn verifies(leaf: &CertificateDer<'_>, ca: &str, name: &str, at: Timestamp) -> bool {
    let check = || {
        let mut roots = RootCertStore::empty();
        roots.add(der(ca)?).ok()?;
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .ok()?;
        let name = ServerName::try_from(name.to_owned()).ok()?;
        let at = unix(at)?;
        verifier.verify_server_cert(leaf, &[], &name, &[], at).ok()
    };
    check().is_some()
}
