//! Certificates that can and that cannot be used, and their way to the server.

use std::time::Duration;

use crds::v1alpha1::reasons;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use proptest::prelude::*;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use rstest::rstest;

use super::*;
use crate::certs::time::{minus, plus};
use crate::certs::x509::{authorities, is_trusted};
use crate::certs::{
    CA_CRT, Error, Material, Outcome, Pair, Phase, Policy, TLS_CRT, TLS_KEY, issue, reconcile,
};

const DAY: Duration = Duration::from_hours(24);
const HOUR: Duration = Duration::from_hours(1);
const HOST: &str = "a-server.ns.svc";

fn t0() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

/// Returns the Secret of a certificate by a new authority, as a user would make it.
pub(crate) fn secret(host: &str, now: Timestamp, validity: Duration) -> Values {
    let ca = issue::ca("theirs", now, 365 * DAY).unwrap();
    secret_by(&ca, host, now, validity)
}

fn secret_by(ca: &Pair, host: &str, now: Timestamp, validity: Duration) -> Values {
    let end = plus(now, 365 * DAY);
    let leaf = issue::leaf(ca, end, &[host.to_owned()], now, validity).unwrap();
    values(&leaf, &ca.cert)
}

fn values(leaf: &Pair, ca: &str) -> Values {
    Values::from([
        (TLS_CRT.to_owned(), leaf.cert.clone().into_bytes()),
        (TLS_KEY.to_owned(), leaf.key.clone().into_bytes()),
        (CA_CRT.to_owned(), ca.to_owned().into_bytes()),
    ])
}

fn checked(values: Option<&Values>, now: Timestamp) -> Result<Given, Problem> {
    let part = Part {
        field: "spec.tls.provided.secretRef",
        namespace: "ns",
        name: "theirs",
        values,
    };
    check(&part, &part, HOST, None, now)
}

fn given(values: &Values, now: Timestamp) -> Given {
    checked(Some(values), now).unwrap()
}

#[test]
fn a_certificate_that_fits_is_taken_with_a_third_of_its_life_to_replace_it() {
    let found = given(&secret(HOST, t0(), 90 * DAY), t0());
    assert_eq!(found.cas.len(), 1);
    assert_eq!(found.not_after, plus(t0(), 90 * DAY));
    let third = (90 * DAY + issue::BACKDATE) / 3;
    assert_eq!(found.due, minus(found.not_after, third));
}

#[test]
fn a_wildcard_covers_the_name_and_a_bundle_may_have_comments() {
    let mut values = secret("*.ns.svc", t0(), DAY);
    let ca = String::from_utf8(values[CA_CRT].clone()).unwrap();
    let noisy = format!("# theirs\n{}\n# again\n{ca}", ca.replace('\n', "\r\n"));
    values.insert(CA_CRT.into(), noisy.into_bytes());
    assert_eq!(given(&values, t0()).cas, [ca]);
}

#[rstest]
#[case::no_certificate(TLS_CRT, None, reasons::SECRET_KEY_MISSING, "has no key tls.crt")]
#[case::no_key(TLS_KEY, None, reasons::SECRET_KEY_MISSING, "has no key tls.key")]
#[case::no_ca(CA_CRT, Some(""), reasons::SECRET_KEY_MISSING, "has no key ca.crt")]
#[case::garbage(
    TLS_CRT,
    Some("x"),
    reasons::CERTIFICATE_INVALID,
    "tls.crt holds no certificate"
)]
#[case::no_pem_key(
    TLS_KEY,
    Some("x"),
    reasons::CERTIFICATE_INVALID,
    "tls.key is no private key"
)]
#[case::no_pem_ca(
    CA_CRT,
    Some("x"),
    reasons::CERTIFICATE_INVALID,
    "ca.crt holds no certificates"
)]
fn a_key_of_the_secret_that_cannot_be_used_is_named(
    #[case] key: &str,
    #[case] value: Option<&str>,
    #[case] reason: &str,
    #[case] words: &str,
) {
    let mut values = secret(HOST, t0(), DAY);
    values.remove(key);
    if let Some(value) = value {
        values.insert(key.to_owned(), value.as_bytes().to_vec());
    }
    let problem = checked(Some(&values), t0()).unwrap_err();
    assert_eq!(problem.reason, reason, "{problem:?}");
    let start = "spec.tls.provided.secretRef: Secret ns/theirs ";
    assert!(problem.message.starts_with(start), "{problem:?}");
    assert!(problem.message.contains(words), "{problem:?}");
}

#[test]
fn a_secret_that_is_missing_is_named() {
    let problem = checked(None, t0()).unwrap_err();
    assert_eq!(problem.reason, reasons::SECRET_MISSING);
    assert!(problem.message.contains("ns/theirs does not exist"));
}

fn wrong_key() -> Values {
    let mut values = secret(HOST, t0(), DAY);
    let other = KeyPair::generate().unwrap().serialize_pem();
    values.insert(TLS_KEY.to_owned(), other.into_bytes());
    values
}

fn wrong_ca() -> Values {
    let mut values = secret(HOST, t0(), DAY);
    let other = issue::ca("other", t0(), DAY).unwrap();
    values.insert(CA_CRT.to_owned(), other.cert.into_bytes());
    values
}

fn wrong_usage() -> Values {
    let ca = issue::ca("theirs", t0(), 365 * DAY).unwrap();
    let mut params = CertificateParams::new([HOST.to_owned()]).unwrap();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    values(&signed(&ca, params), &ca.cert)
}

/// Returns a certificate that is valid now and for a day.
fn signed(ca: &Pair, mut params: CertificateParams) -> Pair {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let second = u64::try_from(t0().as_second()).unwrap();
    params.not_before = epoch + Duration::from_secs(second - 300);
    params.not_after = epoch + Duration::from_secs(second) + DAY;
    let key = KeyPair::from_pem(&ca.key).unwrap();
    let issuer = Issuer::from_ca_cert_pem(&ca.cert, key).unwrap();
    let key = KeyPair::generate().unwrap();
    Pair {
        cert: params.signed_by(&key, &issuer).unwrap().pem(),
        key: key.serialize_pem(),
    }
}

#[rstest]
#[case::key(wrong_key(), "tls.key does not belong to the certificate in tls.crt")]
#[case::name(
    secret("b-server.ns.svc", t0(), DAY),
    "tls.crt is for b-server.ns.svc; its subject alternative names must have a-server.ns.svc"
)]
#[case::authority(wrong_ca(), "tls.crt does not lead to an authority in ca.crt")]
#[case::usage(wrong_usage(), "extended key usage must have serverAuth")]
#[case::early(secret(HOST, plus(t0(), DAY), DAY), "tls.crt is not valid before")]
fn a_certificate_that_clients_would_refuse_is_refused(#[case] values: Values, #[case] words: &str) {
    let problem = checked(Some(&values), t0()).unwrap_err();
    assert_eq!(problem.reason, reasons::CERTIFICATE_INVALID, "{problem:?}");
    assert!(problem.message.contains(words), "{problem:?}");
    assert!(!problem.waiting);
}

#[test]
fn an_expired_certificate_says_when() {
    let values = secret(HOST, t0(), DAY);
    let problem = checked(Some(&values), plus(t0(), DAY)).unwrap_err();
    assert_eq!(problem.reason, reasons::CERTIFICATE_EXPIRED);
    let end = plus(t0(), DAY).to_string();
    assert!(problem.message.contains(&end), "{problem:?}");
}

#[test]
fn intermediate_certificates_are_needed_and_used() {
    let root = issue_root();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
        .distinguished_name
        .push(DnType::CommonName, "intermediate");
    let between = signed(&root, params);
    let leaf = signed(&between, CertificateParams::new([HOST.to_owned()]).unwrap());
    let problem = checked(Some(&values(&leaf, &root.cert)), t0()).unwrap_err();
    assert!(problem.message.contains("intermediate"), "{problem:?}");
    let whole = Pair {
        cert: format!("{}{}", leaf.cert, between.cert),
        ..leaf
    };
    let found = given(&values(&whole, &root.cert), t0());
    assert_eq!(found.pair, whole);
    // Also when the operator takes over from it, it is known to be trusted.
    let outcome = pass(t0(), Material::default(), &[], &with(Some(Ok(found)))).unwrap();
    let observed = outcome.material.taken_back().observe(&[]);
    assert!(observed.leaf.unwrap().issuer.is_some());
}

/// Returns an authority that may sign others, other than those of the operator.
fn issue_root() -> Pair {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "root");
    let key = KeyPair::generate().unwrap();
    Pair {
        cert: params.self_signed(&key).unwrap().pem(),
        key: key.serialize_pem(),
    }
}

fn with(serving: Option<Result<Given, Problem>>) -> Policy {
    Policy {
        ca_validity: 365 * DAY,
        cert_validity: 90 * DAY,
        renew_before: 30 * DAY,
        dns_names: vec![HOST.to_owned()],
        database: None,
        serving,
    }
}

/// Makes every move, and takes what is there through the Secrets, as the next look does.
fn pass(
    now: Timestamp,
    material: Material,
    published: &[Vec<u8>],
    policy: &Policy,
) -> Result<Outcome, Error> {
    let outcome = reconcile("a", now, material, published, policy)?;
    let of = |data| Secret {
        data: Some(data),
        ..Secret::default()
    };
    let (ca, serving) = (
        of(outcome.material.ca_data()),
        of(outcome.material.serving_data()),
    );
    let read = Material::from_secrets(Some(&ca), Some(&serving));
    assert_eq!(read, outcome.material, "everything is in the Secrets");
    Ok(outcome)
}

/// A kube-apiserver that hears of a bundle at once, and a pod that shows a certificate at once.
struct World {
    now: Timestamp,
    material: Material,
    published: Vec<Vec<u8>>,
}

impl World {
    /// Begins with a server of the operator's own.
    fn new() -> Self {
        let outcome = pass(t0(), Material::default(), &[], &with(None)).unwrap();
        Self {
            now: plus(t0(), HOUR),
            published: vec![outcome.material.bundle().into_bytes()],
            material: outcome.material,
        }
    }

    /// Looks, and then publishes. Whatever is shown was trusted before it was, and is after it.
    fn look(&mut self, policy: &Policy) -> Outcome {
        let material = self.material.clone();
        let outcome = pass(self.now, material, &self.published, policy).unwrap();
        let leaf = outcome.material.leaf.clone().unwrap();
        let now = outcome.material.bundle();
        for bundle in [String::from_utf8(self.published[0].clone()).unwrap(), now] {
            let cas = authorities(&bundle).unwrap();
            let trusted = is_trusted(&leaf.cert, &cas, self.now);
            assert!(trusted, "at {}: {outcome:?}", self.now);
        }
        self.published = vec![outcome.material.bundle().into_bytes()];
        self.material = outcome.material.clone();
        outcome
    }

    /// Looks whenever it is asked for, for a time.
    fn run(&mut self, policy: &Policy, time: Duration) -> Vec<Phase> {
        let end = plus(self.now, time);
        let mut phases = Vec::new();
        loop {
            let outcome = self.look(policy);
            phases.push(outcome.phase);
            assert!(phases.len() < 40, "it comes to rest: {phases:?}");
            // A change of an APIService is a reason to look, too.
            let soon = plus(self.now, Duration::from_secs(1));
            let next = if outcome.given.is_empty() && outcome.moves.is_empty() {
                outcome.next
            } else {
                soon
            };
            if next > end {
                self.now = end;
                return phases;
            }
            self.now = next.max(soon);
        }
    }

    fn shows(&self) -> Pair {
        self.material.leaf.clone().unwrap()
    }
}

#[test]
fn the_first_certificate_of_a_new_server_is_used_at_once() {
    let theirs = given(&secret(HOST, t0(), 90 * DAY), t0());
    let outcome = pass(
        t0(),
        Material::default(),
        &[],
        &with(Some(Ok(theirs.clone()))),
    )
    .unwrap();
    assert_eq!(outcome.material.leaf, Some(theirs.pair));
    assert_eq!(outcome.material.bundle(), theirs.cas.concat());
    assert_eq!(outcome.phase, Phase::Stable);
    assert!(outcome.material.ca.is_some(), "for a database");
    assert_eq!(outcome.next, theirs.due);
}

#[test]
fn from_the_operator_to_a_user_to_another_and_back_everybody_trusts_what_is_shown() {
    let mut world = World::new();
    let own = world.shows();
    let first = given(&secret(HOST, t0(), 90 * DAY), world.now);
    let policy = with(Some(Ok(first.clone())));
    let phases = world.run(&policy, 2 * HOUR);
    assert_eq!(phases.first(), Some(&Phase::Overlap), "{phases:?}");
    assert!(phases.contains(&Phase::Retiring), "{phases:?}");
    assert_eq!(phases.last(), Some(&Phase::Stable));
    assert_eq!(world.shows(), first.pair);
    assert_eq!(world.material.bundle(), first.cas.concat());

    let second = given(&secret(HOST, t0(), 60 * DAY), world.now);
    world.run(&with(Some(Ok(second.clone()))), 2 * HOUR);
    assert_eq!(world.shows(), second.pair);
    assert_eq!(world.material.bundle(), second.cas.concat());

    let phases = world.run(&with(None), 2 * HOUR);
    assert!(phases.contains(&Phase::Overlap), "{phases:?}");
    assert_eq!(phases.last(), Some(&Phase::Stable));
    assert_ne!(world.shows(), own);
    assert_eq!(world.material.trusted, None);
    assert!(!world.material.bundle().contains(&second.cas[0]));
}

#[test]
fn another_certificate_of_the_same_authority_needs_no_wait() {
    let mut world = World::new();
    let ca = issue::ca("theirs", t0(), 365 * DAY).unwrap();
    let first = given(&secret_by(&ca, HOST, t0(), 90 * DAY), world.now);
    world.run(&with(Some(Ok(first))), 2 * HOUR);
    let second = given(&secret_by(&ca, HOST, world.now, 90 * DAY), world.now);
    let outcome = world.look(&with(Some(Ok(second.clone()))));
    assert_eq!(outcome.given, [Move::Use]);
    assert_eq!(world.shows(), second.pair);
}

#[test]
fn one_that_cannot_be_used_leaves_the_last_good_one_until_its_end_is_near() {
    let mut world = World::new();
    let good = given(&secret(HOST, t0(), 10 * DAY), world.now);
    world.run(&with(Some(Ok(good.clone()))), 2 * HOUR);
    let problem = checked(Some(&wrong_key()), t0()).unwrap_err();
    let bad = with(Some(Err(problem.clone())));
    let outcome = world.look(&bad);
    assert_eq!(outcome.problem, Some(problem));
    assert_eq!(world.shows(), good.pair);
    assert_eq!(outcome.next, minus(good.not_after, HOUR));
    world.run(&bad, 11 * DAY);
    assert_ne!(world.shows(), good.pair, "the operator's own is shown");
}

#[test]
fn a_wrong_secret_from_the_beginning_leaves_the_operators_own_in_charge() {
    let mut world = World::new();
    let own = world.shows();
    let problem = checked(None, t0()).unwrap_err();
    let outcome = world.look(&with(Some(Err(problem.clone()))));
    assert_eq!(outcome.problem, Some(problem));
    assert_eq!(world.shows(), own);
    assert_eq!(world.material.trusted, None);
}

#[test]
fn the_end_of_a_certificate_is_told_beforehand() {
    let theirs = given(&secret(HOST, t0(), 90 * DAY), t0());
    let policy = with(Some(Ok(theirs.clone())));
    let early = pass(t0(), Material::default(), &[], &policy).unwrap();
    assert!(!early.expiring);
    let late = pass(theirs.due, early.material, &[], &policy).unwrap();
    assert!(late.expiring);
    assert_eq!(late.next, theirs.not_after);
}

#[test]
fn a_database_never_trusts_the_authority_of_somebody_else() {
    let mut world = World::new();
    let theirs = given(&secret(HOST, t0(), 90 * DAY), world.now);
    let ca = &theirs.cas[0];
    let policies = [with(Some(Ok(theirs.clone()))), with(None)];
    for policy in &policies {
        for _ in 0..3 {
            world.look(policy);
            assert!(world.material.bundle().contains(ca), "the server does");
            let data = world.material.database_server_data();
            let bundle = String::from_utf8(data[CA_CRT].0.clone()).unwrap();
            assert!(!bundle.is_empty() && !bundle.contains(ca));
            world.now = plus(world.now, Duration::from_mins(2));
        }
    }
}

#[test]
fn what_is_trusted_survives_the_loss_of_the_operators_own_authority() {
    let mut world = World::new();
    let theirs = given(&secret(HOST, t0(), 90 * DAY), world.now);
    world.run(&with(Some(Ok(theirs.clone()))), 2 * HOUR);
    let of = |data| Secret {
        data: Some(data),
        ..Secret::default()
    };
    let serving = of(world.material.serving_data());
    let database = of(world.material.database_server_data());
    let own = world.material.ca.clone().unwrap();
    let found = Material::from_secrets(None, Some(&serving));
    let found = found.with_database(Some(&database), None);
    assert_eq!(found.trusted.as_ref().unwrap().cas, theirs.cas);
    assert_eq!(found.previous, [own.cert]);
    world.material = found;
    let outcome = world.look(&with(Some(Ok(theirs))));
    assert!(outcome.given.is_empty(), "{outcome:?}");
}

/// The longest time for which a pod may show a certificate that was replaced.
const LAG: Duration = Duration::from_mins(59);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// For any order of issuers, and with pods that are an hour behind, whatever is shown is trusted.
    #[test]
    fn whoever_comes_next_nobody_meets_a_certificate_that_it_cannot_verify(
        acts in prop::collection::vec((0_usize..5, 0_u64..5400), 1..24),
    ) {
        let mut world = World::new();
        let theirs = [1, 2, 3].map(|_| secret(HOST, t0(), 90 * DAY));
        let problem = checked(None, t0()).unwrap_err();
        // Certificates that were replaced, and until when one may be shown.
        let mut replaced: Vec<(Timestamp, Pair)> = Vec::new();
        for (issuer, seconds) in acts {
            let serving = match issuer {
                0 => None,
                1 => Some(Err(problem.clone())),
                other => Some(Ok(given(&theirs[other - 2], world.now))),
            };
            let before = world.shows();
            world.look(&with(serving));
            if world.shows() != before {
                replaced.push((plus(world.now, LAG), before));
            }
            replaced.retain(|(until, _)| world.now < *until);
            let bundle = authorities(&world.material.bundle()).unwrap();
            for (_, pair) in &replaced {
                prop_assert!(is_trusted(&pair.cert, &bundle, world.now));
            }
            world.now = plus(world.now, Duration::from_secs(seconds));
        }
    }
}
