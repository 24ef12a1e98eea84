//! The same requests, first to the CRDs in the kube-apiserver, then to the server that took their
//! place: the answers must be the same but for what differs from run to run.
#![allow(
    clippy::too_many_lines,
    reason = "a transcript reads from top to bottom"
)]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy takes helpers outside #[test] functions for production code"
)]

mod api_support;

use std::collections::BTreeMap;

use api_support::*;
use serde_json::{Value, json};

const YAML: (&str, &str) = ("content-type", "application/yaml");
const MERGE: (&str, &str) = ("content-type", "application/merge-patch+json");
const JSON_PATCH: (&str, &str) = ("content-type", "application/json-patch+json");

const NO_WARNINGS: &str = "a refusal carries no warnings of unknown fields";

/// Steps whose answers differ, and why.
const KNOWN: &[(&str, &str)] = &[
    (
        "protobuf only:",
        "the Status is JSON, and protobuf is not in the list of media types",
    ),
    ("HTML:", "protobuf is not in the list of media types"),
    (
        "two controllers:",
        "the references are printed with sorted keys",
    ),
    ("text/plain:", "protobuf is not in the list of media types"),
    ("unknown version:", NO_WARNINGS),
    ("other version: PUT", NO_WARNINGS),
    ("merge version:", NO_WARNINGS),
];

#[tokio::test]
async fn a_client_cannot_tell_the_server_from_the_crd() {
    let mut setup = Setup::start().await;
    let crd = transcript(&setup).await.steps;
    setup.switch().await;
    let ours = transcript(&setup).await.steps;
    let mut differences = Vec::new();
    for ((step, want), (other, got)) in crd.iter().zip(&ours) {
        assert_eq!(step, other);
        if want != got && !KNOWN.iter().any(|(known, _)| step.starts_with(known)) {
            differences.push(format!("{step}\n  CRD:  {want}\n  ours: {got}"));
        }
    }
    assert_eq!(crd.len(), ours.len());
    assert!(
        differences.is_empty(),
        "{} of {} steps differ:\n{}",
        differences.len(),
        crd.len(),
        differences.join("\n")
    );
}

/// What was answered to each step.
struct Transcript<'a> {
    setup: &'a Setup,
    steps: Vec<(String, String)>,
    uids: BTreeMap<String, usize>,
}

impl Transcript<'_> {
    async fn send(
        &mut self,
        step: &str,
        method: &str,
        uri: &str,
        headers: &[(&str, &str)],
        body: impl Into<Vec<u8>>,
    ) -> Value {
        let answer = self
            .setup
            .send_bytes(method, uri, headers, body.into())
            .await;
        let header = |name: &str| {
            let values = answer.headers.get_all(name).iter();
            let texts = values.map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned());
            texts.collect::<Vec<_>>().join(", ")
        };
        let value = serde_json::from_slice::<Value>(&answer.body).unwrap_or_default();
        let mut steady = if value.is_null() {
            Value::from(answer.text())
        } else {
            value.clone()
        };
        self.steady(&mut steady);
        let path = uri.split('?').next().unwrap_or_default();
        let step = format!("{step}: {method} {path}");
        let said = format!(
            "{} {} {} {} {steady}",
            answer.code,
            header("content-type"),
            header("retry-after"),
            header("warning"),
        );
        self.steps.push((step, said));
        value
    }

    /// Reads `count` lines of a watch, after `work` was done.
    async fn watch(
        &mut self,
        step: &str,
        uri: &str,
        accept: &str,
        work: impl Future<Output = ()>,
        count: usize,
    ) {
        let (code, mut watch) = self.setup.watch(uri, accept).await;
        work.await;
        let mut lines = Vec::new();
        for _ in 0..count {
            let mut line = watch.next().await.unwrap_or_else(|| json!("end"));
            self.steady(&mut line);
            // Cells with ages.
            if let Some(cells) = line.pointer_mut("/object/rows/0/cells/8") {
                *cells = json!("<age>");
            }
            lines.push(line.to_string());
        }
        self.steps
            .push((step.to_owned(), format!("{code} {}", lines.join(" "))));
    }

    async fn get(&mut self, step: &str, uri: &str) -> Value {
        self.send(step, "GET", uri, &[], "").await
    }

    async fn accept(&mut self, step: &str, uri: &str, accept: &str) -> Value {
        self.send(step, "GET", uri, &[("accept", accept)], "").await
    }

    async fn post(&mut self, step: &str, uri: &str, body: &Value) -> Value {
        self.send(step, "POST", uri, &[JSON], body.to_string())
            .await
    }

    async fn put(&mut self, step: &str, uri: &str, body: &Value) -> Value {
        self.send(step, "PUT", uri, &[JSON], body.to_string()).await
    }

    async fn merge(&mut self, step: &str, uri: &str, body: &Value) -> Value {
        self.send(step, "PATCH", uri, &[MERGE], body.to_string())
            .await
    }

    async fn patch(&mut self, step: &str, uri: &str, body: &Value) -> Value {
        self.send(step, "PATCH", uri, &[JSON_PATCH], body.to_string())
            .await
    }

    async fn delete(&mut self, step: &str, uri: &str, body: &Value) -> Value {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        self.send(step, "DELETE", uri, &[JSON], body).await
    }

    /// Replaces what differs from run to run.
    fn steady(&mut self, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.steady(item)),
            Value::Object(map) => {
                // Ownership of fields is not tracked (docs/api-compatibility.md).
                map.remove("managedFields");
                steady_causes(map);
                for (key, value) in map.iter_mut() {
                    match (key.as_str(), &value) {
                        ("resourceVersion", Value::String(text)) if text.parse::<u64>().is_ok() => {
                            *value = json!("<rv>");
                        }
                        ("creationTimestamp" | "deletionTimestamp", Value::String(_)) => {
                            *value = json!("<time>");
                        }
                        ("continue", Value::String(text)) if !text.is_empty() => {
                            *value = json!("<token>");
                        }
                        ("uid", Value::String(text)) => {
                            let next = self.uids.len();
                            let number = *self.uids.entry(text.clone()).or_insert(next);
                            *value = json!(format!("<uid {number}>"));
                        }
                        _ => self.steady(value),
                    }
                }
            }
            Value::String(text) => *text = self.steady_text(text),
            _ => {}
        }
    }

    /// Replaces uids, large numbers, names of Go's and what its parsers say.
    fn steady_text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for uid in self.uids.keys().filter(|uid| uid.len() > 20) {
            text = text.replace(uid, "<uid>");
        }
        for head in [
            "json parse error: ",
            "error decoding patch: ",
            "continue key is not valid: ",
        ] {
            if let Some((before, tail)) = text.split_once(head) {
                let known = [
                    "json: ",
                    "server does not",
                    "incorrect encoded",
                    "encoded start",
                ];
                let keep = known.iter().any(|start| tail.starts_with(start));
                text = format!("{before}{head}{}", if keep { tail } else { "<syntax>" });
            }
        }
        if let Some((before, _)) = text.split_once(" in scheme") {
            text = format!("{before} in scheme");
        }
        text = cut(&text, "Invalid value: \"{", "}\"");
        text = cut(&text, "is missing in '{", "}'");
        let mut parts = text.split("Abc-");
        let first = parts.next().unwrap_or_default().to_owned();
        let random = |c: char| c.is_ascii_alphanumeric();
        text = parts.fold(first, |text, part| {
            text + "Abc-" + part.trim_start_matches(random)
        });
        let mut out = String::new();
        let mut digits = String::new();
        for c in text.chars().chain(['\0']) {
            if c.is_ascii_digit() {
                digits.push(c);
                continue;
            }
            out.push_str(if digits.len() > 2 { "<n>" } else { &digits });
            digits.clear();
            out.push(c);
        }
        out.pop();
        out
    }
}

/// The kube-apiserver finds errors in the order of a Go map.
fn steady_causes(map: &mut serde_json::Map<String, Value>) {
    let causes = map
        .get_mut("details")
        .and_then(|details| details.get_mut("causes"));
    let Some(Value::Array(causes)) = causes else {
        return;
    };
    if causes.len() > 1 {
        causes.sort_by_key(ToString::to_string);
        if let Some(Value::String(message)) = map.get_mut("message") {
            *message = cut(message, "is invalid: [", "]");
        }
    }
}

/// The text without what stands between the first `from` and the last `to` behind it.
fn cut(text: &str, from: &str, to: &str) -> String {
    let Some((head, tail)) = text.split_once(from) else {
        return text.to_owned();
    };
    match tail.rsplit_once(to) {
        Some((_, end)) => format!("{head}{from}…{to}{end}"),
        None => text.to_owned(),
    }
}

fn item(name: &str) -> String {
    format!("{REPORTS}/{name}")
}

fn with(mut object: Value, path: &str, value: Value) -> Value {
    if let Some(slot) = object.pointer_mut(path) {
        *slot = value;
    } else {
        let (parent, key) = path.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[key] = value;
    }
    object
}

fn without(mut object: Value, path: &str) -> Value {
    let (parent, key) = path.rsplit_once('/').unwrap();
    object
        .pointer_mut(parent)
        .unwrap()
        .as_object_mut()
        .unwrap()
        .remove(key);
    object
}

async fn transcript(setup: &Setup) -> Transcript<'_> {
    let mut t = Transcript {
        setup,
        steps: Vec::new(),
        uids: BTreeMap::new(),
    };
    reads(&mut t).await;
    creates(&mut t).await;
    bodies(&mut t).await;
    updates(&mut t).await;
    patches(&mut t).await;
    deletions(&mut t).await;
    collections(&mut t).await;
    paths(&mut t).await;
    watches(&mut t).await;
    t
}

/// A report comes, is changed, comes into a selection and leaves it, comes again and goes.
async fn life(setup: &Setup, name: &str) {
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

async fn watches(t: &mut Transcript<'_>) {
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

async fn reads(t: &mut Transcript<'_>) {
    t.get("empty list", REPORTS).await;
    for name in ["a", "b", "c"] {
        t.post("create", REPORTS, &report(name)).await;
    }
    t.get("get", &item("a")).await;
    t.get("get missing", &item("missing")).await;
    t.get("list", REPORTS).await;
    t.get("list all namespaces", ALL_REPORTS).await;
    t.get("list cluster kind", CLUSTER_REPORTS).await;
    let page = t.get("page", &format!("{REPORTS}?limit=2")).await;
    let token = page["metadata"]["continue"].as_str().unwrap().to_owned();
    t.post(
        "with version",
        REPORTS,
        &with(report("new"), "/metadata/resourceVersion", json!("7")),
    )
    .await;
    let rv = page["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned();
    t.get("next page", &format!("{REPORTS}?limit=2&continue={token}"))
        .await;
    for (step, query) in [
        (
            "token and version",
            format!("continue={token}&resourceVersion={rv}"),
        ),
        ("bad token", "continue=nonsense".to_owned()),
        ("bad token as JSON", "continue=e30".to_owned()),
        ("bad limit", "limit=abc".to_owned()),
        ("negative limit", "limit=-1".to_owned()),
        ("limit ignored at 0", "resourceVersion=0&limit=1".to_owned()),
        (
            "exact",
            format!("resourceVersion={rv}&resourceVersionMatch=Exact"),
        ),
        (
            "not older",
            format!("resourceVersion={rv}&resourceVersionMatch=NotOlderThan"),
        ),
        (
            "match without version",
            "resourceVersionMatch=Exact".to_owned(),
        ),
        (
            "exact 0",
            "resourceVersion=0&resourceVersionMatch=Exact".to_owned(),
        ),
        (
            "bad match",
            "resourceVersion=1&resourceVersionMatch=Near".to_owned(),
        ),
        ("bad version", "resourceVersion=x".to_owned()),
        ("initial events", "sendInitialEvents=true".to_owned()),
        ("label", "labelSelector=app%3Da".to_owned()),
        (
            "label page",
            "labelSelector=app+in+(a,b)&limit=1".to_owned(),
        ),
        ("bad label", "labelSelector=a+in".to_owned()),
        ("bad label value", "labelSelector=a%3D-".to_owned()),
        ("field", "fieldSelector=metadata.name%3Db".to_owned()),
        (
            "namespace field",
            "fieldSelector=metadata.namespace%3Ddefault".to_owned(),
        ),
        ("other field", "fieldSelector=spec.x%3D1".to_owned()),
        ("bad field", "fieldSelector=nonsense".to_owned()),
        ("bad watch", "watch=1&sendInitialEvents=true".to_owned()),
        ("bad watch version", "watch=1&resourceVersion=x".to_owned()),
        ("bad watch timeout", "watch=1&timeoutSeconds=x".to_owned()),
    ] {
        t.get(step, &format!("{REPORTS}?{query}")).await;
    }
    t.get(
        "cluster kind by namespace",
        &format!("{CLUSTER_REPORTS}?fieldSelector=metadata.namespace%3Dx"),
    )
    .await;
    for (step, query) in [
        ("get at 0", "resourceVersion=0"),
        ("get at bad version", "resourceVersion=x"),
        ("get with watch", "watch=1"),
    ] {
        t.get(step, &format!("{}?{query}", item("a"))).await;
    }
    forms(t).await;
}

async fn forms(t: &mut Transcript<'_>) {
    for (step, accept) in [
        ("any", "*/*"),
        (
            "protobuf or JSON",
            "application/vnd.kubernetes.protobuf,application/json",
        ),
        ("protobuf only", "application/vnd.kubernetes.protobuf"),
        ("HTML", "text/html"),
        (
            "unknown form",
            "application/json;as=Picture;g=meta.k8s.io;v=v1,application/json",
        ),
        (
            "partial v1beta1",
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1beta1",
        ),
        (
            "partial list of one",
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        ),
    ] {
        t.accept(step, &item("a"), accept).await;
    }
    let partial =
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
    t.accept("metadata list", REPORTS, partial).await;
    t.accept("metadata page", &format!("{REPORTS}?limit=1"), partial)
        .await;
    let one = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    t.accept("partial of a list", REPORTS, one).await;
    t.accept("metadata", &item("a"), one).await;
    let bad = format!("{REPORTS}?includeObject=Most");
    t.accept(
        "bad includeObject",
        &bad,
        "application/json;as=Table;g=meta.k8s.io;v=v1",
    )
    .await;
}

async fn creates(t: &mut Transcript<'_>) {
    let new = || report("new");
    t.post("taken", REPORTS, &report("a")).await;
    for (step, object) in [
        ("no name", without(new(), "/metadata/name")),
        (
            "upper case name",
            with(new(), "/metadata/name", json!("New")),
        ),
        (
            "long name",
            with(new(), "/metadata/name", json!("n".repeat(254))),
        ),
        ("dots", with(new(), "/metadata/name", json!(".."))),
        ("slash", with(new(), "/metadata/name", json!("a/b"))),
        (
            "bad generateName",
            without(
                with(new(), "/metadata/generateName", json!("Abc-")),
                "/metadata/name",
            ),
        ),
        (
            "other namespace",
            with(new(), "/metadata/namespace", json!("other")),
        ),
        (
            "with version",
            with(new(), "/metadata/resourceVersion", json!("7")),
        ),
        (
            "bad labels",
            with(new(), "/metadata/labels", json!({"-": "b c"})),
        ),
        (
            "bad annotations",
            with(new(), "/metadata/annotations", json!({"a/b/c": "x"})),
        ),
        (
            "large annotations",
            with(
                new(),
                "/metadata/annotations",
                json!({"a": "x".repeat(270_000)}),
            ),
        ),
        (
            "bad owner",
            with(new(), "/metadata/ownerReferences", json!([{"kind": "Pod"}])),
        ),
        (
            "two controllers",
            with(
                new(),
                "/metadata/ownerReferences",
                json!([
                    {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "a", "controller": true},
                    {"apiVersion": "v1", "kind": "Pod", "name": "b", "uid": "b", "controller": true},
                ]),
            ),
        ),
        (
            "bad finalizer",
            with(new(), "/metadata/finalizers", json!(["a b"])),
        ),
        (
            "both finalizers",
            with(
                new(),
                "/metadata/finalizers",
                json!(["orphan", "foregroundDeletion"]),
            ),
        ),
        (
            "bad enumeration",
            with(new(), "/results/0/result", json!("maybe")),
        ),
        (
            "missing policy",
            with(new(), "/results", json!([{"result": "pass"}])),
        ),
        ("wrong type", with(new(), "/results", json!("text"))),
        ("wrong item type", with(new(), "/results", json!(["text"]))),
        (
            "fraction in an integer",
            with(new(), "/summary/pass", json!(1.5)),
        ),
        (
            "text in an integer",
            with(new(), "/summary/pass", json!("1")),
        ),
        (
            "null in an integer",
            with(new(), "/summary/extra", Value::Null),
        ),
        (
            "several errors",
            with(
                with(new(), "/summary/pass", json!("1")),
                "/results/0/result",
                json!("x"),
            ),
        ),
        ("unknown kind", with(new(), "/kind", json!("Thing"))),
        (
            "unknown version",
            with(new(), "/apiVersion", json!("wgpolicyk8s.io/v9")),
        ),
        ("other group", with(new(), "/apiVersion", json!("v1"))),
        ("no kind", without(new(), "/kind")),
        ("no version", without(new(), "/apiVersion")),
        ("number as kind", with(new(), "/kind", json!(7))),
        (
            "labels of wrong type",
            with(new(), "/metadata/labels", json!(7)),
        ),
        (
            "label value of wrong type",
            with(new(), "/metadata/labels", json!({"a": 7})),
        ),
        (
            "metadata of wrong type",
            with(new(), "/metadata", json!("text")),
        ),
    ] {
        t.post(step, &format!("{REPORTS}?dryRun=All"), &object)
            .await;
    }
    t.post(
        "whole float",
        REPORTS,
        &with(report("float"), "/summary/pass", json!(2.0)),
    )
    .await;
    t.post(
        "empty values",
        REPORTS,
        &with(report("empty"), "/metadata/labels", json!({})),
    )
    .await;
    let nulls = with(report("nulls"), "/metadata/annotations", json!({"a": null}));
    t.post("nulls", REPORTS, &nulls).await;
    let overwritten = with(report("over"), "/metadata/uid", json!("mine"));
    t.post(
        "own uid",
        REPORTS,
        &with(overwritten, "/metadata/generation", json!(9)),
    )
    .await;
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "a"});
    let twice = with(
        report("twice"),
        "/metadata/ownerReferences",
        json!([owner, owner]),
    );
    t.post("same owner twice", REPORTS, &twice).await;
    let loose = with(
        report("loose"),
        "/metadata/finalizers",
        json!(["hold", "hold.it"]),
    );
    t.post(
        "unqualified finalizers",
        &format!("{REPORTS}?dryRun=All"),
        &loose,
    )
    .await;
    let unknown = with(
        with(report("unknown"), "/foo", json!(1)),
        "/results/0/bar",
        json!(2),
    );
    let unknown = with(unknown, "/metadata/baz", json!(3));
    t.post("unknown fields", REPORTS, &unknown).await;
    let uri = |query: &str| format!("{REPORTS}?{query}");
    for (step, query) in [
        ("strict", "fieldValidation=Strict&dryRun=All"),
        ("ignored", "fieldValidation=Ignore&dryRun=All"),
        ("bad validation", "fieldValidation=strict"),
        ("bad dry run", "dryRun=Some"),
        ("long manager", &format!("fieldManager={}", "x".repeat(129))),
        ("unprintable manager", "fieldManager=a%0Ab"),
    ] {
        t.post(
            step,
            &uri(query),
            &with(unknown.clone(), "/metadata/name", json!("strict")),
        )
        .await;
    }
    let elsewhere = REPORTS.replace("/default/", "/nowhere/");
    t.post("missing namespace", &elsewhere, &report("a")).await;
    t.post("post to a name", &item("posted"), &report("posted"))
        .await;
    let mut cluster = with(report("c"), "/kind", json!("ClusterPolicyReport"));
    cluster["metadata"]["namespace"] = json!("ignored");
    t.post("cluster kind", CLUSTER_REPORTS, &cluster).await;
    t.delete(
        "cluster kind",
        &format!("{CLUSTER_REPORTS}/c"),
        &Value::Null,
    )
    .await;
}

async fn bodies(t: &mut Transcript<'_>) {
    let large = with(
        report("large"),
        "/results/0/message",
        json!("x".repeat(3 << 20)),
    );
    t.post("too large", REPORTS, &large).await;
    let whole = report("new").to_string();
    for (step, body) in [
        ("empty", ""),
        ("null", "null"),
        ("array", "[]"),
        ("text", "\"text\""),
        ("truncated", &whole[..40]),
        ("trailing", &format!("{whole} x")),
        ("empty object", "{}"),
        (
            "list",
            r#"{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReportList","items":[]}"#,
        ),
    ] {
        t.send(
            step,
            "POST",
            &format!("{REPORTS}?dryRun=All"),
            &[JSON],
            body,
        )
        .await;
    }
    let duplicate = r#"{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport",
        "metadata":{"name":"dup"},"summary":{"pass":1,"pass":2}}"#;
    for query in ["dryRun=All", "dryRun=All&fieldValidation=Strict"] {
        t.send(
            "duplicate key",
            "POST",
            &format!("{REPORTS}?{query}"),
            &[JSON],
            duplicate,
        )
        .await;
    }
    let yaml = "apiVersion: wgpolicyk8s.io/v1alpha2\nkind: PolicyReport\nmetadata:\n  name: yaml\n";
    t.send(
        "YAML",
        "POST",
        &format!("{REPORTS}?dryRun=All"),
        &[YAML],
        yaml,
    )
    .await;
    for type_ in [
        // Not protobuf: the kube-apiserver (1.36) breaks the connection off with a nil pointer.
        "text/plain",
        "application/json; charset=utf-8",
    ] {
        let headers = [("content-type", type_)];
        t.send(
            type_,
            "POST",
            &format!("{REPORTS}?dryRun=All"),
            &headers,
            whole.clone(),
        )
        .await;
    }
}

async fn updates(t: &mut Transcript<'_>) {
    let a = t.get("before updates", &item("a")).await;
    t.put("no-op", &item("a"), &a).await;
    let relabelled = with(a.clone(), "/metadata/labels", json!({"x": "y"}));
    let a = t.put("metadata only", &item("a"), &relabelled).await;
    let changed = t
        .put(
            "content",
            &item("a"),
            &with(a.clone(), "/results", json!([])),
        )
        .await;
    t.put("stale", &item("a"), &a).await;
    let a = changed;
    for (step, object) in [
        (
            "no version",
            without(a.clone(), "/metadata/resourceVersion"),
        ),
        (
            "version 0",
            with(a.clone(), "/metadata/resourceVersion", json!("0")),
        ),
        (
            "version x",
            with(a.clone(), "/metadata/resourceVersion", json!("x")),
        ),
        (
            "other uid",
            with(a.clone(), "/metadata/uid", json!("other")),
        ),
        ("no uid", without(a.clone(), "/metadata/uid")),
        (
            "other name",
            with(a.clone(), "/metadata/name", json!("other")),
        ),
        ("no name", without(a.clone(), "/metadata/name")),
        (
            "other namespace",
            with(a.clone(), "/metadata/namespace", json!("other")),
        ),
        (
            "other creation",
            with(
                a.clone(),
                "/metadata/creationTimestamp",
                json!("2000-01-01T00:00:00Z"),
            ),
        ),
        (
            "deletion time",
            with(
                a.clone(),
                "/metadata/deletionTimestamp",
                json!("2000-01-01T00:00:00Z"),
            ),
        ),
        (
            "grace period",
            with(a.clone(), "/metadata/deletionGracePeriodSeconds", json!(5)),
        ),
        (
            "generation",
            with(a.clone(), "/metadata/generation", json!(50)),
        ),
        (
            "bad labels",
            with(a.clone(), "/metadata/labels", json!({"-": ""})),
        ),
        (
            "bad content",
            with(a.clone(), "/results", json!([{"result": "x"}])),
        ),
        ("other kind", with(a.clone(), "/kind", json!("Thing"))),
        (
            "other version",
            with(a.clone(), "/apiVersion", json!("wgpolicyk8s.io/v9")),
        ),
        (
            "generateName",
            with(a.clone(), "/metadata/generateName", json!("Odd_")),
        ),
    ] {
        t.put(step, &format!("{}?dryRun=All", item("a")), &object)
            .await;
    }
    t.put(
        "missing",
        &item("missing"),
        &with(a.clone(), "/metadata/name", json!("missing")),
    )
    .await;
    t.put("no name in the path", REPORTS, &a).await;
    t.put(
        "bad options",
        &format!("{}?fieldValidation=x&dryRun=y", item("a")),
        &a,
    )
    .await;
    t.get("after updates", &item("a")).await;
}

async fn patches(t: &mut Transcript<'_>) {
    t.merge(
        "merge",
        &item("b"),
        &json!({"metadata": {"labels": {"app": null, "x": "y"}}}),
    )
    .await;
    t.merge(
        "merge no-op",
        &item("b"),
        &json!({"metadata": {"labels": {"x": "y"}}}),
    )
    .await;
    t.merge(
        "merge content",
        &item("b"),
        &json!({"summary": {"pass": 9}}),
    )
    .await;
    for (step, patch) in [
        ("merge array", json!([])),
        ("merge name", json!({"metadata": {"name": "other"}})),
        ("merge no name", json!({"metadata": {"name": null}})),
        (
            "merge namespace",
            json!({"metadata": {"namespace": "other"}}),
        ),
        ("merge uid", json!({"metadata": {"uid": "other"}})),
        (
            "merge old version",
            json!({"metadata": {"resourceVersion": "1"}}),
        ),
        (
            "merge no version",
            json!({"metadata": {"resourceVersion": null}}),
        ),
        ("merge no kind", json!({"kind": null})),
        ("merge kind", json!({"kind": "Thing"})),
        ("merge version", json!({"apiVersion": "wgpolicyk8s.io/v9"})),
        ("merge no metadata", json!({"metadata": null})),
        ("merge bad labels", json!({"metadata": {"labels": 7}})),
        ("merge bad content", json!({"results": [{"result": "x"}]})),
        ("merge unknown field", json!({"foo": 1})),
    ] {
        t.merge(step, &format!("{}?dryRun=All", item("b")), &patch)
            .await;
    }
    t.merge(
        "merge strictly",
        &format!("{}?fieldValidation=Strict", item("b")),
        &json!({"foo": 1}),
    )
    .await;
    t.merge("merge missing", &item("missing"), &json!({})).await;
    t.merge(
        "merge forced",
        &format!("{}?force=true", item("b")),
        &json!({}),
    )
    .await;
    let good = json!([{"op": "test", "path": "/summary/pass", "value": 9},
        {"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}}]);
    t.patch("JSON patch", &item("b"), &good).await;
    for (step, patch) in [
        (
            "failing test",
            json!([{"op": "test", "path": "/summary/pass", "value": 1}]),
        ),
        (
            "missing path",
            json!([{"op": "remove", "path": "/missing"}]),
        ),
        (
            "unknown operation",
            json!([{"op": "jump", "path": "/summary"}]),
        ),
        ("no list", json!({})),
        ("list of numbers", json!([1])),
    ] {
        t.patch(step, &format!("{}?dryRun=All", item("b")), &patch)
            .await;
    }
    let many = vec![json!({"op": "test", "path": "/kind", "value": "PolicyReport"}); 10_001];
    t.patch("too many operations", &item("b"), &json!(many))
        .await;
    t.send("truncated patch", "PATCH", &item("b"), &[MERGE], "{")
        .await;
    t.get("after patches", &item("b")).await;
}

async fn deletions(t: &mut Transcript<'_>) {
    for (step, options) in [
        ("array", json!([])),
        ("other kind", report("b")),
        ("bad dry run", json!({"dryRun": ["Some"]})),
        ("bad policy", json!({"propagationPolicy": "Sideways"})),
        (
            "two policies",
            json!({"propagationPolicy": "Orphan", "orphanDependents": true}),
        ),
        ("other uid", json!({"preconditions": {"uid": "other"}})),
        (
            "other version",
            json!({"preconditions": {"resourceVersion": "1"}}),
        ),
        ("dry run", json!({"dryRun": ["All"]})),
        (
            "foreground dry run",
            json!({"dryRun": ["All"], "propagationPolicy": "Foreground"}),
        ),
    ] {
        t.delete(step, &item("b"), &options).await;
    }
    t.delete(
        "bad query",
        &format!("{}?propagationPolicy=x", item("b")),
        &Value::Null,
    )
    .await;
    t.delete(
        "bad grace period",
        &format!("{}?gracePeriodSeconds=x", item("b")),
        &Value::Null,
    )
    .await;
    t.delete("missing", &item("missing"), &Value::Null).await;
    t.delete(
        "delete",
        &item("b"),
        &json!({"propagationPolicy": "Background"}),
    )
    .await;
    t.delete("again", &item("b"), &Value::Null).await;
    let held = with(
        report("held"),
        "/metadata/finalizers",
        json!(["example.com/x", "example.com/y"]),
    );
    t.post("held", REPORTS, &held).await;
    t.delete("delete held", &item("held"), &Value::Null).await;
    t.delete("again", &item("held"), &Value::Null).await;
    t.delete(
        "orphanDependents",
        &item("held"),
        &json!({"orphanDependents": false}),
    )
    .await;
    t.post("name of a deleted", REPORTS, &report("held")).await;
    let more = json!({"metadata": {"finalizers": ["example.com/x", "example.com/z"]}});
    t.merge("new finalizer", &item("held"), &more).await;
    t.merge(
        "one finalizer",
        &item("held"),
        &json!({"metadata": {"finalizers": ["example.com/x"]}}),
    )
    .await;
    t.merge(
        "no finalizer",
        &item("held"),
        &json!({"metadata": {"finalizers": null}}),
    )
    .await;
    t.get("gone", &item("held")).await;
}

async fn collections(t: &mut Transcript<'_>) {
    t.delete(
        "selected",
        &format!("{REPORTS}?labelSelector=app%3Dc"),
        &Value::Null,
    )
    .await;
    t.delete("limited", &format!("{REPORTS}?limit=1"), &Value::Null)
        .await;
    t.delete(
        "bad field",
        &format!("{REPORTS}?fieldSelector=spec.x%3D1"),
        &Value::Null,
    )
    .await;
    t.delete("dry run", REPORTS, &json!({"dryRun": ["All"]}))
        .await;
    t.delete(
        "all",
        REPORTS,
        &json!({"kind": "DeleteOptions", "apiVersion": "v1"}),
    )
    .await;
    t.get("nothing left", REPORTS).await;
    t.delete("nothing", REPORTS, &Value::Null).await;
}

async fn paths(t: &mut Transcript<'_>) {
    let base = "/apis/wgpolicyk8s.io/v1alpha2";
    for path in [
        format!("{base}/nothing"),
        format!("{base}/policyreports/a"),
        format!("{base}/namespaces/default/clusterpolicyreports"),
        format!("{base}/namespaces/default/clusterpolicyreports/a"),
        format!("{}/status", item("a")),
        format!("{}/scale", item("a")),
        format!("{}/other", item("a")),
        format!("{}/a/b", item("a")),
    ] {
        t.get("path", &path).await;
    }
    t.post("bare create", ALL_REPORTS, &report("a")).await;
    t.delete("bare deletecollection", ALL_REPORTS, &Value::Null)
        .await;
    t.send("OPTIONS", "OPTIONS", REPORTS, &[], "").await;
    t.merge("PATCH on a collection", REPORTS, &json!({})).await;
}
