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

/// Answers a look for leaders of other installations.
async fn look(server: &mut Server, leases: &[Value]) {
    let list = server.next().await;
    assert!(
        list.path
            .starts_with("/apis/coordination.k8s.io/v1/leases?")
            && list.path.contains("metadata.name%3Dlease"),
        "{}",
        list.path
    );
    list.answer(200, &self::leases(leases));
}

fn leases(items: &[Value]) -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "LeaseList", "metadata": {},
        "items": items})
}

/// Has the candidate find the Lease free, take it, and see no other leader.
async fn elect(server: &mut Server) {
    server.next().await.answer(200, &lease("1", ""));
    look(server, &[]).await;
    server.next().await.answer(200, &lease("2", "me"));
    look(server, &[lease("2", "me")]).await;
}

#[tokio::test]
async fn leads_after_creating_the_lease_and_releases_it_on_request() {
    let release = CancellationToken::new();
    let (mut candidate, mut server) = start(release.clone());
    let read = server.next().await;
    assert_eq!(read.method, "GET");
    read.refuse(404, "NotFound");
    look(&mut server, &[]).await;
    let create = server.next().await;
    assert_eq!(create.method, "POST");
    assert_eq!(create.body["spec"]["holderIdentity"], "me");
    let account = &create.body["metadata"]["annotations"][ANNOTATION_OPERATOR_ACCOUNT];
    assert_eq!(account, "lease");
    create.answer(201, &lease("1", "me"));
    release.cancel();
    assert!(candidate.term.is_over(), "it leads already");
    look(&mut server, &[lease("1", "me")]).await;
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
    assert!(*candidate.ready.borrow());
    read.answer(200, &lease("2", ""));
    look(&mut server, &[]).await;
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
    elect(&mut server).await;
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
    let began = Instant::now();
    elect(&mut server).await;
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
    look(&mut server, &[]).await;
    let began = Instant::now();
    let take = server.next().await;
    assert_eq!(take.body["spec"]["leaseDurationSeconds"], 8);
    take.answer(200, &lease("2", "me"));
    look(&mut server, &[]).await;
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
    elect(&mut server).await;
    server.next().await.answer(200, &lease("3", "other"));
    let ended = tokio::time::timeout(Duration::from_secs(10), &mut candidate.task).await;
    assert!(matches!(ended.unwrap().unwrap(), Err(Error::Lost(_))));
    assert!(!*candidate.leading.borrow_and_update());
}

/// Returns the Lease of another installation.
fn other(version: &str) -> Value {
    let mut other = lease(version, "another");
    other["metadata"]["namespace"] = json!("elsewhere");
    other["metadata"]["annotations"] = json!({ANNOTATION_OPERATOR_ACCOUNT: "account"});
    other["spec"]["leaseTransitions"] = json!(version.parse::<i32>().unwrap());
    other
}

/// Answers the question whether the other installation's account is an operator's.
async fn judge(server: &mut Server, allowed: bool) {
    let review = server.next().await;
    let spec = &review.body["spec"];
    assert_eq!(spec["user"], "system:serviceaccount:elsewhere:account");
    let attributes = json!({"group": "reports-server.io", "resource": "reportsservers",
        "subresource": "status", "verb": "patch"});
    assert_eq!(spec["resourceAttributes"], attributes);
    let answer = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "metadata": {}, "spec": spec, "status": {"allowed": allowed}});
    review.answer(201, &answer);
}

#[tokio::test]
async fn waits_while_an_operator_leads_in_another_namespace() {
    let (mut candidate, mut server) = start(CancellationToken::new());
    server.next().await.answer(200, &lease("1", ""));
    look(&mut server, &[other("1")]).await;
    judge(&mut server, true).await;
    // It is uninstalled.
    server.next().await.answer(200, &lease("1", ""));
    assert!(!*candidate.ready.borrow());
    look(&mut server, &[]).await;
    let take = server.next().await;
    assert!(*candidate.ready.borrow());
    take.answer(200, &lease("2", "me"));
    look(&mut server, &[lease("2", "me")]).await;
    candidate.leading.wait_for(|leads| *leads).await.unwrap();
}

/// Whoever may make Leases somewhere does not stop operators by one of that name.
#[tokio::test]
async fn a_lease_of_somebody_without_the_rights_of_an_operator_counts_for_nothing() {
    let (mut candidate, mut server) = start(CancellationToken::new());
    server.next().await.answer(200, &lease("1", ""));
    look(&mut server, &[other("1")]).await;
    judge(&mut server, false).await;
    server.next().await.answer(200, &lease("2", "me"));
    let list = server.next().await;
    list.refuse(403, "Forbidden");
    candidate.leading.wait_for(|leads| *leads).await.unwrap();
}

#[tokio::test]
async fn of_two_that_claim_at_once_the_one_that_sees_the_other_lets_go() {
    let (candidate, mut server) = start(CancellationToken::new());
    server.next().await.answer(200, &lease("1", ""));
    look(&mut server, &[]).await;
    server.next().await.answer(200, &lease("2", "me"));
    look(&mut server, &[other("1")]).await;
    judge(&mut server, true).await;
    let give_up = server.next().await;
    assert_eq!(give_up.method, "PUT");
    assert_eq!(give_up.body["spec"]["holderIdentity"], "");
    assert!(!*candidate.leading.borrow());
    assert!(candidate.term.is_over());
}

#[tokio::test(start_paused = true)]
async fn what_is_not_renewed_is_waited_for_no_longer_than_it_lasts() {
    let (client, mut server) = pair();
    let config = Config::new("ns", "lease", "me");
    let mut candidate = campaign(client, config, CancellationToken::new());
    let mut first = None;
    loop {
        server.next().await.answer(200, &lease("1", ""));
        look(&mut server, &[other("1")]).await;
        if first.get_or_insert_with(Instant::now).elapsed() >= Duration::from_secs(15) {
            break;
        }
        judge(&mut server, true).await;
    }
    server.next().await.answer(200, &lease("2", "me"));
    look(&mut server, &[other("1")]).await;
    candidate.leading.wait_for(|leads| *leads).await.unwrap();
}

/// One that leads gives way to another only when it has seen that one renew its Lease.
#[tokio::test(start_paused = true)]
async fn a_leader_beside_another_ends() {
    let (client, mut server) = pair();
    let config = Config::new("ns", "lease", "me");
    let mut candidate = campaign(client, config, CancellationToken::new());
    elect(&mut server).await;
    candidate.leading.wait_for(|leads| *leads).await.unwrap();
    let mut looks = 0;
    let ended = loop {
        tokio::select! {
            biased;
            ended = &mut candidate.task => break ended.unwrap(),
            request = server.next() => match request.method.as_str() {
                "GET" if request.path.contains("/namespaces/") => request.answer(200, &lease("2", "me")),
                "GET" => {
                    looks += 1;
                    let others = [other(if looks < 3 { "1" } else { "2" })];
                    request.answer(200, &leases(&others));
                }
                "POST" => request.answer(201, &json!({"apiVersion": "authorization.k8s.io/v1",
                    "kind": "SubjectAccessReview", "metadata": {}, "spec": {},
                    "status": {"allowed": true}})),
                _ => request.answer(200, &lease("2", "me")),
            },
        }
    };
    assert!(matches!(ended, Err(Error::Rival(namespace)) if namespace == "elsewhere"));
    assert_eq!(looks, 3);
    assert!(candidate.term.is_over());
}
