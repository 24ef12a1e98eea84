//! The answers to clients when the store does not keep up, or is gone.

use crds::control::GateState;
use serde_json::json;
use storage::store::QueueLimits;

use crate::harness::*;

#[tokio::test]
async fn an_overloaded_store_sheds_writes() {
    let limits = QueueLimits {
        writes: 2,
        ..QueueLimits::default()
    };
    let server = Server::start_closed(|options| options.queue = limits).await;
    server
        .set_gate("policyreports.wgpolicyk8s.io", GateState::Open)
        .await;
    let objects: Vec<_> = (0..64).map(|i| report(&format!("r{i}"))).collect();
    let answers = futures::future::join_all(objects.iter().map(|o| server.post(REPORTS, o))).await;
    let shed: Vec<_> = answers.iter().filter(|a| a.code != 201).collect();
    assert!(
        !shed.is_empty(),
        "64 writes at once do not fit into a queue of 2"
    );
    for answer in shed {
        assert_eq!(answer.code, 429, "{}", answer.text());
        assert!(answer.headers.contains_key("retry-after"));
        assert_eq!(answer.json()["reason"], "TooManyRequests");
    }
    let stored = names(&server.get(REPORTS).await.expect(200).json()).len();
    assert_eq!(stored, answers.iter().filter(|a| a.code == 201).count());
}

#[tokio::test]
async fn a_store_that_is_gone_refuses_writes_and_still_reads() {
    let server = Server::start().await;
    let created = server.created("a").await;
    server.store.close().await;
    let item = format!("{REPORTS}/a");
    let patch = json!({"metadata": {"labels": {"x": "y"}}});
    for answer in [
        server.post(REPORTS, &report("b")).await,
        server.merge_patch(&item, &patch).await,
        server.delete(&item).await,
        server.delete(REPORTS).await,
    ] {
        let answer = answer.expect(503);
        assert!(answer.headers.contains_key("retry-after"));
        assert_eq!(answer.json()["reason"], "ServiceUnavailable");
    }
    let any = server
        .get(&format!("{item}?resourceVersion=0"))
        .await
        .expect(200)
        .json();
    assert_eq!(any, created);
}
