//! The certificate authority of servers and database is replaced while clients write and watch. With
//! `E2E_FULL` only: every step waits until the kubelet has certainly brought the last one.

use std::time::Duration;

use crate::common::faults::{self, kubectl, under_load_within};
use crate::common::{full, options, say};
use crds::v1alpha1::ReportsServer;
use crds::v1alpha1::status::TlsPhase;
use e2e::takeover::{Database, NAME, Takeover, is_ready};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use testreports::Input;

const LIMIT: Duration = Duration::from_mins(5);

/// A step of the replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// The old authority is the only one.
    Before,
    /// Both are trusted, and the servers show certificates of the old one.
    Overlap,
    /// Both are trusted, and the servers show certificates of the new one.
    Retiring,
    /// The new one is the only one.
    After,
}

/// The authorities that are trusted, and the phase of their replacement.
fn authorities(server: &ReportsServer) -> (&[String], Option<TlsPhase>) {
    let status = server.status.as_ref();
    let tls = status.and_then(|status| status.tls.as_ref());
    tls.map_or((&[], None), |tls| (&tls.ca_fingerprints, tls.phase))
}

fn step(server: &ReportsServer, before: &[String]) -> Step {
    match authorities(server) {
        (trusted, _) if trusted.is_empty() || trusted == before => Step::Before,
        ([_, _], Some(TlsPhase::Overlap)) => Step::Overlap,
        ([_], Some(TlsPhase::Stable)) => Step::After,
        _ => Step::Retiring,
    }
}

/// Follows until a step is reached; one may pass while pods start.
async fn reach(line: &Takeover, wanted: Step, before: &[String]) {
    let what = format!("{wanted:?}");
    line.follow(&what, LIMIT, |server| step(server, before) >= wanted)
        .await
        .unwrap();
}

/// The operator replaces the authority step by step, for the APIs and for both ends of the
/// database. Servers that start in the middle or afterwards, whose connections are all new, can
/// verify whom they meet, and are let in.
async fn the_certificate_authority_is_replaced(line: &Takeover) {
    let servers: Api<ReportsServer> = Api::all(line.client.clone());
    // With lifetimes as they are by default, the middle takes an hour each time; with these, a minute
    // and a half, in which the kubelet of the tests brings a changed Secret into a pod several times.
    let patch = json!({"spec": {"tls": {"operator": {
        "caValidity": "24h", "certValidity": "9m", "renewBefore": "1m"}}}});
    servers
        .patch(NAME, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    line.follow("a settled beginning", LIMIT, is_ready)
        .await
        .unwrap();
    let before = servers.get(NAME).await.unwrap();
    let before = authorities(&before).0.to_vec();
    assert_eq!(before.len(), 1);
    let deployment = faults::servers(line).await;
    let replaced = Box::pin(async {
        kubectl(line, &["delete", "secret", &format!("{NAME}-ca")]).await;
        for wanted in [Step::Overlap, Step::Retiring, Step::After] {
            reach(line, wanted, &before).await;
            faults::roll(line, &deployment).await;
        }
    });
    let limit = Duration::from_mins(10);
    let what = "the certificate authority is replaced";
    let account = under_load_within(limit, line, what, replaced).await;
    assert!(account.is_clean(), "{account:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_authority_of_a_managed_database_is_replaced() {
    if !full() {
        say("left out: the replacement takes five minutes, with E2E_FULL only");
        return;
    }
    let mut options = options(Input::Generated { seed: 13 }, 300);
    options.database = Database::Managed;
    let line = Takeover::prepare(options, say).await.unwrap();
    line.install_operator().await.unwrap();
    line.apply().await.unwrap();
    line.follow_to_ready(LIMIT).await.unwrap();
    Box::pin(the_certificate_authority_is_replaced(&line)).await;
}
