//! `metadata.managedFields` on the ways of writing that are no apply.

use serde_json::{Value, json};

use crate::{api_support::*, transcript::*};

pub async fn owners(t: &mut Transcript<'_>) {
    names(t).await;
    transfers(t).await;
    entries(t).await;
    many(t).await;
    versions(t).await;
}

async fn names(t: &mut Transcript<'_>) {
    let body = report("named").to_string();
    let agent = |name: &'static str| ("user-agent", name);
    for (step, query, headers) in [
        (
            "named by parameter",
            "&fieldManager=me",
            vec![JSON, agent("you/1.0")],
        ),
        (
            "named by agent",
            "",
            vec![JSON, agent("you/1.0 (linux) k8s/x")],
        ),
        ("named by odd agent", "", vec![JSON, agent("a\tb c")]),
        ("named by foreign agent", "", vec![JSON, agent("größe/1")]),
        ("named by empty agent", "", vec![JSON, agent("/1.0")]),
    ] {
        let uri = format!("{REPORTS}?dryRun=All{query}");
        t.send(step, "POST", &uri, &headers, body.clone()).await;
    }
    let long = "x".repeat(200);
    let headers = [JSON, ("user-agent", long.as_str())];
    t.send(
        "named by long agent",
        "POST",
        &format!("{REPORTS}?dryRun=All"),
        &headers,
        body,
    )
    .await;
}

async fn transfers(t: &mut Transcript<'_>) {
    let uri = &item("owned");
    let by = |name: &str| format!("{uri}?fieldManager={name}");
    let mut object = report("owned");
    object["metadata"]["finalizers"] = json!(["example.com/a"]);
    let created = t
        .post("owned", &format!("{REPORTS}?fieldManager=one"), &object)
        .await;
    let same = t.put("owned by nobody else", &by("two"), &created).await;
    t.same("owned by nobody else", &created, &same);
    let changed = with(created, "/summary/pass", json!(4));
    let changed = t.put("a number taken", &by("two"), &changed).await;
    let changed = with(changed, "/results/0/message", json!("m"));
    let changed = t.put("results taken", &by("two"), &changed).await;
    let changed = t
        .put("a field gone", &by("three"), &without(changed, "/scope"))
        .await;
    let again = t.put("a field gone again", &by("three"), &changed).await;
    t.same("a field gone again", &changed, &again);
    let patch = json!({"metadata": {"labels": {"x": "y"}}, "summary": {"pass": 5}});
    let patched = t.merge("owned by patch", &by("four"), &patch).await;
    let again = t.merge("owned by patch again", &by("four"), &patch).await;
    t.same("owned by patch again", &patched, &again);
    let patch = json!([{"op": "replace", "path": "/summary/pass", "value": 6}]);
    t.patch("owned by JSON patch", &by("five"), &patch).await;
    let dry = format!("{}&dryRun=All", by("six"));
    t.merge("owned dryly", &dry, &json!({"summary": {"pass": 7}}))
        .await;
    t.merge(
        "owned empty map",
        &by("six"),
        &json!({"metadata": {"annotations": {}}}),
    )
    .await;
    t.merge("owned null", &by("six"), &json!({"summary": null}))
        .await;
    let agent = [MERGE, ("user-agent", "agent/1")];
    t.send(
        "owned by agent",
        "PATCH",
        uri,
        &agent,
        r#"{"summary":{"pass":8}}"#,
    )
    .await;
    t.delete("owned", uri, &Value::Null).await;
    t.get("owned and deleted", uri).await;
    let release = json!({"metadata": {"finalizers": null}});
    t.merge("owned and released", &by("six"), &release).await;
}

/// Entries that clients send.
async fn entries(t: &mut Transcript<'_>) {
    let uri = &item("entries");
    let by = |name: &str| format!("{uri}?fieldManager={name}");
    let entry = |manager: &str, fields: Value| {
        json!({"manager": manager, "operation": "Update", "apiVersion": "wgpolicyk8s.io/v1alpha2",
            "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields})
    };
    let mut given = report("entries");
    given["metadata"]["managedFields"] = json!([entry("given", json!({"f:scope": {}}))]);
    let object = t
        .post(
            "given entries",
            &format!("{REPORTS}?fieldManager=one"),
            &given,
        )
        .await;
    let set =
        |object: &Value, entries: Value| with(object.clone(), "/metadata/managedFields", entries);
    let good = entry("m", json!({"f:summary": {"f:pass": {}}}));
    let field = |name: &str, value: Value| {
        let mut entry = good.clone();
        entry[name] = value;
        json!([entry])
    };
    for (step, entries) in [
        ("put no entries", json!([])),
        ("put empty entry", json!([{}])),
        ("put two empty entries", json!([{}, {}])),
        ("put null entries", json!(null)),
        ("put entry", json!([good])),
        ("put entry twice", json!([good, good])),
        ("put odd operation", field("operation", json!("Patch"))),
        ("put no operation", field("operation", json!(""))),
        ("put odd type", field("fieldsType", json!("V2"))),
        ("put no type", field("fieldsType", json!(""))),
        ("put no fields", field("fieldsV1", json!(null))),
        ("put odd fields", field("fieldsV1", json!({"x": {}}))),
        ("put odd path", field("fieldsV1", json!({"f:summary": 7}))),
        (
            "put fields that are not there",
            field("fieldsV1", json!({"f:foo": {"f:bar": {}}})),
        ),
        (
            "put unknown version",
            field("apiVersion", json!("wgpolicyk8s.io/v9")),
        ),
        ("put no version", field("apiVersion", json!(""))),
        (
            "put other version",
            field("apiVersion", json!("wgpolicyk8s.io/v1beta1")),
        ),
        ("put long manager", field("manager", json!("x".repeat(129)))),
        ("put unprintable manager", field("manager", json!("a\nb"))),
        ("put no manager", field("manager", json!(""))),
        ("put subresource", field("subresource", json!("status"))),
        (
            "put long subresource",
            field("subresource", json!("s".repeat(257))),
        ),
        ("put no time", field("time", json!(null))),
        ("put odd time", field("time", json!("x"))),
        ("put number as manager", field("manager", json!(7))),
        ("put unknown entry field", field("foo", json!(7))),
        ("put text as entries", json!("x")),
        ("put text as entry", json!(["x"])),
    ] {
        let uri = format!("{}&dryRun=All", by("two"));
        let given = set(&object, entries);
        t.put(step, &uri, &given).await;
        let changed = with(given, "/summary/pass", json!(7));
        t.put(&format!("{step} and change"), &uri, &changed).await;
    }
    t.put("forget", &by("two"), &set(&object, json!([{}])))
        .await;
    t.merge(
        "change what is forgotten",
        &by("two"),
        &json!({"summary": {"pass": 3}}),
    )
    .await;
    let wanted = json!({"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport",
        "metadata": {"name": "entries"}, "summary": {"pass": 4}});
    t.apply(
        "apply to what is forgotten",
        uri,
        "fieldManager=one",
        &wanted,
    )
    .await;
    t.apply(
        "force on what is forgotten",
        uri,
        "fieldManager=one&force=true",
        &wanted,
    )
    .await;
    let forget = json!([{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]);
    t.patch("forget by patch", &by("two"), &forget).await;
    t.merge(
        "forget by merge",
        &by("two"),
        &json!({"metadata": {"managedFields": []}}),
    )
    .await;
    t.apply("apply anew", uri, "fieldManager=one", &wanted)
        .await;
    t.get("entries", uri).await;
}

/// More managers than an object may have; their names are in the order of their writes.
async fn many(t: &mut Transcript<'_>) {
    t.post(
        "many",
        &format!("{REPORTS}?fieldManager=m00"),
        &report("many"),
    )
    .await;
    for index in 1..13 {
        let uri = format!("{}?fieldManager=m{index:02}", item("many"));
        let label = json!({"metadata": {"labels": {format!("l{index}"): "x"}}});
        t.merge("many", &uri, &label).await;
    }
    t.get("many", &item("many")).await;
}

/// Writes in two served versions.
async fn versions(t: &mut Transcript<'_>) {
    let older = REPORTS.replace("v1alpha2", "v1beta1");
    let uri = |base: &str| format!("{base}/versions?fieldManager=one");
    t.post(
        "versions",
        &format!("{REPORTS}?fieldManager=one"),
        &report("versions"),
    )
    .await;
    t.merge(
        "a field in another version",
        &uri(&older),
        &json!({"summary": {"pass": 4}}),
    )
    .await;
    t.merge(
        "and in this one",
        &uri(REPORTS),
        &json!({"summary": {"pass": 5}}),
    )
    .await;
    let wanted = json!({"apiVersion": "wgpolicyk8s.io/v1beta1", "kind": "PolicyReport",
        "metadata": {"name": "versions"}, "summary": {"pass": 6}});
    let other = "fieldManager=two";
    t.apply(
        "conflict between versions",
        &format!("{older}/versions"),
        other,
        &wanted,
    )
    .await;
    t.apply(
        "force between versions",
        &format!("{older}/versions"),
        "fieldManager=two&force=true",
        &wanted,
    )
    .await;
    t.get("versions", &item("versions")).await;
    t.get("versions in another", &format!("{older}/versions"))
        .await;
}
