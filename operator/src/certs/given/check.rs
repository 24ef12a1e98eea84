//! The check whether a certificate can be used.

use std::fmt::Display;
use std::time::Duration;

use crds::v1alpha1::reasons;
use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::prelude::*;

use super::facts::{Given, Problem, Values};
use crate::certs::material::{CA_CRT, TLS_CRT, TLS_KEY};
use crate::certs::pair::Pair;
use crate::certs::time::{between, minus};
use crate::certs::x509::{authorities, dns_names, is_for, is_key, verify};

/// A Secret that is a part of a certificate.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The field that names it.
    pub field: &'a str,
    /// The namespace of the Secret.
    pub namespace: &'a str,
    /// The name of the Secret.
    pub name: &'a str,
    /// The content of the Secret; none where it is missing.
    pub values: Option<&'a Values>,
}

impl Part<'_> {
    fn text(&self, key: &str) -> Result<String, Problem> {
        let Some(values) = self.values else {
            let message = format!("{}: create it", self.told("does not exist"));
            return Err(Problem::new(reasons::SECRET_MISSING, message));
        };
        let Some(value) = values.get(key).filter(|value| !value.is_empty()) else {
            let message = self.told(format_args!("has no key {key}"));
            return Err(Problem::new(reasons::SECRET_KEY_MISSING, message));
        };
        String::from_utf8(value.clone()).map_err(|_| self.wrong(key, "is not PEM"))
    }

    fn told(&self, what: impl Display) -> String {
        let Self {
            field,
            namespace,
            name,
            values: _,
        } = self;
        format!("{field}: Secret {namespace}/{name} {what}")
    }

    fn wrong(&self, key: &str, what: impl Display) -> Problem {
        let message = self.told(format_args!("cannot be used: {key} {what}"));
        Problem::new(reasons::CERTIFICATE_INVALID, message)
    }
}

/// Checks a certificate that is to be shown under the name `host`. `ca` is the Secret with the
/// authorities; `renew_before` is the time before its end at which another one is asked for, a third
/// of its lifetime where nothing is said.
///
/// # Errors
/// [`Problem`] names what is wrong with it.
pub fn check(
    certificate: &Part<'_>,
    ca: &Part<'_>,
    host: &str,
    renew_before: Option<Duration>,
    now: Timestamp,
) -> Result<Given, Problem> {
    let pair = Pair {
        cert: certificate.text(TLS_CRT)?,
        key: certificate.text(TLS_KEY)?,
    };
    let bundle = ca.text(CA_CRT)?;
    let chain = chain(&pair.cert).ok_or_else(|| {
        certificate.wrong(TLS_CRT, "holds something that is no certificate in PEM")
    })?;
    let Some(leaf) = chain.first() else {
        return Err(certificate.wrong(TLS_CRT, "holds no certificate in PEM"));
    };
    let (_, leaf) = X509Certificate::from_der(leaf)
        .map_err(|error| certificate.wrong(TLS_CRT, format_args!("cannot be read: {error}")))?;
    if !is_key(&pair.key) {
        let what = "is no private key in PEM (RSA, ECDSA P-256 or P-384, or Ed25519)";
        return Err(certificate.wrong(TLS_KEY, what));
    }
    if !pair.matches() {
        let what = format!("does not belong to the certificate in {TLS_CRT}");
        return Err(certificate.wrong(TLS_KEY, what));
    }
    let cas = authorities(&bundle)
        .filter(|cas| !cas.is_empty())
        .ok_or_else(|| ca.wrong(CA_CRT, "holds no certificates, or one that cannot be read"))?;
    let (not_before, not_after) = validity(certificate, &leaf, now)?;
    fits(certificate, &leaf, host)?;
    verify(&chain, &cas, host, now).map_err(|error| {
        let what = format!(
            "does not lead to an authority in {CA_CRT} of Secret {}/{} (are intermediate \
             certificates missing?): {error}",
            ca.namespace, ca.name
        );
        certificate.wrong(TLS_CRT, what)
    })?;
    let lifetime = between(not_before, not_after);
    Ok(Given {
        due: minus(not_after, renew_before.unwrap_or(lifetime / 3)),
        pair,
        cas,
        not_before,
        not_after,
        note: None,
    })
}

/// Returns all certificates of a PEM text; none where one cannot be read.
fn chain(pem: &str) -> Option<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .ok()
}

/// Returns the beginning and the end of a certificate that is valid now.
fn validity(
    part: &Part<'_>,
    leaf: &X509Certificate<'_>,
    now: Timestamp,
) -> Result<(Timestamp, Timestamp), Problem> {
    let validity = leaf.validity();
    let read = |seconds: i64| {
        Timestamp::from_second(seconds)
            .map_err(|_| part.wrong(TLS_CRT, "has a validity that cannot be read"))
    };
    let begin = read(validity.not_before.timestamp())?;
    let end = read(validity.not_after.timestamp())?;
    if now < begin {
        return Err(part.wrong(TLS_CRT, format_args!("is not valid before {begin}")));
    }
    if now >= end {
        let message = part.told(format_args!(
            "cannot be used: {TLS_CRT} expired at {end}; put another certificate there"
        ));
        return Err(Problem::new(reasons::CERTIFICATE_EXPIRED, message));
    }
    Ok((begin, end))
}

/// Makes sure that the certificate is that of a TLS server of this name.
fn fits(part: &Part<'_>, leaf: &X509Certificate<'_>, host: &str) -> Result<(), Problem> {
    let names = dns_names(leaf);
    if !names.iter().any(|name| is_for(name, host)) {
        let has = if names.is_empty() {
            "has no DNS name".to_owned()
        } else {
            format!("is for {}", names.join(", "))
        };
        let what = format!("{has}; its subject alternative names must have {host}");
        return Err(part.wrong(TLS_CRT, what));
    }
    let usage = leaf.extended_key_usage().ok().flatten();
    if usage.is_some_and(|usage| !usage.value.server_auth) {
        let what = "is not for TLS servers: its extended key usage must have serverAuth";
        return Err(part.wrong(TLS_CRT, what));
    }
    Ok(())
}
