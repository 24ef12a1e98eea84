//! Serving certificates that the operator does not issue: by cert-manager, for which a signer of the
//! test stands, and by the user; wrong ones on the way. A witness writes and watches all the time:
//! no request may fail, whichever certificate is shown.

use std::time::Duration;

use crate::common::faults::{kubectl, under_load_within};
use crate::common::{full, options, say};
use crds::names;
use crds::v1alpha1::spec::TlsMode;
use crds::v1alpha1::status::{TlsPhase, TlsStatus};
use crds::v1alpha1::{ReportsServer, conditions, reasons};
use e2e::signer::{self, Authority, Certificate, Issued};
use e2e::takeover::{NAME, TARGET_NAMESPACE, Takeover, is_ready};
use jiff::Timestamp;
use serde_json::{Value, json};
use testreports::Input;

const LIMIT: Duration = Duration::from_mins(5);
/// Time until the operator has renewed a certificate of [`VALIDITY`] by itself, and some more.
const RENEWAL: Duration = Duration::from_mins(11);
const REPORTS: usize = 200;
/// So the waits between the moves are 50 and 100 seconds.
const VALIDITY: Duration = Duration::from_mins(9);
/// Name of the user's Secret.
const SECRET: &str = "theirs";

fn tls(server: &ReportsServer) -> Option<&TlsStatus> {
    server.status.as_ref()?.tls.as_ref()
}

/// Returns the time at which the certificate in use ends.
fn end(server: &ReportsServer) -> Option<Timestamp> {
    tls(server)?.not_after.as_ref().map(|end| end.0)
}

fn told(server: &ReportsServer, type_: &str, reason: &str, words: &str) -> bool {
    let status = server.status.as_ref();
    let conditions = status.map(|status| &status.conditions[..]);
    let found = conditions.unwrap_or_default();
    let found = found.iter().find(|condition| condition.type_ == type_);
    found.is_some_and(|found| found.reason == reason && found.message.contains(words))
}

/// Returns whether a certificate of this issuer by another authority than `before` is in use; with
/// `E2E_FULL` also, whether no other authority is trusted than it needs.
fn settled(server: &ReportsServer, issuer: TlsMode, before: &[String]) -> bool {
    tls(server).is_some_and(|tls| {
        let over = match tls.phase {
            Some(TlsPhase::Stable) => tls.ca_fingerprints.len() == 1,
            Some(TlsPhase::Retiring) => !full(),
            _ => false,
        };
        over && tls.issuer == Some(issuer) && tls.ca_fingerprints.first() != before.first()
    })
}

struct Ground {
    line: Takeover,
}

impl Ground {
    async fn start() -> Self {
        let line = Takeover::prepare(options(Input::Generated { seed: 17 }, REPORTS), say).await;
        let line = line.unwrap();
        line.install_operator().await.unwrap();
        line.apply().await.unwrap();
        line.follow_to_ready(LIMIT).await.unwrap();
        Self { line }
    }

    async fn set(&self, tls: Value) {
        self.line.patch_spec(json!({ "tls": tls })).await.unwrap();
    }

    async fn follow(&self, what: &str, wanted: impl Fn(&ReportsServer) -> bool) {
        self.line.follow(what, LIMIT, wanted).await.unwrap();
    }

    /// Does something, and waits until the certificate in use ends later than before, by the same
    /// authority.
    async fn renews(&self, limit: Duration, cause: impl Future<Output = ()>) {
        let (authorities, first) = (self.authorities().await, end(&self.server().await));
        cause.await;
        let renewed = |server: &ReportsServer| end(server) > first;
        self.line
            .follow("another certificate", limit, renewed)
            .await
            .unwrap();
        assert_eq!(self.authorities().await, authorities);
    }

    /// Waits until a condition has this reason and these words.
    async fn hears(&self, type_: &str, reason: &str, words: &str) {
        self.follow(reason, |server| told(server, type_, reason, words))
            .await;
    }

    /// Waits until a certificate of this issuer is in use, by another authority than `before`;
    /// returns the authority.
    async fn settles(&self, issuer: TlsMode, before: &[String]) -> Vec<String> {
        let what = format!("{issuer:?}");
        self.follow(&what, |server| settled(server, issuer, before))
            .await;
        self.authorities().await
    }

    async fn server(&self) -> ReportsServer {
        let servers = kube::Api::<ReportsServer>::all(self.line.client.clone());
        servers.get(NAME).await.unwrap()
    }

    async fn authorities(&self) -> Vec<String> {
        tls(&self.server().await).unwrap().ca_fingerprints.clone()
    }

    async fn store(&self, issued: &Issued) {
        signer::store(&self.line.client, TARGET_NAMESPACE, SECRET, issued)
            .await
            .unwrap();
    }
}

fn host() -> Vec<String> {
    vec![format!("{}.{TARGET_NAMESPACE}.svc", names::server(NAME))]
}

/// Without its CRD, while it says why not, and when it has issued.
async fn cert_manager_takes_over(ground: &Ground, authority: &Authority) -> Certificate {
    let before = ground.authorities().await;
    let issuer = json!({"issuerRef": {"name": "tests", "kind": "ClusterIssuer"}});
    ground
        .set(json!({"mode": "CertManager", "certManager": issuer}))
        .await;
    let missing = reasons::CERT_MANAGER_MISSING;
    ground
        .hears(conditions::STALLED, missing, signer::CRD)
        .await;
    signer::install(&ground.line.client).await.unwrap();
    let name = names::server(NAME);
    let asked = Certificate::asked_for(&ground.line.client, TARGET_NAMESPACE, &name);
    let certificate = asked.await.unwrap();
    certificate
        .refuse("the issuer is on holiday")
        .await
        .unwrap();
    let unready = reasons::CERTIFICATE_NOT_READY;
    let ready = conditions::CERTIFICATES_READY;
    ground.hears(ready, unready, "on holiday").await;
    certificate.sign(authority, VALIDITY).await.unwrap();
    ground.settles(TlsMode::CertManager, &before).await;
    ground.follow("everything ready", is_ready).await;
    certificate
}

/// Another certificate of the same authority, and one of another.
async fn cert_manager_rotates(ground: &Ground, certificate: &Certificate, authority: &Authority) {
    let before = ground.authorities().await;
    let signed = async { certificate.sign(authority, VALIDITY).await.unwrap() };
    ground.renews(LIMIT, signed).await;
    let other = Authority::new("another").unwrap();
    certificate.sign(&other, VALIDITY).await.unwrap();
    ground.settles(TlsMode::CertManager, &before).await;
}

/// Wrong Secrets are named, and what is in use stays; a good one is used.
async fn the_user_takes_over(ground: &Ground, authority: &Authority) {
    let before = ground.authorities().await;
    let good = authority.issue(&host(), VALIDITY).unwrap();
    let wrong_key = Issued {
        key: authority.issue(&host(), VALIDITY).unwrap().key,
        ..good.clone()
    };
    ground.store(&wrong_key).await;
    let provided = json!({"secretRef": {"name": SECRET}});
    ground
        .set(json!({"mode": "Provided", "provided": provided, "certManager": null}))
        .await;
    let invalid = reasons::CERTIFICATE_INVALID;
    let (stalled, ready) = (conditions::STALLED, conditions::CERTIFICATES_READY);
    ground
        .hears(stalled, invalid, "tls.key does not belong")
        .await;
    let other = ["other.example".to_owned()];
    let wrong_name = authority.issue(&other, VALIDITY).unwrap();
    ground.store(&wrong_name).await;
    ground.hears(ready, invalid, "is for other.example").await;
    assert_eq!(ground.authorities().await, before);
    ground.store(&good).await;
    ground.settles(TlsMode::Provided, &before).await;
    ground.follow("everything ready", is_ready).await;
}

/// The user brings another certificate of the same authority, and one of another.
async fn the_user_rotates(ground: &Ground, authority: &Authority) {
    let again = authority.issue(&host(), VALIDITY).unwrap();
    ground.renews(LIMIT, ground.store(&again)).await;
    let before = ground.authorities().await;
    let other = Authority::new("theirs, too").unwrap();
    ground.store(&other.issue(&host(), VALIDITY).unwrap()).await;
    ground.settles(TlsMode::Provided, &before).await;
}

/// The user leaves it to the operator, which renews its certificate when the time has come, and makes
/// another authority when its own is deleted.
async fn the_operator_takes_over_and_rotates(ground: &Ground) {
    let before = ground.authorities().await;
    let lifetimes = json!({"caValidity": "24h", "certValidity": "9m", "renewBefore": "1m"});
    ground
        .set(json!({"mode": "Operator", "provided": null, "operator": lifetimes}))
        .await;
    let before = ground.settles(TlsMode::Operator, &before).await;
    ground.follow("everything ready", is_ready).await;
    ground.renews(RENEWAL, async {}).await;
    kubectl(&ground.line, &["delete", "secret", &names::ca(NAME)]).await;
    ground.settles(TlsMode::Operator, &before).await;
    ground.follow("everything ready", is_ready).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_issues_the_certificate_no_request_fails() {
    let ground = Box::pin(Ground::start()).await;
    let [signer, theirs] = ["cert-manager", "theirs"].map(|name| Authority::new(name).unwrap());
    let steps = Box::pin(async {
        let certificate = cert_manager_takes_over(&ground, &signer).await;
        if full() {
            cert_manager_rotates(&ground, &certificate, &signer).await;
        } else {
            say("left out: two rotations of each mode, with E2E_FULL only");
        }
        the_user_takes_over(&ground, &theirs).await;
        assert!(!certificate.exists().await.unwrap(), "asked for by nobody");
        if full() {
            the_user_rotates(&ground, &theirs).await;
            the_operator_takes_over_and_rotates(&ground).await;
        }
    });
    let limit = Duration::from_mins(45);
    let what = "certificates of cert-manager, of the user and of the operator";
    let account = under_load_within(limit, &ground.line, what, steps).await;
    assert!(account.is_clean(), "{account:#?}");
}
