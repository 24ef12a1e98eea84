//! Certificates and keys as they lie in the Secrets, and the facts about them that the plan needs.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;

use super::pair::Pair;
use super::plan::{CaInfo, Fingerprint, Observed};
use super::x509::{
    authorities, fingerprint_of, read, read_ca, read_client, read_leaf, split, validity_of,
};

/// Key of a certificate in a Secret of type `kubernetes.io/tls`.
pub const TLS_CRT: &str = "tls.crt";
/// Key of a private key in a Secret of type `kubernetes.io/tls`.
pub const TLS_KEY: &str = "tls.key";
/// Key of the bundle beside the server's certificate.
pub const CA_CRT: &str = "ca.crt";
/// Key of the CAs on their way out, in the CA's Secret.
pub const PREVIOUS_CRT: &str = "previous-ca.crt";
/// Key of the CAs that are trusted of a server whose certificate the operator did not issue, in the
/// CA's Secret.
const TRUSTED_CRT: &str = "trusted-ca.crt";
/// Key of the CAs of others that are on their way out, in the CA's Secret.
const OTHERS_CRT: &str = "others-ca.crt";
/// Key of the time at which the former, or that certificate, changed last.
const CHANGED: &str = "trusted-changed";
/// Most CAs whose fingerprints are told.
const MAX_FINGERPRINTS: usize = 8;

/// The CAs that are trusted of a server whose certificate the operator did not issue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trusted {
    /// One PEM each, those of the wanted certificate first.
    pub cas: Vec<String>,
    /// The time at which they, or the certificate in use, changed last.
    pub changed: Timestamp,
}

/// Everything that the operator issues for one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Material {
    /// The CA that signs.
    pub ca: Option<Pair>,
    /// CAs that still have to be trusted, PEM, newest first.
    pub previous: Vec<String>,
    /// The CAs that are trusted of the server in place of these; absent where the operator issues
    /// its certificate.
    pub trusted: Option<Trusted>,
    /// CAs of others that still have to be trusted of the server, beside those of the operator. A
    /// database never trusts them.
    pub others: Vec<String>,
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
            .filter(|pair| pair.matches() && read_ca(&pair.cert).is_some());
        let signing = pair.as_ref().and_then(|pair| fingerprint_of(&pair.cert));
        let mut previous: Vec<String> = Vec::new();
        let mut seen: Vec<Fingerprint> = signing.into_iter().collect();
        // The server's Secret has a copy for the case that the other one is lost.
        let lost = serving.filter(|_| pair.is_none());
        let kept = |key| text(ca, key).or_else(|| text(lost, key));
        let others = kept(OTHERS_CRT).and_then(|pem| authorities(&pem));
        let others = others.unwrap_or_default();
        let trusted = kept(TRUSTED_CRT).and_then(|pem| {
            let changed = text(ca, CHANGED).and_then(|time| time.parse().ok());
            Some(Trusted {
                cas: authorities(&pem)?,
                changed: changed.unwrap_or_default(),
            })
        });
        let texts = [
            text(ca, PREVIOUS_CRT),
            text(lost, CA_CRT).filter(|_| trusted.is_none()),
        ];
        seen.extend(others.iter().filter_map(|ca| fingerprint_of(ca)));
        for cert in texts.into_iter().flatten().flat_map(|pem| split(&pem)) {
            if let Some(info) = read(&cert).filter(|info| !seen.contains(&info.fingerprint)) {
                seen.push(info.fingerprint);
                previous.push(cert);
            }
        }
        let leaf = serving.and_then(self::pair).filter(Pair::matches);
        Self {
            ca: pair,
            previous,
            trusted,
            others,
            leaf,
            ..Self::default()
        }
    }

    /// Adds the certificates of a database, as they lie in their Secrets. The bundle beside them
    /// keeps a CA trusted whose own Secret was lost.
    #[must_use]
    pub fn with_database(mut self, server: Option<&Secret>, client: Option<&Secret>) -> Self {
        let bundle = text(server, CA_CRT).filter(|_| self.ca.is_none());
        let lost = bundle.and_then(|pem| authorities(&pem)).unwrap_or_default();
        for ca in lost {
            if !self.previous.contains(&ca) {
                self.previous.push(ca);
            }
        }
        Self {
            database_server: server.and_then(pair).filter(Pair::matches),
            database_client: client.and_then(pair).filter(Pair::matches),
            ..self
        }
    }

    /// Returns the bundle for the `APIService`s: those of the certificate of somebody else, or the
    /// signing CA and those on their way out.
    #[must_use]
    pub fn bundle(&self) -> String {
        match &self.trusted {
            Some(trusted) => trusted.cas.concat(),
            None => self.own_bundle() + &self.others.concat(),
        }
    }

    /// Returns the bundle for both ends of a database: the signing CA, then those on their way out.
    fn own_bundle(&self) -> String {
        self.own().concat()
    }

    /// Returns the operator's own CAs, PEM: the signing one, then those on their way out.
    fn own(&self) -> Vec<&str> {
        let signing = self.ca.iter().map(|pair| pair.cert.as_str());
        signing
            .chain(self.previous.iter().map(String::as_str))
            .collect()
    }

    /// Returns the CAs that are trusted of the server, whoever issues its certificate. Since when is
    /// not known of those of the operator, so it counts from now on.
    pub(super) fn trusted(&self, now: Timestamp) -> Trusted {
        self.trusted.clone().unwrap_or_else(|| Trusted {
            cas: authorities(&self.bundle()).unwrap_or_default(),
            changed: now,
        })
    }

    /// Returns the same for an operator that issues the server's certificate itself. What was
    /// trusted until now goes on being so until that is in use. An own CA that was not is replaced,
    /// so that the new one counts as just introduced.
    #[must_use]
    pub(super) fn taken_back(mut self) -> Self {
        let Some(trusted) = self.trusted.take() else {
            return self;
        };
        let known = |pair: &Pair| authorities(&pair.cert).is_some_and(|ca| contains(&trusted, &ca));
        if let Some(unknown) = self.ca.take_if(|pair| !known(pair)) {
            self.previous.insert(0, unknown.cert);
        }
        let own = authorities(&self.own_bundle()).unwrap_or_default();
        let others = trusted.cas.into_iter().filter(|ca| !own.contains(ca));
        self.others = others.collect();
        self
    }

    /// Returns the facts that the plan needs. `published` is the bundle of each `APIService` that
    /// points to the server.
    #[must_use]
    pub fn observe(&self, published: &[Vec<u8>]) -> Observed {
        let bundle = self.bundle();
        let ca = self.ca.as_ref().and_then(|pair| read_ca(&pair.cert));
        let out = self.previous.iter().chain(&self.others);
        let previous: Vec<CaInfo> = out.filter_map(|pem| read(pem)).collect();
        let own = self.own();
        let others = self.others.iter().map(String::as_str);
        let all: Vec<&str> = own.iter().copied().chain(others).collect();
        Observed {
            leaf: self
                .leaf
                .as_ref()
                .and_then(|pair| read_leaf(&pair.cert, &all)),
            database_server: self
                .database_server
                .as_ref()
                .and_then(|pair| read_leaf(&pair.cert, &own)),
            database_client: self
                .database_client
                .as_ref()
                .and_then(|pair| read_client(&pair.cert, &own)),
            published: published.iter().all(|pem| pem == bundle.as_bytes()),
            foreign: self.trusted.is_some(),
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
        if let Some(trusted) = &self.trusted {
            data.insert(CHANGED.to_owned(), bytes(&trusted.changed.to_string()));
        }
        self.note_others(&mut data);
        data
    }

    /// Returns the data of the server's Secret.
    #[must_use]
    pub fn serving_data(&self) -> BTreeMap<String, ByteString> {
        let mut data = with_bundle(self.leaf.as_ref(), &self.bundle());
        self.note_others(&mut data);
        data
    }

    /// Adds the CAs of others.
    fn note_others(&self, data: &mut BTreeMap<String, ByteString>) {
        if let Some(trusted) = &self.trusted {
            data.insert(TRUSTED_CRT.to_owned(), bytes(&trusted.cas.concat()));
        }
        if !self.others.is_empty() {
            data.insert(OTHERS_CRT.to_owned(), bytes(&self.others.concat()));
        }
    }

    /// Returns the data of the Secret with the database's certificate.
    #[must_use]
    pub fn database_server_data(&self) -> BTreeMap<String, ByteString> {
        with_bundle(self.database_server.as_ref(), &self.own_bundle())
    }

    /// Returns the data of the Secret with the certificate by which servers are let in.
    #[must_use]
    pub fn database_client_data(&self) -> BTreeMap<String, ByteString> {
        with_bundle(self.database_client.as_ref(), &self.own_bundle())
    }

    /// Returns the fingerprints of the first trusted CAs, the signing one first.
    #[must_use]
    pub fn ca_fingerprints(&self) -> Vec<Fingerprint> {
        split(&self.bundle())
            .iter()
            .filter_map(|pem| fingerprint_of(pem))
            .take(MAX_FINGERPRINTS)
            .collect()
    }

    /// Returns the beginning and the end of the server's certificate.
    pub(super) fn leaf_validity(&self) -> Option<(Timestamp, Timestamp)> {
        validity_of(&self.leaf.as_ref()?.cert)
    }

    /// Returns the time at which the server's certificate expires.
    #[must_use]
    pub fn leaf_not_after(&self) -> Option<Timestamp> {
        self.leaf_validity().map(|(_, end)| end)
    }
}

/// Returns the data of a Secret with a certificate and the CAs that are trusted beside it.
fn with_bundle(leaf: Option<&Pair>, bundle: &str) -> BTreeMap<String, ByteString> {
    let mut data = leaf.map(data).unwrap_or_default();
    data.insert(CA_CRT.to_owned(), bytes(bundle));
    data
}

/// Returns whether all of `cas` are trusted.
fn contains(trusted: &Trusted, cas: &[String]) -> bool {
    cas.iter().all(|ca| trusted.cas.contains(ca))
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
