use std::collections::BTreeSet;

use serde_json::json;
use tokio::sync::watch;

use crate::harness::*;

const PREDECESSOR: &str = "system:serviceaccount:reports-server:reports-server";

/// It copies what it sees in a watch, and spins when one ends with 410.
#[tokio::test]
async fn a_server_that_the_group_was_taken_over_from_lists_and_no_more() {
    let mut server = Server::start().await;
    let refused = watch::Sender::new(BTreeSet::from([PREDECESSOR.to_owned()]));
    server.api = server.api.clone().refusing(refused.subscribe());
    let created = server.created("a").await;
    let item = format!("{REPORTS}/a");
    let resumed = format!("{REPORTS}?watch=1&resourceVersion={}", rv(&created));
    for uri in [&*resumed, &format!("{REPORTS}?watch=1&resourceVersion=1")] {
        let answer = server.request("GET", uri).user(PREDECESSOR).send().await;
        let answer = answer.expect(429);
        assert_eq!(answer.headers["retry-after"], "60");
        assert!(answer.message().contains("was taken over from"));
    }
    for (method, uri) in [("PUT", &*item), ("DELETE", &item), ("POST", REPORTS)] {
        let write = server.request(method, uri).json(&created).user(PREDECESSOR);
        let answer = write.send().await.expect(403);
        assert!(answer.message().contains("may not write to it"), "{method}");
    }
    for uri in [&*item, REPORTS] {
        let read = server.request("GET", uri).user(PREDECESSOR);
        read.send().await.expect(200);
    }

    refused.send_replace(BTreeSet::new());
    let events = server.request("GET", &resumed).user(PREDECESSOR).watch();
    let mut events = events.await;
    let patch = json!({"metadata": {"labels": {"b": "c"}}});
    server.merge_patch(&item, &patch).await.expect(200);
    assert_eq!(events.next().await.unwrap()["type"], "MODIFIED");
}
