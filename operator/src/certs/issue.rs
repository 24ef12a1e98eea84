//! The issue of certificates: the one place that makes keys.

use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};

use super::pair::Pair;
use super::time::{minus, plus};

/// The time before its issue from which on a certificate is valid, for clocks that run behind.
pub const BACKDATE: Duration = Duration::from_mins(5);

/// Issues a self-signed CA. Its common name carries the time of issue, so that a verifier which
/// trusts two of ours never tries the wrong one.
///
/// # Errors
/// If the key or the certificate cannot be made.
pub fn ca(name: &str, now: Timestamp, validity: Duration) -> Result<Pair, rcgen::Error> {
    let mut params = params(
        &format!("{name} CA {}", now.as_second()),
        now,
        plus(now, validity),
    );
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate()?;
    let cert = params.self_signed(&key)?;
    Ok(Pair {
        cert: cert.pem().replace('\r', ""),
        key: key.serialize_pem(),
    })
}

/// Issues the certificate of a TLS server for `dns_names` (at least one). It ends with its CA at
/// the latest, which is at `ca_not_after`.
///
/// # Errors
/// If the CA cannot sign, or a name is not a DNS name.
pub fn leaf(
    ca: &Pair,
    ca_not_after: Timestamp,
    dns_names: &[String],
    now: Timestamp,
    validity: Duration,
) -> Result<Pair, rcgen::Error> {
    let not_after = plus(now, validity).min(ca_not_after);
    let common_name = dns_names.first().map_or("reports-server", String::as_str);
    let mut params = params(&bounded(common_name), now, not_after);
    params.subject_alt_names = CertificateParams::new(dns_names)?.subject_alt_names;
    signed(ca, params, ExtendedKeyUsagePurpose::ServerAuth)
}

/// Issues the certificate of a TLS client whose common name is `role`. It ends with its CA at the
/// latest, which is at `ca_not_after`.
///
/// # Errors
/// If the CA cannot sign.
pub fn client(
    ca: &Pair,
    ca_not_after: Timestamp,
    role: &str,
    now: Timestamp,
    validity: Duration,
) -> Result<Pair, rcgen::Error> {
    let not_after = plus(now, validity).min(ca_not_after);
    let params = params(&bounded(role), now, not_after);
    signed(ca, params, ExtendedKeyUsagePurpose::ClientAuth)
}

/// Lifetime of a certificate that signs itself.
pub const SELF_SIGNED_VALIDITY: Duration = Duration::from_hours(90 * 24);

/// Issues the certificate of a TLS server for `dns_names` (at least one) that signs itself, for clients
/// that know it or do not verify it. Returns also the time at which another one should take its place:
/// after two thirds of its lifetime.
///
/// # Errors
/// If the key or the certificate cannot be made, or a name is not a DNS name.
pub fn self_signed(
    dns_names: &[String],
    now: Timestamp,
    validity: Duration,
) -> Result<(Pair, Timestamp), rcgen::Error> {
    let common_name = dns_names.first().map_or("reports-server", String::as_str);
    let mut params = params(&bounded(common_name), now, plus(now, validity));
    params.subject_alt_names = CertificateParams::new(dns_names)?.subject_alt_names;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let cert = params.self_signed(&key)?;
    let pair = Pair {
        cert: cert.pem().replace('\r', ""),
        key: key.serialize_pem(),
    };
    Ok((pair, plus(now, validity * 2 / 3)))
}

fn signed(
    ca: &Pair,
    mut params: CertificateParams,
    usage: ExtendedKeyUsagePurpose,
) -> Result<Pair, rcgen::Error> {
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    params.use_authority_key_identifier_extension = true;
    let issuer = Issuer::from_ca_cert_pem(&ca.cert, KeyPair::from_pem(&ca.key)?)?;
    let key = KeyPair::generate()?;
    let cert = params.signed_by(&key, &issuer)?;
    Ok(Pair {
        cert: cert.pem().replace('\r', ""),
        key: key.serialize_pem(),
    })
}

fn params(common_name: &str, now: Timestamp, not_after: Timestamp) -> CertificateParams {
    let mut params = CertificateParams::default();
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, common_name);
    params.distinguished_name = subject;
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + since_epoch(minus(now, BACKDATE));
    params.not_after = epoch + since_epoch(not_after);
    params
}

/// Returns the time since the epoch in whole seconds, which is what certificates know.
fn since_epoch(time: Timestamp) -> Duration {
    Duration::from_secs(u64::try_from(time.as_second()).unwrap_or(0))
}

/// Returns the first 64 characters of a name: a common name has no more (RFC 5280,
/// `ub-common-name`).
fn bounded(name: &str) -> String {
    name.chars().take(64).collect()
}
