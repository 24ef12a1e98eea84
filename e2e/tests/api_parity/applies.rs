//! Server-side apply.

use serde_json::{Value, json};

use crate::{api_support::*, transcript::*};

/// What a manager wants of the report `name`.
fn config(name: &str, more: Value) -> Value {
    let mut config = json!({"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport",
        "metadata": {"name": name}});
    json_merge(&mut config, more);
    config
}

fn json_merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                json_merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

pub async fn applies(t: &mut Transcript<'_>) {
    options(t).await;
    creations(t).await;
    changes(t).await;
    refusals(t).await;
    conflicts(t).await;
    values(t).await;
    bodies(t).await;
    sets(t).await;
    from_client_side(t).await;
    deletions(t).await;
    cluster_kind(t).await;
}

async fn options(t: &mut Transcript<'_>) {
    let new = config("applied", json!({"summary": {"pass": 1}}));
    let long = format!("fieldManager={}", "x".repeat(129));
    for (step, query) in [
        ("apply nameless", ""),
        ("apply nameless by force", "force=true"),
        ("apply by an empty name", "fieldManager="),
        ("apply by a long name", long.as_str()),
        ("apply by an unprintable name", "fieldManager=a%0Ab%07"),
        (
            "apply with bad options",
            "fieldManager=&dryRun=x&fieldValidation=y",
        ),
        (
            "apply with odd force",
            "fieldManager=one&force=odd&dryRun=All",
        ),
    ] {
        t.apply(step, &item("applied"), query, &new).await;
    }
}

async fn creations(t: &mut Transcript<'_>) {
    let uri = &item("applied");
    let new = config(
        "applied",
        json!({"metadata": {"labels": {"app": "x"}}, "summary": {"pass": 1}}),
    );
    for (step, path, value) in [
        ("apply uid to nothing", "/metadata/uid", json!("u")),
        (
            "apply version to nothing",
            "/metadata/resourceVersion",
            json!("7"),
        ),
        (
            "apply version x to nothing",
            "/metadata/resourceVersion",
            json!("x"),
        ),
        (
            "apply deletion to nothing",
            "/metadata/deletionTimestamp",
            json!("2000-01-01T00:00:00Z"),
        ),
        ("apply name x to nothing", "/metadata/name", json!("x")),
        (
            "apply namespace x to nothing",
            "/metadata/namespace",
            json!("x"),
        ),
        (
            "apply generateName to nothing",
            "/metadata/generateName",
            json!("x-"),
        ),
        (
            "apply generation to nothing",
            "/metadata/generation",
            json!(7),
        ),
        (
            "apply creation time to nothing",
            "/metadata/creationTimestamp",
            json!("2000-01-01T00:00:00Z"),
        ),
        (
            "apply bad label to nothing",
            "/metadata/labels",
            json!({"-": ""}),
        ),
        (
            "apply bad result to nothing",
            "/results",
            json!([{"policy": "p", "result": "x"}]),
        ),
        (
            "apply unqualified finalizer",
            "/metadata/finalizers",
            json!(["hold"]),
        ),
    ] {
        let query = "fieldManager=one&dryRun=All";
        t.apply(step, uri, query, &with(new.clone(), path, value))
            .await;
    }
    t.apply(
        "apply no name to nothing",
        uri,
        "fieldManager=one",
        &without(new.clone(), "/metadata/name"),
    )
    .await;
    t.apply(
        "apply badly named",
        &item("Odd_Name"),
        "fieldManager=one",
        &config("Odd_Name", json!({})),
    )
    .await;
    let elsewhere = uri.replace("/default/", "/nowhere/");
    t.apply(
        "apply in a missing namespace",
        &elsewhere,
        "fieldManager=one",
        &new,
    )
    .await;
    let versioned = with(new.clone(), "/metadata/resourceVersion", json!("7"));
    let there = &item("versioned");
    let versioned = with(versioned, "/metadata/name", json!("versioned"));
    t.apply(
        "create by apply with a version",
        there,
        "fieldManager=one",
        &versioned,
    )
    .await;
    t.apply(
        "apply dryly to nothing",
        uri,
        "fieldManager=one&dryRun=All",
        &new,
    )
    .await;
    t.get("still nothing", uri).await;
    let created = t
        .apply("apply to nothing", uri, "fieldManager=one", &new)
        .await;
    let again = t.apply("apply again", uri, "fieldManager=one", &new).await;
    t.same("apply again", &created, &again);
    let forced = t
        .apply(
            "apply again by force",
            uri,
            "fieldManager=one&force=true",
            &new,
        )
        .await;
    t.same("apply again by force", &created, &forced);
    let dry = t
        .apply(
            "apply again dryly",
            uri,
            "fieldManager=one&dryRun=All",
            &new,
        )
        .await;
    t.same("apply again dryly", &created, &dry);
}

async fn changes(t: &mut Transcript<'_>) {
    let uri = &item("applied");
    let labels = json!({"app": "y", "team": "z"});
    let scope = json!({"apiVersion": "v1", "kind": "Pod", "name": "p"});
    for (step, wanted) in [
        (
            "apply a change",
            json!({"metadata": {"labels": labels}, "summary": {"pass": 2, "fail": 1}}),
        ),
        (
            "apply less",
            json!({"metadata": {"labels": {"team": "z"}}, "summary": {"pass": 2}}),
        ),
        (
            "apply a scope",
            json!({"scope": scope, "summary": {"pass": 2}}),
        ),
        (
            "apply part of a scope",
            json!({"scope": {"kind": "Pod"}, "summary": {"pass": 2}}),
        ),
        (
            "apply results",
            json!({"results": [{"policy": "p", "result": "pass"}], "summary": {"pass": 2}}),
        ),
        (
            "apply other results",
            json!({"results": [{"policy": "q", "result": "fail", "properties": {"a": "b"}}]}),
        ),
        ("apply empty results", json!({"results": [], "summary": {}})),
        ("apply nothing", json!({})),
        (
            "apply anew",
            json!({"metadata": {"labels": labels}, "summary": {"pass": 2, "fail": 1}}),
        ),
    ] {
        let wanted = config("applied", wanted);
        let query = "fieldManager=one";
        t.apply(
            &format!("{step} dryly"),
            uri,
            "fieldManager=one&dryRun=All",
            &wanted,
        )
        .await;
        let after = t.apply(step, uri, query, &wanted).await;
        let again = t.apply(&format!("{step} again"), uri, query, &wanted).await;
        t.same(step, &after, &again);
        t.get(step, uri).await;
    }
    let other = uri.replace("v1alpha2", "v1beta1");
    let wanted = json!({"apiVersion": "wgpolicyk8s.io/v1beta1", "summary": {"pass": 2, "fail": 1}});
    t.apply(
        "apply in another version",
        &other,
        "fieldManager=one",
        &config("applied", wanted),
    )
    .await;
    t.get("applied in another version", uri).await;
    let wanted = config(
        "applied",
        json!({"metadata": {"labels": labels}, "summary": {"pass": 2, "fail": 1}}),
    );
    t.apply("apply in this version", uri, "fieldManager=one", &wanted)
        .await;
}

async fn refusals(t: &mut Transcript<'_>) {
    let uri = &item("applied");
    let good = config("applied", json!({"summary": {"pass": 2}}));
    let entry = json!({"manager": "m", "operation": "Apply", "apiVersion": "wgpolicyk8s.io/v1alpha2",
        "fieldsType": "FieldsV1", "fieldsV1": {}});
    for (step, path, value) in [
        ("apply other name", "/metadata/name", json!("other")),
        (
            "apply other namespace",
            "/metadata/namespace",
            json!("other"),
        ),
        ("apply namespace", "/metadata/namespace", json!("default")),
        ("apply other uid", "/metadata/uid", json!("other")),
        ("apply old version", "/metadata/resourceVersion", json!("1")),
        ("apply version x", "/metadata/resourceVersion", json!("x")),
        ("apply version 0", "/metadata/resourceVersion", json!("0")),
        (
            "apply empty version",
            "/metadata/resourceVersion",
            json!(""),
        ),
        ("apply no entries", "/metadata/managedFields", json!([])),
        ("apply null entries", "/metadata/managedFields", json!(null)),
        ("apply empty entry", "/metadata/managedFields", json!([{}])),
        ("apply entry", "/metadata/managedFields", json!([entry])),
        (
            "apply unknown version",
            "/apiVersion",
            json!("wgpolicyk8s.io/v9"),
        ),
        (
            "apply other version",
            "/apiVersion",
            json!("wgpolicyk8s.io/v1beta1"),
        ),
        ("apply other group", "/apiVersion", json!("v1")),
        ("apply odd group", "/apiVersion", json!("a/b/c")),
        ("apply number as version", "/apiVersion", json!(7)),
        ("apply other kind", "/kind", json!("Thing")),
        ("apply empty kind", "/kind", json!("")),
        ("apply null kind", "/kind", json!(null)),
        ("apply unknown field", "/foo", json!(1)),
        ("apply unknown metadata", "/metadata/foo", json!(1)),
        ("apply unknown summary", "/summary/foo", json!(1)),
        (
            "apply unknown in results",
            "/results",
            json!([{"policy": "p", "foo": 1}]),
        ),
        ("apply text as summary", "/summary", json!("x")),
        ("apply text as number", "/summary/pass", json!("1")),
        ("apply list as number", "/summary/pass", json!([])),
        ("apply map as results", "/results", json!({})),
        ("apply texts as results", "/results", json!(["x"])),
        ("apply number as labels", "/metadata/labels", json!(7)),
        ("apply number as label", "/metadata/labels", json!({"a": 7})),
        ("apply text as metadata", "/metadata", json!("x")),
        ("apply null as metadata", "/metadata", json!(null)),
        ("apply bad label", "/metadata/labels", json!({"-": ""})),
        (
            "apply bad result",
            "/results",
            json!([{"policy": "p", "result": "x"}]),
        ),
        ("apply no policy", "/results", json!([{"result": "pass"}])),
        ("apply bad time", "/metadata/creationTimestamp", json!("x")),
        (
            "apply other creation",
            "/metadata/creationTimestamp",
            json!("2000-01-01T00:00:00Z"),
        ),
        ("apply generation", "/metadata/generation", json!(50)),
        (
            "apply deletion",
            "/metadata/deletionTimestamp",
            json!("2000-01-01T00:00:00Z"),
        ),
        (
            "apply generateName",
            "/metadata/generateName",
            json!("Odd_"),
        ),
    ] {
        let query = "fieldManager=one&dryRun=All";
        t.apply(step, uri, query, &with(good.clone(), path, value))
            .await;
    }
    for path in ["/metadata/name", "/metadata", "/kind", "/apiVersion"] {
        let step = format!("apply without {path}");
        t.apply(
            &step,
            uri,
            "fieldManager=one&dryRun=All",
            &without(good.clone(), path),
        )
        .await;
    }
    for type_ in [
        "application/apply-patch+cbor",
        "application/strategic-merge-patch+json",
        "text/x",
        "",
    ] {
        let headers = [("content-type", type_)];
        let uri = format!("{uri}?fieldManager=one");
        t.send(
            &format!("apply as {type_}"),
            "PATCH",
            &uri,
            &headers,
            good.to_string(),
        )
        .await;
    }
    let headers = [(
        "content-type",
        "application/apply-patch+yaml; charset=utf-8",
    )];
    t.send(
        "apply with charset",
        "PATCH",
        &format!("{uri}?fieldManager=one&dryRun=All"),
        &headers,
        good.to_string(),
    )
    .await;
    t.apply(
        "apply without a name in the path",
        REPORTS,
        "fieldManager=one",
        &good,
    )
    .await;
    t.get("after refusals", uri).await;
}

async fn conflicts(t: &mut Transcript<'_>) {
    let uri = &item("applied");
    let two = config("applied", json!({"summary": {"pass": 7}}));
    t.apply("conflict", uri, "fieldManager=two", &two).await;
    t.apply(
        "conflict without force",
        uri,
        "fieldManager=two&force=false",
        &two,
    )
    .await;
    t.apply(
        "conflict with force 0",
        uri,
        "fieldManager=two&force=0",
        &two,
    )
    .await;
    let more = config(
        "applied",
        json!({"metadata": {"labels": {"app": "two"}}, "summary": {"pass": 7, "fail": 8}}),
    );
    t.apply("conflicts", uri, "fieldManager=two", &more).await;
    t.apply(
        "conflicts dryly",
        uri,
        "fieldManager=two&dryRun=All&fieldValidation=Strict",
        &more,
    )
    .await;
    let same = config("applied", json!({"summary": {"pass": 2}}));
    t.apply("shared", uri, "fieldManager=two", &same).await;
    t.apply("conflict of both", uri, "fieldManager=two", &two)
        .await;
    t.apply("force", uri, "fieldManager=two&force=true", &two)
        .await;
    let one = config(
        "applied",
        json!({"metadata": {"labels": {"app": "y"}}, "summary": {"fail": 1}}),
    );
    t.apply("given up", uri, "fieldManager=one", &one).await;
    t.merge(
        "patched by a third",
        &format!("{uri}?fieldManager=three"),
        &json!({"summary": {"pass": 9, "warn": 4}}),
    )
    .await;
    t.apply("conflict with an update", uri, "fieldManager=two", &two)
        .await;
    let both = config("applied", json!({"summary": {"pass": 7, "warn": 7}}));
    t.apply("conflicts with an update", uri, "fieldManager=two", &both)
        .await;
    t.apply(
        "the update's value",
        uri,
        "fieldManager=two",
        &config("applied", json!({"summary": {"pass": 9}})),
    )
    .await;
    t.apply(
        "left",
        uri,
        "fieldManager=two",
        &config("applied", json!({})),
    )
    .await;
    t.apply(
        "left by all",
        uri,
        "fieldManager=one",
        &config("applied", json!({})),
    )
    .await;
    t.get("after conflicts", uri).await;
}

async fn values(t: &mut Transcript<'_>) {
    let uri = &item("values");
    for (step, wanted) in [
        (
            "apply whole float",
            json!({"summary": {"pass": 2.0, "fail": 1e3}}),
        ),
        (
            "apply large number",
            json!({"summary": {"pass": 9_007_199_254_740_993_i64}}),
        ),
        ("apply fraction", json!({"summary": {"pass": 1.5}})),
        (
            "apply null in summary",
            json!({"summary": {"pass": null, "fail": 1}}),
        ),
        ("apply null summary", json!({"summary": null})),
        (
            "apply null label",
            json!({"metadata": {"labels": {"a": null, "b": "c"}}}),
        ),
        ("apply null labels", json!({"metadata": {"labels": null}})),
        ("apply null results", json!({"results": null})),
        (
            "apply null in results",
            json!({"results": [{"policy": "p", "message": null}]}),
        ),
        ("apply null scope", json!({"scope": null})),
        (
            "apply empty values",
            json!({"metadata": {"labels": {}, "annotations": {"a": ""}}, "results": [], "scope": {}}),
        ),
        (
            "apply <odd> text",
            json!({"metadata": {"annotations": {"a": "<b>&'\u{2028}é\u{7}"}}}),
        ),
    ] {
        let wanted = config("values", wanted);
        let after = t.apply(step, uri, "fieldManager=one", &wanted).await;
        let again = t
            .apply(&format!("{step} again"), uri, "fieldManager=one", &wanted)
            .await;
        t.same(step, &after, &again);
    }
    t.get("after values", uri).await;
}

async fn bodies(t: &mut Transcript<'_>) {
    let whole = config("bodies", json!({"summary": {"pass": 1}})).to_string();
    let yaml =
        "apiVersion: wgpolicyk8s.io/v1alpha2\nkind: PolicyReport\nmetadata:\n  name: bodies\n";
    let twice = format!(
        "{yaml}  labels:\n    a: b\n    c: d\n    a: e\nsummary:\n  pass: 1\nkind: PolicyReport\n"
    );
    let json_twice = r#"{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"bodies"},"summary":{"pass":1,"pass":2}}"#;
    for (step, body) in [
        ("apply no body", ""),
        ("apply blank body", " \n"),
        ("apply null body", "null"),
        ("apply array", "[]"),
        ("apply text", "\"text\""),
        ("apply number", "7"),
        ("apply true", "true"),
        ("apply empty object", "{}"),
        ("apply truncated", &whole[..40]),
        ("apply broken YAML", "a: b: c"),
        ("apply YAML", yaml),
        ("apply YAML with comment", &format!("# hello\n---\n{yaml}")),
        ("apply repeated", &twice),
        ("apply repeated JSON", json_twice),
    ] {
        for query in ["", "&fieldValidation=Strict", "&fieldValidation=Ignore"] {
            let uri = format!("{}?fieldManager=one&dryRun=All{query}", item("bodies"));
            t.send(step, "PATCH", &uri, &[APPLY], body).await;
        }
    }
    let large = config(
        "bodies",
        json!({"metadata": {"annotations": {"a": "x".repeat(270_000)}}}),
    );
    t.apply(
        "apply large annotations",
        &item("bodies"),
        "fieldManager=one&dryRun=All",
        &large,
    )
    .await;
}

async fn sets(t: &mut Transcript<'_>) {
    let uri = &item("sets");
    let owner = |uid: &str| with(an_owner(), "/uid", json!(uid));
    let one =
        json!({"finalizers": ["example.com/a", "example.com/b"], "ownerReferences": [owner("a")]});
    let two =
        json!({"finalizers": ["example.com/b", "example.com/c"], "ownerReferences": [owner("b")]});
    let wants = |metadata: &Value| config("sets", json!({"metadata": metadata}));
    t.apply("a set", uri, "fieldManager=one", &wants(&one))
        .await;
    t.apply("a set of two", uri, "fieldManager=two", &wants(&two))
        .await;
    let mut other = owner("a");
    other["controller"] = json!(true);
    let other = json!({"ownerReferences": [other]});
    t.apply("an owner changed", uri, "fieldManager=two", &wants(&other))
        .await;
    let twice = json!({"finalizers": ["example.com/a", "example.com/a"]});
    t.apply("an item twice", uri, "fieldManager=one", &wants(&twice))
        .await;
    let twice = json!({"ownerReferences": [owner("c"), owner("c")]});
    t.apply("an owner twice", uri, "fieldManager=one", &wants(&twice))
        .await;
    let twice = json!({"metadata": {"ownerReferences": [owner("a"), owner("a"), owner("b")]}});
    t.merge(
        "an owner twice in a patch",
        &format!("{uri}?fieldManager=three&dryRun=All"),
        &twice,
    )
    .await;
    let nameless = json!({"ownerReferences": [{"kind": "Pod"}]});
    t.apply(
        "an owner without uid",
        uri,
        "fieldManager=one",
        &wants(&nameless),
    )
    .await;
    t.apply(
        "one leaves its set",
        uri,
        "fieldManager=one",
        &wants(&json!({})),
    )
    .await;
    t.apply(
        "two leaves its set",
        uri,
        "fieldManager=two",
        &wants(&json!({})),
    )
    .await;
    t.delete("sets", uri, &Value::Null).await;
}

/// From `kubectl apply` to `kubectl apply --server-side`.
async fn from_client_side(t: &mut Transcript<'_>) {
    let uri = &item("migrated");
    let wanted = config(
        "migrated",
        json!({"metadata": {"labels": {"a": "b"}}, "summary": {"pass": 1}}),
    );
    let mut sent = wanted.clone();
    let last = format!("{wanted}\n");
    sent["metadata"]["annotations"] =
        json!({"kubectl.kubernetes.io/last-applied-configuration": last});
    t.post(
        "client-side",
        &format!("{REPORTS}?fieldManager=kubectl-client-side-apply"),
        &sent,
    )
    .await;
    let changed = with(wanted.clone(), "/summary/pass", json!(2));
    t.apply(
        "server-side by another",
        uri,
        "fieldManager=other",
        &changed,
    )
    .await;
    t.apply("server-side", uri, "fieldManager=kubectl", &changed)
        .await;
    t.merge(
        "somebody else",
        &format!("{uri}?fieldManager=else"),
        &json!({"summary": {"pass": 5}}),
    )
    .await;
    t.apply(
        "server-side over somebody else",
        uri,
        "fieldManager=kubectl",
        &changed,
    )
    .await;
    t.get("migrated", uri).await;
}

async fn deletions(t: &mut Transcript<'_>) {
    let uri = &item("held");
    let held = config(
        "held",
        json!({"metadata": {"finalizers": ["example.com/hold"]}}),
    );
    t.apply("held", uri, "fieldManager=one", &held).await;
    t.delete("held", uri, &Value::Null).await;
    t.apply("held again", uri, "fieldManager=one", &held).await;
    let more = config(
        "held",
        json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}),
    );
    t.apply("held more", uri, "fieldManager=one", &more).await;
    t.get("held", uri).await;
    t.apply(
        "released dryly",
        uri,
        "fieldManager=one&dryRun=All",
        &config("held", json!({})),
    )
    .await;
    t.apply(
        "released",
        uri,
        "fieldManager=one",
        &config("held", json!({})),
    )
    .await;
    t.get("released", uri).await;
    t.apply(
        "made again",
        uri,
        "fieldManager=one",
        &config("held", json!({})),
    )
    .await;
}

async fn cluster_kind(t: &mut Transcript<'_>) {
    let uri = &format!("{CLUSTER_REPORTS}/c");
    let mut wanted = config("c", json!({"summary": {"pass": 1}}));
    wanted["kind"] = json!("ClusterPolicyReport");
    let created = t
        .apply("apply cluster kind", uri, "fieldManager=one", &wanted)
        .await;
    let again = t
        .apply("apply cluster kind again", uri, "fieldManager=one", &wanted)
        .await;
    t.same("apply cluster kind", &created, &again);
    wanted["metadata"]["namespace"] = json!("ignored");
    t.apply(
        "apply namespace to cluster kind",
        uri,
        "fieldManager=one",
        &wanted,
    )
    .await;
    wanted["summary"]["pass"] = json!(2);
    t.apply("conflict in cluster kind", uri, "fieldManager=two", &wanted)
        .await;
    t.delete("applied cluster kind", uri, &Value::Null).await;
}
