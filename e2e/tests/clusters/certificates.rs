//! Serving certificates that the operator does not issue: by cert-manager, for which a signer of the
//! test stands, and by the user; wrong ones on the way. A witness writes and watches all the time:
//! no request may fail, whichever certificate is shown.

use std::time::Duration;

use crate::common::faults::under_load_within;
use crate::common::{full, options, say};
use crds::names;
use crds::v1alpha1::spec::TlsMode;
use crds::v1alpha1::status::{TlsPhase, TlsStatus};
use crds::v1alpha1::{ReportsServer, conditions, reasons};
use e2e::signer::{self, Authority, Certificate, Issued};
use e2e::takeover::{NAME, TARGET_NAMESPACE, Takeover, is_ready};
use serde_json::{Value, json};
use testreports::Input;

const LIMIT: Duration = Duration::from_mins(5);
const REPORTS: usize = 200;
/// So the waits between the moves are 50 and 100 seconds.
const VALIDITY: Duration = Duration::from_mins(9);
/// Name of the user's Secret.
const SECRET: &str = "theirs";

fn tls(server: &ReportsServer) -> Option<&TlsStatus> {
    server.status.as_ref()?.tls.as_ref()
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

    async fn authorities(&self) -> Vec<String> {
        let servers = kube::Api::<ReportsServer>::all(self.line.client.clone());
        let server = servers.get(NAME).await.unwrap();
        tls(&server).unwrap().ca_fingerprints.clone()
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
    let end = |server: &ReportsServer| tls(server).and_then(|tls| tls.not_after.clone());
    let servers = kube::Api::<ReportsServer>::all(ground.line.client.clone());
    let first = end(&servers.get(NAME).await.unwrap());
    certificate.sign(authority, VALIDITY).await.unwrap();
    ground
        .follow("another certificate", |server| {
            end(server).map(|end| end.0) > first.as_ref().map(|first| first.0)
        })
        .await;
    assert_eq!(ground.authorities().await, before);
    let other = Authority::new("another").unwrap();
    certificate.sign(&other, VALIDITY).await.unwrap();
    ground.settles(TlsMode::CertManager, &before).await;
}

/// Wrong Secrets are named, and what is in use stays; a good one is used.
async fn the_user_takes_over(ground: &Ground) {
    let before = ground.authorities().await;
    let authority = Authority::new("theirs").unwrap();
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

/// The user brings a certificate of another authority, and then leaves it to the operator again.
async fn the_user_rotates_and_gives_back(ground: &Ground) {
    let before = ground.authorities().await;
    let other = Authority::new("theirs, too").unwrap();
    ground.store(&other.issue(&host(), VALIDITY).unwrap()).await;
    let before = ground.settles(TlsMode::Provided, &before).await;
    let lifetimes = json!({"caValidity": "24h", "certValidity": "9m", "renewBefore": "1m"});
    ground
        .set(json!({"mode": "Operator", "provided": null, "operator": lifetimes}))
        .await;
    ground.settles(TlsMode::Operator, &before).await;
    ground.follow("everything ready", is_ready).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_issues_the_certificate_no_request_fails() {
    let ground = Box::pin(Ground::start()).await;
    let authority = Authority::new("cert-manager").unwrap();
    let steps = Box::pin(async {
        let certificate = cert_manager_takes_over(&ground, &authority).await;
        if full() {
            cert_manager_rotates(&ground, &certificate, &authority).await;
        } else {
            say("left out: rotations of certificates of others, with E2E_FULL only");
        }
        the_user_takes_over(&ground).await;
        assert!(!certificate.exists().await.unwrap(), "asked for by nobody");
        if full() {
            the_user_rotates_and_gives_back(&ground).await;
        }
    });
    let limit = Duration::from_mins(30);
    let what = "certificates of cert-manager and of the user";
    let account = under_load_within(limit, &ground.line, what, steps).await;
    assert!(account.is_clean(), "{account:#?}");
}
