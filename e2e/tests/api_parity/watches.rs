//! What watches tell, event by event.

use serde_json::{Value, json};

use crate::{api_support::*, transcript::*};

/// A report comes, is changed, comes into a selection and leaves it, comes again and goes.
pub async fn life(setup: &Setup, name: &str) {
    let path = item(name);
    let change = async |body: Value| {
        setup
            .send("PATCH", &path, &[MERGE], &body)
            .await
            .expect(200);
    };
    setup
        .send("POST", REPORTS, &[JSON], &report(name))
        .await
        .expect(201);
    change(json!({"metadata": {"labels": {"in": "yes"}}})).await;
    change(json!({"summary": {"pass": 2}})).await;
    change(json!({"metadata": {"labels": {"in": "no"}}})).await;
    change(json!({"summary": {"pass": 3}})).await;
    change(json!({"metadata": {"labels": {"in": "yes"}}})).await;
    setup
        .send("DELETE", &path, &[], &Value::Null)
        .await
        .expect(200);
}

pub async fn watches(t: &mut Transcript<'_>) {
    const PLAIN: &str = "application/json";
    const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    const PARTIAL: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    const LISTED: &str = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
        &allowWatchBookmarks=true&timeoutSeconds=300";
    let setup = t.setup;
    let list = setup.get(REPORTS).await.json();
    let from = list["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned();
    let uri = |query: &str| format!("{REPORTS}?watch=1&resourceVersion={from}&{query}");
    t.watch("watch", &uri(""), PLAIN, life(setup, "w"), 7).await;
    let none = async || {};
    t.watch("watch again", &uri(""), PLAIN, none(), 7).await;
    t.watch(
        "watch a selection",
        &uri("labelSelector=in%3D%3Dyes"),
        PLAIN,
        none(),
        5,
    )
    .await;
    t.watch(
        "watch the rest",
        &uri("labelSelector=in!%3Dyes"),
        PLAIN,
        none(),
        5,
    )
    .await;
    t.watch(
        "watch one",
        &uri("fieldSelector=metadata.name%3Dw"),
        PLAIN,
        none(),
        7,
    )
    .await;
    t.watch("watch metadata", &uri(""), PARTIAL, none(), 7)
        .await;
    t.watch("watch tables", &uri(""), TABLE, none(), 7).await;
    t.watch(
        "watch tables whole",
        &uri("includeObject=Object"),
        TABLE,
        none(),
        2,
    )
    .await;
    t.watch(
        "watch the past",
        &format!("{REPORTS}?watch=1&resourceVersion=1"),
        PLAIN,
        none(),
        2,
    )
    .await;
    t.watch(
        "watch an empty list",
        &format!("{REPORTS}?{LISTED}"),
        PLAIN,
        none(),
        1,
    )
    .await;
    setup
        .send("POST", REPORTS, &[JSON], &report("x"))
        .await
        .expect(201);
    for (step, accept, query) in [
        ("watch a list", PLAIN, ""),
        ("watch a metadata list", PARTIAL, ""),
        ("watch a table", TABLE, ""),
        (
            "watch a table without objects",
            TABLE,
            "&includeObject=None",
        ),
    ] {
        t.watch(
            step,
            &format!("{REPORTS}?{LISTED}{query}"),
            accept,
            none(),
            2,
        )
        .await;
    }
    for query in ["watch=1", "watch=1&resourceVersion=0"] {
        t.watch(
            "watch from now",
            &format!("{REPORTS}?{query}"),
            PLAIN,
            none(),
            1,
        )
        .await;
    }
    let future = format!("{REPORTS}?{LISTED}&resourceVersion=99999999");
    t.watch("watch the future", &future, PLAIN, none(), 2).await;
    t.watch(
        "watch to the end",
        &uri("timeoutSeconds=1"),
        PLAIN,
        none(),
        9,
    )
    .await;
    setup
        .send("DELETE", &item("x"), &[], &Value::Null)
        .await
        .expect(200);
}
