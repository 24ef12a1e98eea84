//! Checks of certificates, by `sslmode`.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
};
use rstest::rstest;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::UnixTime;

use super::*;

type Ca = CertifiedIssuer<'static, KeyPair>;

fn ca() -> Ca {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
        .distinguished_name
        .push(DnType::CommonName, "test CA");
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Returns a certificate for these alternative names, else for a common name.
fn leaf(ca: &Ca, names: &[&str], common_name: &str) -> CertificateDer<'static> {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    let key = KeyPair::generate().unwrap();
    params.signed_by(&key, ca).unwrap().der().clone()
}

fn verify(
    mode: SslMode,
    ca: Option<&[u8]>,
    shown: &CertificateDer<'_>,
    host: &str,
) -> Result<(), String> {
    let provider = Arc::new(ring::default_provider());
    let trusted = ca.map(|ca| certificates(key::CA, ca).unwrap());
    let check = check(mode, ca.is_some());
    let verifier = Verifier::new(check, trusted.unwrap_or_default(), &provider).unwrap();
    let host = host.to_owned().try_into().unwrap();
    verifier
        .verify_server_cert(shown, &[], &host, &[], UnixTime::now())
        .map(|_| ())
        .map_err(|error| error.to_string())
}

#[rstest]
#[case::full(SslMode::VerifyFull, "db.example", true)]
#[case::full_other_name(SslMode::VerifyFull, "other.example", false)]
#[case::ca_other_name(SslMode::VerifyCa, "other.example", true)]
#[case::require_with_ca_other_name(SslMode::Require, "other.example", true)]
fn names_count_with_verify_full_only(
    #[case] mode: SslMode,
    #[case] host: &str,
    #[case] expected: bool,
) {
    let ca = ca();
    let shown = leaf(&ca, &["db.example"], "db.example");
    let result = verify(mode, Some(ca.pem().as_bytes()), &shown, host);
    assert_eq!(result.is_ok(), expected, "{result:?}");
}

#[rstest]
#[case(SslMode::VerifyFull)]
#[case(SslMode::VerifyCa)]
#[case(SslMode::Require)]
fn another_ca_is_never_believed(#[case] mode: SslMode) {
    let (ours, other) = (ca(), ca());
    let shown = leaf(&other, &["db.example"], "db.example");
    let error = verify(mode, Some(ours.pem().as_bytes()), &shown, "db.example").unwrap_err();
    assert!(error.contains("invalid peer certificate"), "{error}");
}

#[test]
fn require_without_a_ca_believes_anybody() {
    let shown = leaf(&ca(), &["db.example"], "db.example");
    verify(SslMode::Require, None, &shown, "other.example").unwrap();
}

#[test]
fn without_alternative_names_the_common_name_counts() {
    let ca = ca();
    let shown = leaf(&ca, &[], "db.example");
    let pem = ca.pem();
    verify(
        SslMode::VerifyFull,
        Some(pem.as_bytes()),
        &shown,
        "db.example",
    )
    .unwrap();
    let error = verify(
        SslMode::VerifyFull,
        Some(pem.as_bytes()),
        &shown,
        "other.example",
    )
    .unwrap_err();
    assert!(error.contains("db.example"), "{error}");

    // With alternative names it does not, whatever it says.
    let shown = leaf(&ca, &["other.example"], "db.example");
    verify(
        SslMode::VerifyFull,
        Some(pem.as_bytes()),
        &shown,
        "db.example",
    )
    .unwrap_err();
}

/// A certificate that PostgreSQL's manual makes, which is its own CA.
#[rstest]
#[case::authority(true)]
#[case::plain(false)]
fn a_self_signed_certificate_is_believed_where_it_is_the_ca(#[case] authority: bool) {
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, "db.example");
    if authority {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    }
    let own = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
    let pem = own.pem();
    verify(
        SslMode::VerifyFull,
        Some(pem.as_bytes()),
        own.der(),
        "db.example",
    )
    .unwrap();
    verify(
        SslMode::VerifyFull,
        Some(pem.as_bytes()),
        own.der(),
        "other.example",
    )
    .unwrap_err();
}

#[test]
fn a_self_signed_certificate_that_expired_is_not_believed() {
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, "db.example");
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    let own = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
    let pem = own.pem();
    let error = verify(
        SslMode::VerifyFull,
        Some(pem.as_bytes()),
        own.der(),
        "db.example",
    )
    .unwrap_err();
    assert!(error.contains("expired"), "{error}");
}

#[test]
fn a_key_of_another_certificate_is_refused() {
    let ca = ca();
    let pem = Pem {
        ca: Some(ca.pem().into_bytes()),
        certificate: Some(ca.pem().into_bytes()),
        key: Some(Password::new(KeyPair::generate().unwrap().serialize_pem())),
    };
    let error = client_config(SslMode::VerifyFull, &pem).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("`tls.key` does not match `tls.crt`"),
        "{error}"
    );
}
