use std::collections::BTreeSet;
use std::time::Duration;

use crds::control::{GateSpec, GateState};
use futures::FutureExt;
use serde_json::json;

use crate::harness::*;

const RESOURCE: &str = "policyreports.wgpolicyk8s.io";

#[tokio::test]
async fn a_closed_gate_refuses_everything() {
    let server = Server::start_closed(|_| {}).await;
    let item = format!("{REPORTS}/a");
    for (method, uri) in [
        ("GET", REPORTS.to_owned()),
        ("GET", item.clone()),
        ("GET", format!("{REPORTS}?watch=1")),
        ("POST", REPORTS.to_owned()),
        ("PUT", item.clone()),
        ("PATCH", item.clone()),
        ("DELETE", item),
        ("DELETE", REPORTS.to_owned()),
    ] {
        let answer = server
            .request(method, &uri)
            .json(&report("a"))
            .send()
            .await
            .expect(503);
        assert_eq!(answer.headers["retry-after"], "1", "{method} {uri}");
        assert_eq!(answer.json()["reason"], "ServiceUnavailable");
    }
    server
        .get("/apis/wgpolicyk8s.io/v1alpha2/nothing")
        .await
        .expect(404);
}

#[tokio::test]
async fn requests_wait_at_a_held_gate() {
    let server = Server::start().await;
    server.created("a").await;
    server.set_gate(RESOURCE, GateState::Held).await;
    let item = format!("{REPORTS}/a");
    let requests = [
        server
            .request("PATCH", &item)
            .json(&json!({"metadata": {"labels": {"a": "b"}}}))
            .header("content-type", "application/merge-patch+json")
            .user("somebody"),
        server
            .request("POST", REPORTS)
            .json(&report("b"))
            .user("somebody"),
        // The holder's own writes wait as well.
        server.request("DELETE", &item),
    ];
    let mut waiting: Vec<_> = requests.into_iter().map(|r| Box::pin(r.send())).collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    for request in &mut waiting {
        assert!(request.as_mut().now_or_never().is_none());
    }
    server.set_gate(RESOURCE, GateState::Open).await;
    let mut codes = Vec::new();
    for request in waiting {
        codes.push(request.await.code);
    }
    assert_eq!(codes[1..], [201, 200]);
    assert!(matches!(codes[0], 200 | 404), "{codes:?}");
}

/// Before it was ever open, nobody knows yet what is there to be read.
#[tokio::test]
async fn reads_wait_where_not_all_is_copied() {
    let server = Server::start_closed(|_| {}).await;
    server.set_gate(RESOURCE, GateState::Held).await;
    let list = server.request("GET", REPORTS).user("somebody");
    let mut list = Box::pin(list.send());
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(list.as_mut().now_or_never().is_none());
    server.set_gate(RESOURCE, GateState::Open).await;
    list.await.expect(200);
}

/// A client takes a watch without an answer for one that is lost (Kyverno drops what it would write).
#[tokio::test]
async fn a_watch_is_open_while_its_events_wait() {
    let server = Server::start_closed(|_| {}).await;
    server.set_gate(RESOURCE, GateState::Held).await;
    let open = async || {
        let watch = server
            .request("GET", &format!("{REPORTS}?watch=1"))
            .user("somebody");
        let answered = tokio::time::timeout(Duration::from_secs(1), watch.watch());
        answered.await.expect("the answer has to begin in the hold")
    };
    let mut watch = open().await;
    server.set_gate(RESOURCE, GateState::Open).await;
    let created = server.created("a").await;
    let event = watch.next().await.unwrap();
    assert_eq!(
        (&event["type"], &event["object"]),
        (&json!("ADDED"), &created)
    );

    server.set_gate(RESOURCE, GateState::Closed).await;
    server.set_gate(RESOURCE, GateState::Held).await;
    let mut watch = open().await;
    server.set_gate(RESOURCE, GateState::Closed).await;
    // Nothing was missed: the client asks again where it was.
    assert!(watch.next().await.is_none());
}

#[tokio::test]
async fn a_watch_from_a_version_that_is_gone_is_told_so_after_the_hold() {
    let server = Server::start_closed(|_| {}).await;
    server.set_gate(RESOURCE, GateState::Held).await;
    let watch = server
        .request("GET", &format!("{REPORTS}?watch=1&resourceVersion=1"))
        .user("somebody");
    let mut watch = watch.watch().await;
    let floor = json!({"spec": {"resourceVersion": "900"}});
    server
        .put(&format!("{CONTROL}/{RESOURCE}/floor"), &floor)
        .await
        .expect(200);
    server.set_gate(RESOURCE, GateState::Open).await;
    let event = watch.next().await.unwrap();
    assert_eq!(event["object"]["code"], 410, "{event}");
    assert!(watch.next().await.is_none());
}

/// Cut between the release and the end, and opened again: with the version that it holds its client
/// would be told by the CRD that this is too old.
#[tokio::test]
async fn a_watch_that_resumes_while_its_resource_is_given_back_gets_the_last_bookmark() {
    let server = Server::start().await;
    let seen = server.created("seen").await;
    let missed = server.created("missed").await;
    let last = rv(&missed) + 100;
    server.release(RESOURCE, last).await;

    let uri = format!(
        "{REPORTS}?watch=1&allowWatchBookmarks=true&resourceVersion={}",
        rv(&seen)
    );
    let mut resumed = server.request("GET", &uri).user("somebody").watch().await;
    let event = resumed.next().await.unwrap();
    assert_eq!(event["object"], missed);
    let event = resumed.next().await.unwrap();
    assert_eq!(event["type"], "BOOKMARK");
    assert_eq!(rv(&event["object"]), last);
    // Who has to see all there is goes to the CRD.
    let uri = format!("{REPORTS}?watch=1");
    let mut anew = server.request("GET", &uri).user("somebody").watch().await;
    assert!(anew.next().now_or_never().is_none());
    server.set_gate(RESOURCE, GateState::Closed).await;
    assert!(anew.next().await.is_none());
    while let Some(event) = resumed.next().await {
        assert_eq!(event["type"], "BOOKMARK");
        assert_eq!(rv(&event["object"]), last);
    }
}

#[tokio::test]
async fn a_gate_held_for_too_long_sheds_requests() {
    let server = Server::start().await;
    server.set_gate(RESOURCE, GateState::Held).await;
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    let answer = server
        .request("POST", REPORTS)
        .json(&report("a"))
        .user("somebody")
        .send()
        .await
        .expect(429);
    assert_eq!(began.elapsed().as_secs(), 30);
    assert_eq!(answer.headers["retry-after"], "1");
    assert_eq!(answer.json()["reason"], "TooManyRequests");
}

#[tokio::test]
async fn the_holder_may_look() {
    let server = Server::start().await;
    let created = server.created("a").await;
    server.set_gate(RESOURCE, GateState::Held).await;
    assert_eq!(
        server.get(&format!("{REPORTS}/a")).await.expect(200).json(),
        created
    );
    assert_eq!(names(&server.get(REPORTS).await.expect(200).json()), ["a"]);
}

#[tokio::test]
async fn who_waits_when_a_held_gate_closes_is_asked_to_come_again() {
    let server = Server::start().await;
    server.set_gate(RESOURCE, GateState::Held).await;
    let write = server
        .request("POST", REPORTS)
        .json(&report("a"))
        .user("somebody");
    let mut waiting = Box::pin(write.send());
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(waiting.as_mut().now_or_never().is_none());
    server.set_gate(RESOURCE, GateState::Closed).await;
    assert_eq!(waiting.await.expect(429).headers["retry-after"], "1");
}

#[tokio::test]
async fn gates_of_other_resources_are_their_own() {
    let server = Server::start().await;
    server.set_gate(RESOURCE, GateState::Closed).await;
    server.get(CLUSTER_REPORTS).await.expect(200);
    let mut cluster = report("x");
    cluster["kind"] = json!("ClusterPolicyReport");
    server.post(CLUSTER_REPORTS, &cluster).await.expect(201);
}

/// Who held the requests is dead, or sleeps.
#[tokio::test]
async fn a_hold_on_the_way_back_that_nobody_ends_is_ended() {
    let limit = Duration::from_millis(200);
    let server = Server::start().await;
    let fence = json!({"apiVersion": "control.reports-server.io/v1alpha1", "kind": "Fence"});
    let fence_uri = format!("{CONTROL}/{RESOURCE}/fence");
    let answer = server.post(&fence_uri, &fence).await.expect(201).json();
    let token = answer["status"]["token"].as_u64();
    let hold = |released| GateSpec {
        state: GateState::Held,
        released,
        fence: token,
        ..GateSpec::default()
    };
    server.set_gate_spec(RESOURCE, hold(None)).await;
    let write = server
        .request("POST", REPORTS)
        .json(&report("held"))
        .user("somebody");
    let _ending = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(
        reports_server::holds::end_orphaned(server.store.clone(), limit),
    ));
    // It waits, and is served.
    write.send().await.expect(201);
    // The sleeper wakes up: it may not say that etcd has everything.
    let late = json!({"apiVersion": "control.reports-server.io/v1alpha1", "kind": "Gate",
        "spec": {"state": "Held", "released": true, "fence": token}});
    let refused = server
        .put(&format!("{CONTROL}/{RESOURCE}/gate"), &late)
        .await;
    refused.expect(409);
    server.created("served").await;
}

/// The CRD may serve it by now.
#[tokio::test]
async fn a_hold_is_left_alone_where_etcd_has_everything_or_nothing_was_ever_served() {
    let limit = Duration::from_millis(100);
    let (released, copied) = tokio::join!(Server::start(), Server::start_closed(|_| {}));
    let spec = |released| GateSpec {
        state: GateState::Held,
        released,
        ..GateSpec::default()
    };
    released.set_gate_spec(RESOURCE, spec(None)).await;
    released.set_gate_spec(RESOURCE, spec(Some(true))).await;
    copied.set_gate_spec(RESOURCE, spec(None)).await;
    for server in [&released, &copied] {
        let ending = reports_server::holds::end_orphaned(server.store.clone(), limit);
        let ended = tokio::time::timeout(limit * 5, ending).await;
        assert!(ended.is_err(), "it goes on for ever");
        let gate = server.get(&format!("{CONTROL}/{RESOURCE}/gate")).await;
        assert_eq!(gate.expect(200).json()["spec"]["state"], "Held");
    }
}

#[tokio::test]
async fn writes_of_a_server_that_a_group_was_taken_over_from_are_refused() {
    const PREDECESSOR: &str = "system:serviceaccount:reports-server:reports-server";
    let mut server = Server::start().await;
    server.created("a").await;
    let (refused, users) = tokio::sync::watch::channel(BTreeSet::new());
    server.api = server.api.clone().refusing(users);
    let item = format!("{REPORTS}/a");
    let delete = || server.request("DELETE", &item).user(PREDECESSOR);
    let dry = format!("{item}?dryRun=All");
    server
        .request("DELETE", &dry)
        .user(PREDECESSOR)
        .send()
        .await
        .expect(200);
    refused.send_replace(BTreeSet::from([PREDECESSOR.to_owned()]));
    let answer = delete().send().await.expect(403);
    let message = answer.json()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("taken over from"), "{message}");
    for (method, uri) in [("POST", REPORTS), ("PUT", &item), ("DELETE", REPORTS)] {
        let request = server.request(method, uri).json(&report("a"));
        request.user(PREDECESSOR).send().await.expect(403);
    }
    // What it lists, and what others write, is answered.
    let list = server.request("GET", REPORTS).user(PREDECESSOR);
    list.send().await.expect(200);
    let other = server.request("DELETE", &item).user("somebody");
    other.send().await.expect(200);
}
