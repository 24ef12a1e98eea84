use std::time::Duration;

use crds::control::GateState;
use serde_json::{Value, json};

use crate::harness::*;

fn from(object: &Value) -> String {
    format!("{REPORTS}?watch=1&resourceVersion={}", rv(object))
}

#[tokio::test]
async fn every_change_once_and_in_order() {
    let server = Server::start().await;
    let first = server.created("a").await;
    let mut watch = server.watch(&from(&first)).await;
    let b = server.created("b").await;
    let patch = json!({"results": []});
    let changed = server
        .merge_patch(&format!("{REPORTS}/a"), &patch)
        .await
        .json();
    server.delete(&format!("{REPORTS}/b")).await.expect(200);
    assert_eq!(
        watch.next().await.unwrap(),
        json!({"type": "ADDED", "object": b})
    );
    assert_eq!(
        watch.next().await.unwrap(),
        json!({"type": "MODIFIED", "object": changed})
    );
    let deleted = watch.next().await.unwrap();
    assert_eq!(deleted["type"], "DELETED");
    assert_eq!(deleted["object"]["metadata"]["uid"], b["metadata"]["uid"]);
    assert!(rv(&deleted["object"]) > rv(&changed));
    // The same again from the log, for one who comes late.
    let mut late = server.watch(&from(&first)).await;
    for want in ["ADDED", "MODIFIED", "DELETED"] {
        assert_eq!(late.next().await.unwrap()["type"], want);
    }
}

#[tokio::test]
async fn a_watch_without_a_version_begins_with_what_is_there() {
    let server = Server::start().await;
    let a = server.created("a").await;
    let mut watches = Vec::new();
    for query in ["watch=1", "watch=true&resourceVersion=0"] {
        watches.push(server.watch(&format!("{REPORTS}?{query}")).await);
    }
    for watch in &mut watches {
        assert_eq!(
            watch.next().await.unwrap(),
            json!({"type": "ADDED", "object": a})
        );
    }
    let b = server.created("b").await;
    for watch in &mut watches {
        assert_eq!(
            watch.next().await.unwrap(),
            json!({"type": "ADDED", "object": b})
        );
    }
}

/// The deprecated form of a path, the only one for one object.
const WATCH_ONE: &str = "/apis/wgpolicyk8s.io/v1alpha2/watch/namespaces/default/policyreports/NAME";

const WATCH_LIST: &str = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
    &allowWatchBookmarks=true&timeoutSeconds=600";

fn is_initial_end(event: &Value) -> bool {
    event["type"] == "BOOKMARK"
        && event["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true"
}

#[tokio::test]
async fn watch_list_empty_and_filled() {
    let server = Server::start().await;
    let mut empty = server.watch(&format!("{REPORTS}?{WATCH_LIST}")).await;
    let end = empty.next().await.unwrap();
    assert!(is_initial_end(&end), "{end}");
    assert_eq!(end["object"]["kind"], "PolicyReport");
    assert_eq!(end["object"]["apiVersion"], "wgpolicyk8s.io/v1alpha2");
    assert!(rv(&end["object"]) > 0);
    let mut objects = Vec::new();
    for name in ["a", "b", "c"] {
        objects.push(server.created(name).await);
        assert_eq!(empty.next().await.unwrap()["type"], "ADDED");
    }
    let newest = rv(&objects[2]);
    let mut filled = server
        .watch(&format!("{REPORTS}?{WATCH_LIST}&resourceVersion={newest}"))
        .await;
    for object in &objects {
        assert_eq!(
            filled.next().await.unwrap(),
            json!({"type": "ADDED", "object": object})
        );
    }
    let end = filled.next().await.unwrap();
    assert!(is_initial_end(&end));
    assert!(rv(&end["object"]) >= newest);
    let d = server.created("d").await;
    assert_eq!(
        filled.next().await.unwrap(),
        json!({"type": "ADDED", "object": d})
    );
}

#[tokio::test]
async fn initial_events_without_a_marker_and_without_themselves() {
    let server = Server::start().await;
    let a = server.created("a").await;
    let no_marker = WATCH_LIST.replace("&allowWatchBookmarks=true", "");
    let mut watch = server.watch(&format!("{REPORTS}?{no_marker}")).await;
    assert_eq!(watch.brief().await, format!("ADDED a {}", rv(&a)));
    let b = server.created("b").await;
    assert_eq!(watch.brief().await, format!("ADDED b {}", rv(&b)));
    let none = WATCH_LIST.replace("sendInitialEvents=true", "sendInitialEvents=false");
    let mut watch = server.watch(&format!("{REPORTS}?{none}")).await;
    let c = server.created("c").await;
    assert_eq!(watch.brief().await, format!("ADDED c {}", rv(&c)));
}

#[tokio::test]
async fn refused_options() {
    let server = Server::start().await;
    for (query, code) in [
        ("watch=1&sendInitialEvents=true", 422),
        (
            "watch=1&resourceVersionMatch=NotOlderThan&resourceVersion=1",
            422,
        ),
        ("watch=1&resourceVersion=x", 500),
        ("watch=1&labelSelector=a+in", 400),
        ("watch=1&fieldSelector=spec.x%3D1", 400),
        ("watch=1&timeoutSeconds=x", 400),
    ] {
        server.get(&format!("{REPORTS}?{query}")).await.expect(code);
    }
    let yaml = server
        .request("GET", &format!("{REPORTS}?watch=1"))
        .header("accept", "application/yaml");
    yaml.send().await.expect(406);
}

#[tokio::test]
async fn selectors_see_objects_come_and_go() {
    let server = Server::start().await;
    let start = rv(&server.get(REPORTS).await.json());
    let uri = format!("{REPORTS}?watch=1&resourceVersion={start}&labelSelector=app%3D%3Dx");
    let mut watch = server.watch(&uri).await;
    let label = |value: &str| json!({"metadata": {"labels": {"app": value}}});
    let target = format!("{REPORTS}/a");
    server.created("a").await;
    let came = server.merge_patch(&target, &label("x")).await.json();
    let stayed = server
        .merge_patch(&target, &json!({"results": []}))
        .await
        .json();
    let left = server.merge_patch(&target, &label("y")).await.json();
    server
        .merge_patch(&target, &json!({"results": [{"policy": "q"}]}))
        .await
        .expect(200);
    let back = server.merge_patch(&target, &label("x")).await.json();
    server.delete(&target).await.expect(200);
    assert_eq!(
        watch.next().await.unwrap(),
        json!({"type": "ADDED", "object": came})
    );
    assert_eq!(
        watch.next().await.unwrap(),
        json!({"type": "MODIFIED", "object": stayed})
    );
    let gone = watch.next().await.unwrap();
    // The content is the old one, which matches; the version is that of the event.
    let mut want = stayed.clone();
    want["metadata"]["resourceVersion"] = left["metadata"]["resourceVersion"].clone();
    assert_eq!(gone, json!({"type": "DELETED", "object": want}));
    assert_eq!(
        watch.next().await.unwrap(),
        json!({"type": "ADDED", "object": back})
    );
    assert_eq!(watch.next().await.unwrap()["type"], "DELETED");
    // What never matched is never seen.
    server.created("b").await;
    server.delete(&format!("{REPORTS}/b")).await.expect(200);
    let mut c = report("c");
    c["metadata"]["labels"] = json!({"app": "x"});
    let c = server.post(REPORTS, &c).await.json();
    assert_eq!(
        watch.next().await.unwrap(),
        json!({"type": "ADDED", "object": c})
    );
}

#[tokio::test]
async fn one_object_and_one_namespace() {
    let server = Server::start().await;
    let a = server.created("a").await;
    let start = rv(&a);
    let named = WATCH_ONE.replace("NAME", "b");
    let mut named = server
        .watch(&format!("{named}?resourceVersion={start}"))
        .await;
    let by_field =
        format!("{ALL_REPORTS}?watch=1&resourceVersion={start}&fieldSelector=metadata.name%3Db");
    let mut by_field = server.watch(&by_field).await;
    let mut all = server
        .watch(&format!("{ALL_REPORTS}?watch=1&resourceVersion={start}"))
        .await;
    let other = ALL_REPORTS.replace("/policyreports", "/namespaces/other/policyreports");
    let mut elsewhere = server
        .watch(&format!("{other}?watch=1&resourceVersion={start}"))
        .await;
    server.created("c").await;
    let b = server.created("b").await;
    let z = server.post(&other, &report("z")).await.json();
    assert_eq!(named.brief().await, format!("ADDED b {}", rv(&b)));
    assert_eq!(by_field.brief().await, format!("ADDED b {}", rv(&b)));
    assert_eq!(elsewhere.brief().await, format!("ADDED z {}", rv(&z)));
    for _ in 0..2 {
        all.next().await;
    }
    assert_eq!(all.brief().await, format!("ADDED z {}", rv(&z)));
    let other = WATCH_ONE.replace("NAME", "b") + "?fieldSelector=metadata.name%3Da";
    let answer = server.get(&other).await.expect(400);
    assert_eq!(
        answer.message(),
        "fieldSelector metadata.name doesn't match requested name"
    );
    // As for custom resources: on the path of an object, `watch` is a parameter that a get ignores.
    let object = server
        .get(&format!("{REPORTS}/b?watch=1"))
        .await
        .expect(200)
        .json();
    assert_eq!(object, b);
}

#[tokio::test]
async fn metadata_and_tables() {
    let server = Server::start().await;
    let a = server.created("a").await;
    let open = |accept: &'static str, query: &'static str| {
        let uri = format!("{ALL_REPORTS}?{query}");
        let request = server.request("GET", &uri).header("accept", accept);
        async move { request.watch().await }
    };
    // As the garbage collector asks for it.
    let mut partial = open(
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
        "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
    )
    .await;
    let event = partial.next().await.unwrap();
    assert_eq!(
        event["object"],
        json!({"apiVersion": "meta.k8s.io/v1",
        "kind": "PartialObjectMetadata", "metadata": a["metadata"]})
    );
    let end = partial.next().await.unwrap();
    assert!(is_initial_end(&end));
    assert_eq!(end["object"]["kind"], "PartialObjectMetadata");
    let mut table = open(
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
         &allowWatchBookmarks=true&includeObject=None",
    )
    .await;
    let event = table.next().await.unwrap();
    assert_eq!(event["object"]["kind"], "Table");
    assert_eq!(
        event["object"]["columnDefinitions"]
            .as_array()
            .unwrap()
            .len(),
        9
    );
    assert_eq!(event["object"]["rows"][0]["cells"][0], "a");
    let end = table.next().await.unwrap();
    assert_eq!(end["type"], "BOOKMARK");
    assert_eq!(end["object"]["columnDefinitions"], Value::Null);
    let row = &end["object"]["rows"][0]["object"]["metadata"];
    assert_eq!(row["annotations"]["k8s.io/initial-events-end"], "true");
    let b = server.created("b").await;
    assert_eq!(partial.brief().await, format!("ADDED b {}", rv(&b)));
    assert_eq!(
        table.next().await.unwrap()["object"]["rows"][0]["cells"][0],
        "b"
    );
}

#[tokio::test]
async fn bookmarks_come_each_minute_and_before_the_end() {
    let server = Server::start().await;
    let a = server.created("a").await;
    tokio::time::pause();
    let uri = format!("{}&allowWatchBookmarks=true&timeoutSeconds=200", from(&a));
    let mut watch = server.watch(&uri).await;
    watch.patience = Duration::from_hours(1);
    let began = tokio::time::Instant::now();
    let first = watch.next().await.unwrap();
    assert_eq!(first["type"], "BOOKMARK");
    assert_eq!(
        first["object"],
        json!({"apiVersion": "wgpolicyk8s.io/v1alpha2",
        "kind": "PolicyReport", "metadata": {"resourceVersion": rv(&a).to_string()}})
    );
    let after = began.elapsed();
    assert!(
        after >= Duration::from_mins(1) && after <= Duration::from_secs(76),
        "{after:?}"
    );
    let mut last = after;
    while let Some(event) = watch.next().await {
        assert_eq!(event["type"], "BOOKMARK");
        last = began.elapsed();
    }
    assert_eq!(last.as_secs(), 198);
    assert_eq!(began.elapsed().as_secs(), 200);
}

#[tokio::test]
async fn other_resources_carry_bookmarks_along() {
    let server = Server::start().await;
    let a = server.created("a").await;
    let uri = format!("{}&allowWatchBookmarks=true&timeoutSeconds=3", from(&a));
    let mut watch = server.watch(&uri).await;
    let mut cluster = report("x");
    cluster["kind"] = json!("ClusterPolicyReport");
    let other = server
        .post(CLUSTER_REPORTS, &cluster)
        .await
        .expect(201)
        .json();
    tokio::time::pause();
    let bookmark = watch.next().await.unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert!(rv(&bookmark["object"]) >= rv(&other));
}

#[tokio::test]
async fn a_watch_ends_when_asked_and_when_the_server_stops() {
    let server = Server::start().await;
    let a = server.created("a").await;
    let mut short = server
        .watch(&format!("{}&timeoutSeconds=1", from(&a)))
        .await;
    assert_eq!(short.next().await, None);
    let mut long = server.watch(&from(&a)).await;
    server.shutdown.cancel();
    assert_eq!(long.next().await, None);
}

/// Returns two watches from an object on: one without bookmarks, and one with them.
async fn without_and_with_bookmarks(server: &Server, object: &Value) -> (Events, Events) {
    let plain = server.watch(&from(object)).await;
    let marked = format!("{}&allowWatchBookmarks=true", from(object));
    (plain, server.watch(&marked).await)
}

#[tokio::test]
async fn closing_the_gate_ends_watches_with_all_their_events() {
    let server = Server::start().await;
    let a = server.created("a").await;
    let (mut plain, mut marked) = without_and_with_bookmarks(&server, &a).await;
    let b = server.created("b").await;
    server
        .set_gate("policyreports.wgpolicyk8s.io", GateState::Closed)
        .await;
    for watch in [&mut plain, &mut marked] {
        assert_eq!(watch.brief().await, format!("ADDED b {}", rv(&b)));
    }
    let last = marked.next().await.unwrap();
    assert_eq!(last["type"], "BOOKMARK");
    assert!(rv(&last["object"]) >= rv(&b));
    assert_eq!(marked.next().await, None);
    // Below the versions of what was written to its CRD it would see old states as news.
    assert_eq!(plain.next().await.unwrap()["object"]["code"], 410);
    assert_eq!(plain.next().await, None);
}

#[tokio::test]
async fn a_server_that_stops_while_it_gives_a_resource_back_lets_nobody_see_events_again() {
    let server = Server::start().await;
    let a = server.created("a").await;
    let (mut plain, mut marked) = without_and_with_bookmarks(&server, &a).await;
    let last = rv(&server.created("b").await) + 100;
    assert_eq!(plain.brief().await, format!("ADDED b {}", last - 100));
    server.release("policyreports.wgpolicyk8s.io", last).await;
    while rv(&marked.next().await.unwrap()["object"]) < last {}
    server.shutdown.cancel();
    assert_eq!(plain.next().await.unwrap()["object"]["code"], 410);
    assert_eq!(plain.next().await, None);
    assert_eq!(marked.next().await, None);
}

#[tokio::test]
async fn too_old_and_too_new() {
    let server = Server::start_closed(|_| {}).await;
    // The horizon of a resource that never was in etcd is where its gate was opened.
    server.store.raise_floor(1000).await.unwrap();
    server
        .set_gate("policyreports.wgpolicyk8s.io", GateState::Open)
        .await;
    let a = server.created("a").await;
    let mut old = server
        .watch(&format!("{REPORTS}?watch=1&resourceVersion=1"))
        .await;
    let error = old.next().await.unwrap();
    assert_eq!(error["type"], "ERROR");
    assert_eq!(error["object"]["code"], 410);
    assert_eq!(error["object"]["reason"], "Expired");
    let message = error["object"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("too old resource version: 1 ("),
        "{message}"
    );
    assert_eq!(old.next().await, None);
    tokio::time::pause();
    let future = format!("{REPORTS}?watch=1&resourceVersion={}", rv(&a) + 1_000_000);
    let mut future = server.watch(&future).await;
    let error = future.next().await.unwrap();
    assert_eq!(
        (&error["type"], &error["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
    let uri = format!(
        "{REPORTS}?{WATCH_LIST}&resourceVersion={}",
        rv(&a) + 1_000_000
    );
    let mut future = server.watch(&uri).await;
    let error = future.next().await.unwrap();
    assert_eq!(error["object"]["code"], 504);
    assert_eq!(
        error["object"]["details"]["causes"][0]["reason"],
        "ResourceVersionTooLarge"
    );
}

#[tokio::test]
async fn many_watchers_see_the_same() {
    let server = Server::start().await;
    let a = server.created("a").await;
    let mut watches = Vec::new();
    for _ in 0..20 {
        watches.push(server.watch(&from(&a)).await);
    }
    let mut want = Vec::new();
    for index in 0..50 {
        let created = server.created(&format!("r{index}")).await;
        want.push(format!("ADDED r{index} {}", rv(&created)));
    }
    for watch in &mut watches {
        for want in &want {
            assert_eq!(watch.brief().await, *want);
        }
    }
}

#[tokio::test]
async fn a_watcher_that_fell_far_behind_reads_the_log() {
    let server = Server::start_closed(|options| options.ring.events = 4).await;
    server
        .set_gate("policyreports.wgpolicyk8s.io", GateState::Open)
        .await;
    let a = server.created("a").await;
    let mut watch = server.watch(&from(&a)).await;
    let mut want = Vec::new();
    for index in 0..40 {
        let created = server.created(&format!("r{index:02}")).await;
        want.push(format!("ADDED r{index:02} {}", rv(&created)));
    }
    for want in want {
        assert_eq!(watch.brief().await, want);
    }
}
