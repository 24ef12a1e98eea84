//! Authentication by the kube-apiserver's front proxy.
//!
//! The kube-apiserver proves itself with a client certificate and names the user in headers. The
//! CA, the names and the headers are in the `ConfigMap`
//! `kube-system/extension-apiserver-authentication`. Without a proven certificate the headers prove
//! nothing: anyone can send them.

use std::collections::BTreeMap;
use std::time::Duration;

use http::{HeaderMap, HeaderName};
use percent_encoding::percent_decode_str;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, TrustAnchor, UnixTime};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::user::UserInfo;

/// The clients that may speak for others, and the headers by which they do.
#[derive(Clone, Debug, Default)]
pub struct FrontProxyConfig {
    /// False until the `ConfigMap` has been read for the first time.
    loaded: bool,
    /// Roots for the proxy's certificate.
    anchors: Vec<TrustAnchor<'static>>,
    /// Common names that are accepted; empty accepts any.
    allowed_names: Vec<String>,
    username_headers: Vec<HeaderName>,
    uid_headers: Vec<HeaderName>,
    group_headers: Vec<HeaderName>,
    extra_prefixes: Vec<String>,
}

/// The `ConfigMap` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FrontProxyConfigError {
    /// A key that should hold a JSON array of strings holds something else.
    #[error("key {key} is not a JSON array of strings: {source}")]
    NotAList {
        /// Key of the `ConfigMap`.
        key: &'static str,
        /// The error of the parser.
        source: serde_json::Error,
    },
    /// A header name that HTTP does not know.
    #[error("key {key} names an invalid header {name:?}")]
    Header {
        /// Key of the `ConfigMap`.
        key: &'static str,
        /// The name.
        name: String,
    },
    /// The CA bundle cannot be read.
    #[error("key {CA_KEY} holds no usable certificate: {0}")]
    Ca(String),
}

/// The reason why a client certificate does not make a front proxy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// Not signed by the front proxy's CA, expired or not meant for clients.
    #[error("the client certificate is not trusted: {0}")]
    Untrusted(String),
    /// A trusted certificate of somebody else.
    #[error("the client certificate's common name {0:?} is not allowed")]
    NotAllowed(String),
    /// A header that is not text.
    #[error("the header {0} is not UTF-8")]
    NotText(HeaderName),
}

const CA_KEY: &str = "requestheader-client-ca-file";
const NAMES_KEY: &str = "requestheader-allowed-names";
const USERNAME_KEY: &str = "requestheader-username-headers";
const UID_KEY: &str = "requestheader-uid-headers";
const GROUP_KEY: &str = "requestheader-group-headers";
const EXTRA_KEY: &str = "requestheader-extra-headers-prefix";

impl FrontProxyConfig {
    /// Reads the data of the `ConfigMap`. Without a CA nobody is a front proxy.
    ///
    /// # Errors
    /// If a key cannot be read; the configuration in force should then be kept.
    pub fn parse(data: &BTreeMap<String, String>) -> Result<Self, FrontProxyConfigError> {
        let anchors = match data.get(CA_KEY).filter(|pem| !pem.trim().is_empty()) {
            Some(pem) => anchors(pem)?,
            None => Vec::new(),
        };
        Ok(Self {
            loaded: true,
            anchors,
            allowed_names: list(data, NAMES_KEY)?,
            username_headers: headers(data, USERNAME_KEY)?,
            uid_headers: headers(data, UID_KEY)?,
            group_headers: headers(data, GROUP_KEY)?,
            extra_prefixes: list(data, EXTRA_KEY)?
                .into_iter()
                .map(|prefix| prefix.to_ascii_lowercase())
                .collect(),
        })
    }

    /// Returns whether this comes from the `ConfigMap`, and is not just the state at the start.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.loaded
    }

    /// Returns whether any front proxy can be recognised.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        !self.anchors.is_empty() && !self.username_headers.is_empty()
    }

    /// Checks a client's certificate chain (leaf first) at a point of time since 1970. The
    /// handshake has already proven that the peer holds the leaf's key.
    ///
    /// # Errors
    /// If the certificate is not that of a front proxy.
    pub fn verify(&self, chain: &[CertificateDer<'_>], now: Duration) -> Result<(), PeerError> {
        let Some((leaf, intermediates)) = chain.split_first() else {
            return Err(PeerError::Untrusted("no certificate".to_owned()));
        };
        let untrusted = |error: webpki::Error| PeerError::Untrusted(error.to_string());
        let end_entity = webpki::EndEntityCert::try_from(leaf).map_err(untrusted)?;
        end_entity
            .verify_for_usage(
                rustls::crypto::ring::default_provider()
                    .signature_verification_algorithms
                    .all,
                &self.anchors,
                intermediates,
                UnixTime::since_unix_epoch(now),
                webpki::KeyUsage::client_auth(),
                None,
                None,
            )
            .map_err(untrusted)?;
        let name = common_name(leaf);
        if self.allowed_names.is_empty() || self.allowed_names.contains(&name) {
            Ok(())
        } else {
            Err(PeerError::NotAllowed(name))
        }
    }

    /// Returns the user named in the headers; `None` when no user is named. Call it only after
    /// [`Self::verify`].
    ///
    /// # Errors
    /// If a header is not text.
    pub fn user(&self, headers: &HeaderMap) -> Result<Option<UserInfo>, PeerError> {
        let Some(username) = first(headers, &self.username_headers)? else {
            return Ok(None);
        };
        let mut groups = Vec::new();
        for name in &self.group_headers {
            for value in values(headers, name) {
                let value = value?;
                if !value.is_empty() {
                    groups.push(value);
                }
            }
        }
        Ok(Some(UserInfo {
            username,
            uid: first(headers, &self.uid_headers)?.unwrap_or_default(),
            groups,
            extra: self.extra(headers)?,
        }))
    }

    fn extra(&self, headers: &HeaderMap) -> Result<BTreeMap<String, Vec<String>>, PeerError> {
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for header in headers.keys() {
            let rest = self
                .extra_prefixes
                .iter()
                .find_map(|p| header.as_str().strip_prefix(p));
            let Some(key) = rest else { continue };
            let key = percent_decode_str(key)
                .decode_utf8()
                .map_or_else(|_| key.to_owned(), std::borrow::Cow::into_owned);
            let list = extra.entry(key).or_default();
            for value in values(headers, header) {
                list.push(value?);
            }
        }
        Ok(extra)
    }

    /// Takes every header out that could name a user.
    pub fn strip(&self, headers: &mut HeaderMap) {
        let carries_extra = |name: &HeaderName| {
            self.extra_prefixes
                .iter()
                .any(|prefix| name.as_str().starts_with(prefix))
        };
        let extra: Vec<_> = headers
            .keys()
            .filter(|name| carries_extra(name))
            .cloned()
            .collect();
        let named = self
            .username_headers
            .iter()
            .chain(&self.uid_headers)
            .chain(&self.group_headers);
        for name in named.chain(&extra) {
            headers.remove(name);
        }
    }
}

fn list(
    data: &BTreeMap<String, String>,
    key: &'static str,
) -> Result<Vec<String>, FrontProxyConfigError> {
    match data.get(key).filter(|text| !text.is_empty()) {
        None => Ok(Vec::new()),
        Some(text) => serde_json::from_str(text)
            .map_err(|source| FrontProxyConfigError::NotAList { key, source }),
    }
}

fn headers(
    data: &BTreeMap<String, String>,
    key: &'static str,
) -> Result<Vec<HeaderName>, FrontProxyConfigError> {
    let parse = |name: String| {
        HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| FrontProxyConfigError::Header { key, name })
    };
    list(data, key)?.into_iter().map(parse).collect()
}

fn anchors(pem: &str) -> Result<Vec<TrustAnchor<'static>>, FrontProxyConfigError> {
    let unusable = |why: String| FrontProxyConfigError::Ca(why);
    let mut anchors = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
        let anchor = webpki::anchor_from_trusted_cert(&certificate)
            .map_err(|error| unusable(error.to_string()))?;
        anchors.push(anchor.to_owned());
    }
    if anchors.is_empty() {
        return Err(unusable("no PEM certificate in it".to_owned()));
    }
    Ok(anchors)
}

/// Returns the subject's common name; empty where there is none.
fn common_name(certificate: &CertificateDer<'_>) -> String {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
        return String::new();
    };
    let name = parsed.subject().iter_common_name().next();
    name.and_then(|name| name.as_str().ok())
        .unwrap_or_default()
        .to_owned()
}

fn values<'a>(
    headers: &'a HeaderMap,
    name: &'a HeaderName,
) -> impl Iterator<Item = Result<String, PeerError>> + 'a {
    headers.get_all(name).iter().map(|value| {
        let text = std::str::from_utf8(value.as_bytes());
        text.map(str::to_owned)
            .map_err(|_| PeerError::NotText(name.clone()))
    })
}

fn first(headers: &HeaderMap, names: &[HeaderName]) -> Result<Option<String>, PeerError> {
    for name in names {
        if let Some(value) = values(headers, name).next().transpose()?
            && !value.is_empty()
        {
            return Ok(Some(value));
        }
    }
    Ok(None)
}
