//! Certificates of somebody else, as they are found in the namespace.

use std::time::Duration;

use crds::v1alpha1::reasons;
use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::certs::given::Values;
use crate::certs::given::tests::secret;
use crate::controller::fixtures::{material, object, read};
use crate::controller::found::Inside;
use crate::controller::validate::validate;

const HOST: &str = "simple-server.target.svc";

fn found(certificate: Option<Values>, in_use: bool) -> Dereferenced {
    let serving = ServingFound {
        certificate,
        ..ServingFound::default()
    };
    let mut inside = Inside {
        serving,
        ..Inside::default()
    };
    if in_use {
        inside.material = material();
    }
    Dereferenced {
        now: now(),
        inside,
        ..read()
    }
}

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn provided() -> serde_json::Value {
    json!({"tls": {"mode": "Provided", "provided": {"secretRef": {"name": "theirs"}}}})
}

#[test]
fn without_a_certificate_to_begin_with_the_specification_is_refused() {
    let refused = validate(&object(provided()), &found(None, false)).unwrap_err();
    assert_eq!(refused.refusal.reason, reasons::SECRET_MISSING);
    let start = "spec.tls.provided.secretRef: Secret target/theirs does not exist";
    assert!(refused.refusal.message.starts_with(start));
    let spec = refused.spec.unwrap();
    let watched = Watched::Secret("theirs".into());
    assert!(spec.origin.watched().contains(&watched), "it is looked for");
}

#[test]
fn where_one_is_in_use_everything_else_is_carried_out() {
    let spec = validate(&object(provided()), &found(None, true)).unwrap();
    let problem = spec.certs.serving.unwrap().unwrap_err();
    assert_eq!(problem.reason, reasons::SECRET_MISSING);
}

#[test]
fn a_certificate_must_be_for_the_service() {
    let day = Duration::from_hours(24);
    for (host, fits) in [(HOST, true), ("simple-server.other.svc", false)] {
        let certificate = Some(secret(host, now(), day));
        let valid = validate(&object(provided()), &found(certificate, false));
        assert_eq!(valid.is_ok(), fits, "{host}: {valid:?}");
    }
}

#[test]
fn the_authorities_may_be_in_a_secret_of_their_own() {
    let day = Duration::from_hours(24);
    let mut spec = provided();
    spec["tls"]["provided"]["caSecretRef"] = json!({"name": "roots"});
    let mut certificate = secret(HOST, now(), day);
    let ca = certificate.remove(crate::certs::CA_CRT).unwrap();
    let mut read = found(Some(certificate), false);
    let refused = validate(&object(spec.clone()), &read).unwrap_err();
    let start = "spec.tls.provided.caSecretRef: Secret target/roots does not exist";
    assert!(refused.refusal.message.starts_with(start));
    let roots = Values::from([(crate::certs::CA_CRT.to_owned(), ca)]);
    read.inside.serving.ca = Some(roots);
    let valid = validate(&object(spec), &read).unwrap();
    assert!(valid.certs.serving.unwrap().is_ok());
    assert_eq!(valid.origin.watched().len(), 2);
}

fn by_cert_manager() -> serde_json::Value {
    json!({"tls": {"mode": "CertManager", "certManager": {"issuerRef": {"name": "ca"}}}})
}

fn told(crd: bool, certificate: Option<(bool, &str)>) -> cert_manager::Found {
    let observed = certificate.map(|(ready, words)| Observed {
        ready,
        words: words.to_owned(),
    });
    cert_manager::Found {
        crd,
        certificate: observed,
    }
}

#[test]
fn without_cert_manager_the_specification_is_refused_and_its_crd_is_waited_for() {
    let mut read = found(None, false);
    read.inside.serving.cert_manager = Some(told(false, None));
    let refused = validate(&object(by_cert_manager()), &read).unwrap_err();
    assert_eq!(refused.refusal.reason, reasons::CERT_MANAGER_MISSING);
    let message = &refused.refusal.message;
    assert!(
        message.contains("certificates.cert-manager.io"),
        "{message}"
    );
    let watched = refused.spec.unwrap().origin.watched();
    assert!(watched.contains(&Watched::Crd(cert_manager::CRD.to_owned())));
    assert!(watched.contains(&Watched::Certificate("simple-server".into())));
    assert!(watched.contains(&Watched::Secret("simple-issued-cert".into())));
}

#[test]
fn what_cert_manager_says_is_waited_for_in_its_words() {
    for certificate in [None, Some((false, "no such issuer"))] {
        let mut read = found(None, false);
        read.inside.serving.cert_manager = Some(told(true, certificate));
        let spec = validate(&object(by_cert_manager()), &read).unwrap();
        assert!(spec.certificate.is_some(), "it is made");
        let problem = spec.certs.serving.unwrap().unwrap_err();
        assert_eq!(problem.reason, reasons::CERTIFICATE_NOT_READY);
        assert!(problem.waiting);
        let words = certificate.map_or("is being created", |(_, words)| words);
        assert!(problem.message.contains(words), "{problem:?}");
    }
}

#[test]
fn an_issued_certificate_is_used_also_where_the_next_one_fails() {
    let day = Duration::from_hours(24);
    for (crd, certificate, note) in [
        (true, Some((true, "")), None),
        (
            true,
            Some((false, "no such issuer")),
            Some("no such issuer"),
        ),
        (false, None, Some("there is no CRD")),
    ] {
        let mut read = found(Some(secret(HOST, now(), day)), false);
        read.inside.serving.cert_manager = Some(told(crd, certificate));
        let spec = validate(&object(by_cert_manager()), &read).unwrap();
        let given = spec.certs.serving.unwrap().unwrap();
        let told = given.note.as_deref();
        assert_eq!(told.is_some(), note.is_some(), "{told:?}");
        assert!(told.unwrap_or_default().contains(note.unwrap_or_default()));
        let left = given.not_after.duration_since(given.due);
        assert!(left.as_hours() < 5, "cert-manager comes first: {left}");
    }
}

#[test]
fn an_issuer_without_authorities_needs_a_reference() {
    let mut certificate = secret(HOST, now(), Duration::from_hours(24));
    certificate.remove(crate::certs::CA_CRT);
    let mut read = found(Some(certificate), false);
    read.inside.serving.cert_manager = Some(told(true, Some((true, ""))));
    let refused = validate(&object(by_cert_manager()), &read).unwrap_err();
    assert_eq!(refused.refusal.reason, reasons::SECRET_KEY_MISSING);
    let message = &refused.refusal.message;
    assert!(message.contains("caSecretRef"), "{message}");
}
