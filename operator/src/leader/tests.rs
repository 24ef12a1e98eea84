//! The election against a fake API server, and the rules of the Lease.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::testing::{Server, pair};

fn record(holder: &str) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: Some(15),
        lease_transitions: Some(3),
        acquire_time: Some(MicroTime(Timestamp::UNIX_EPOCH)),
        renew_time: Some(MicroTime(Timestamp::UNIX_EPOCH)),
        ..LeaseSpec::default()
    }
}

#[rstest]
#[case::free("", 0, true)]
#[case::own("me", 0, true)]
#[case::held("other", 14, false)]
#[case::expired("other", 15, true)]
fn claims_only_what_is_free(#[case] holder: &str, #[case] seen: u64, #[case] expected: bool) {
    let unchanged = Duration::from_secs(seen);
    assert_eq!(may_claim(Some(&record(holder)), "me", unchanged), expected);
}

#[tokio::test]
async fn a_lease_is_short_while_requests_are_held() {
    let (holder, holding) = watch::channel(None);
    let config = Config {
        holding: Some(holding),
        ..Config::new("ns", "lease", "me")
    };
    let seconds = || {
        let record = claim(None, "me", config.times(), Timestamp::UNIX_EPOCH);
        record.lease_duration_seconds
    };
    assert_eq!(seconds(), Some(15));
    tokio::join!(config.changed(config.times()), async {
        holder.send_replace(Some("g.io".to_owned()));
    });
    assert_eq!(seconds(), Some(8));
    // A change that came during an attempt is not missed.
    config
        .changed(Config::new("ns", "lease", "me").times())
        .await;
}

#[test]
fn a_renewal_keeps_the_time_of_acquisition_and_a_takeover_counts() {
    let times = Config::new("ns", "lease", "me").times();
    let now = Timestamp::from_second(1_000).unwrap();
    let renewed = claim(Some(&record("me")), "me", times, now);
    assert_eq!(renewed.acquire_time, Some(MicroTime(Timestamp::UNIX_EPOCH)));
    assert_eq!(renewed.lease_transitions, Some(3));
    let taken = claim(Some(&record("other")), "me", times, now);
    assert_eq!(taken.acquire_time, Some(MicroTime(now)));
    assert_eq!(taken.lease_transitions, Some(4));
}

fn start(release: CancellationToken) -> (Candidate, Server) {
    let (client, server) = pair();
    let config = Config {
        renew_deadline: Duration::from_millis(200),
        retry_period: Duration::from_millis(10),
        ..Config::new("ns", "lease", "me")
    };
    (campaign(client, config, release), server)
}

fn lease(version: &str, holder: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "lease", "namespace": "ns", "resourceVersion": version},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15},
    })
}

#[tokio::test]
async fn leads_after_creating_the_lease_and_releases_it_on_request() {
    let release = CancellationToken::new();
    let (mut candidate, mut server) = start(release.clone());
    let read = server.next().await;
    assert_eq!(read.method, "GET");
    read.refuse(404, "NotFound");
    let create = server.next().await;
    assert_eq!(create.method, "POST");
    assert_eq!(create.body["spec"]["holderIdentity"], "me");
    release.cancel();
    assert!(candidate.term.is_over(), "it leads already");
    create.answer(201, &lease("1", "me"));
    let give_up = server.next().await;
    assert!(candidate.term.is_over(), "it writes when it gives up");
    assert_eq!(give_up.method, "PUT");
    assert_eq!(give_up.body["spec"]["holderIdentity"], "");
    assert_eq!(give_up.body["metadata"]["resourceVersion"], "1");
    give_up.answer(200, &lease("2", ""));
    candidate.task.await.unwrap().unwrap();
    assert!(!*candidate.leading.borrow_and_update());
}

#[tokio::test]
async fn waits_while_another_holds_the_lease_and_gets_a_conflict_when_too_late() {
    let release = CancellationToken::new();
    let (candidate, mut server) = start(release.clone());
    server.next().await.answer(200, &lease("1", "other"));
    // Held by another: no write follows, the next request is a read again.
    let read = server.next().await;
    assert_eq!(read.method, "GET");
    read.answer(200, &lease("2", ""));
    let take = server.next().await;
    assert_eq!(take.method, "PUT");
    assert_eq!(take.body["metadata"]["resourceVersion"], "2");
    take.refuse(409, "Conflict");
    let read = server.next().await;
    assert_eq!(read.method, "GET");
    assert!(!*candidate.leading.borrow());
    release.cancel();
    read.answer(200, &lease("3", "other"));
    candidate.task.await.unwrap().unwrap();
}

#[tokio::test]
async fn stops_leading_when_renewals_fail_for_the_deadline() {
    let (mut candidate, mut server) = start(CancellationToken::new());
    server.next().await.answer(200, &lease("1", ""));
    server.next().await.answer(200, &lease("2", "me"));
    candidate
        .leading
        .wait_for(|leading| *leading)
        .await
        .unwrap();
    let refuse = tokio::spawn(async move { server.refuse_all(500, "InternalError").await });
    let ended = tokio::time::timeout(Duration::from_secs(10), &mut candidate.task).await;
    assert!(matches!(ended.unwrap().unwrap(), Err(Error::Lost(_))));
    assert!(!*candidate.leading.borrow());
    assert!(candidate.term.is_over());
    refuse.abort();
}

/// Others count from the last renewal that they saw, however late the leader tries again.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_begins_late_does_not_prolong_the_term() {
    let (client, mut server) = pair();
    let config = Config::new("ns", "lease", "me");
    let Candidate { term, task, .. } = campaign(client, config, CancellationToken::new());
    server.next().await.answer(200, &lease("1", ""));
    let began = Instant::now();
    server.next().await.answer(200, &lease("2", "me"));
    let renewal = server.next().await;
    assert!(!term.is_over());
    renewal.refuse(500, "InternalError");
    while began.elapsed() < Duration::from_secs(5) {
        server.next().await.refuse(500, "InternalError");
    }
    // The next attempt has no answer.
    let _unanswered = server.next().await;
    let ended = task.await.unwrap();
    assert!(matches!(ended, Err(Error::Lost(_))));
    assert!(term.is_over());
    let led = began.elapsed();
    assert!(led <= Duration::from_millis(10_100), "{led:?}");
}

/// The record in the cluster says for how long others wait, whatever holds from now on.
#[tokio::test(start_paused = true)]
async fn a_short_lease_stays_short_until_a_longer_one_is_written() {
    let (client, mut server) = pair();
    let (holder, holding) = watch::channel(Some("g.io".to_owned()));
    let config = Config {
        holding: Some(holding),
        ..Config::new("ns", "lease", "me")
    };
    let Candidate { task, .. } = campaign(client, config, CancellationToken::new());
    server.next().await.answer(200, &lease("1", ""));
    let began = Instant::now();
    let take = server.next().await;
    assert_eq!(take.body["spec"]["leaseDurationSeconds"], 8);
    take.answer(200, &lease("2", "me"));
    holder.send_replace(None);
    let _unanswered = server.next().await;
    let ended = task.await.unwrap();
    assert!(matches!(ended, Err(Error::Lost(_))));
    let term = began.elapsed();
    assert!(term <= Duration::from_millis(7_100), "{term:?}");
}

#[tokio::test]
async fn stops_leading_at_once_when_another_has_taken_over() {
    let (mut candidate, mut server) = start(CancellationToken::new());
    server.next().await.answer(200, &lease("1", ""));
    server.next().await.answer(200, &lease("2", "me"));
    server.next().await.answer(200, &lease("3", "other"));
    let ended = tokio::time::timeout(Duration::from_secs(10), &mut candidate.task).await;
    assert!(matches!(ended.unwrap().unwrap(), Err(Error::Lost(_))));
    assert!(!*candidate.leading.borrow_and_update());
}
