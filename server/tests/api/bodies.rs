//! Hostile bodies: each is answered with a Status, none ends the server.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::harness::*;

async fn refused(server: &Server, body: impl Into<bytes::Bytes>) -> Answer {
    let request = server
        .request("POST", REPORTS)
        .header("content-type", "application/json");
    request.body(body).send().await.expect(400)
}

#[tokio::test]
async fn what_is_no_object() {
    let server = Server::start().await;
    let whole = report("a").to_string();
    for body in [
        "",
        " ",
        "null",
        "true",
        "7",
        "\"text\"",
        "[]",
        "{",
        "{]",
        "{\"kind\":1}",
        "{\"kind\":\"PolicyReport\"",
        "\u{0}",
        "{}",
    ] {
        let answer = refused(&server, body).await;
        assert_eq!(answer.json()["reason"], "BadRequest", "{body}");
        assert!(
            answer.message().contains("must be of type PolicyReport"),
            "{body}: {}",
            answer.message()
        );
    }
    for end in (1..whole.len()).step_by(7) {
        refused(&server, whole[..end].to_owned()).await;
    }
    refused(&server, format!("{whole} trailing")).await;
    refused(&server, vec![0xff, 0xfe, b'{', b'}']).await;
    server.get(REPORTS).await.expect(200);
}

#[tokio::test]
async fn empty_and_unknown_types() {
    let server = Server::start().await;
    let empty = refused(&server, "").await;
    assert!(
        empty.message().ends_with("(<empty>)"),
        "{}",
        empty.message()
    );
    let mut object = report("a");
    object.as_object_mut().unwrap().remove("apiVersion");
    let answer = refused(&server, object.to_string()).await;
    assert_eq!(
        answer.message(),
        "the API version in the data () does not match the expected API version \
         (wgpolicyk8s.io/v1alpha2)"
    );
    let answer = server.request("POST", &format!("{REPORTS}?fieldValidation=Ignore"));
    let answer = answer.header("content-type", "application/json");
    let answer = answer
        .body(" {\"KIND\":\"Thing\"}\n")
        .send()
        .await
        .expect(400);
    assert_eq!(
        answer.message(),
        "Thing in version \"v1alpha2\" cannot be handled as a PolicyReport: \
         Object 'Kind' is missing in '{\"KIND\":\"Thing\"}'"
    );
    let list =
        json!({"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReportList", "items": []});
    server.post(REPORTS, &list).await.expect(422);
    let mut metadata = report("a");
    metadata["metadata"]["labels"] = json!(1);
    let answer = refused(&server, metadata.to_string()).await;
    assert!(
        answer
            .message()
            .contains("cannot be handled as a PolicyReport")
    );
    for metadata in [
        json!("text"),
        json!([]),
        json!({"name": 7}),
        json!({"ownerReferences": {}}),
    ] {
        let mut object = report("a");
        object["metadata"] = metadata;
        refused(&server, object.to_string()).await;
    }
}

#[tokio::test]
async fn deep_and_wide() {
    let server = Server::start().await;
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        refused(&server, open.repeat(100_000)).await;
        refused(
            &server,
            format!("{}1{}", open.repeat(100_000), close.repeat(100_000)),
        )
        .await;
    }
    let mut wide = report("wide");
    wide["results"] = Value::from(vec![json!({"policy": "p"}); 20_000]);
    server.post(REPORTS, &wide).await.expect(201);
    let many: serde_json::Map<String, Value> = (0..20_000)
        .map(|i| (format!("unknown{i}"), Value::Null))
        .collect();
    let mut unknown = report("unknown");
    unknown.as_object_mut().unwrap().extend(many);
    let answer = server.post(REPORTS, &unknown).await.expect(201);
    let sum: usize = answer.warnings().iter().map(String::len).sum();
    assert!(sum < 8 * 1024, "{sum}");
}

#[tokio::test]
async fn duplicate_keys() {
    let server = Server::start().await;
    let body = r#"{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport",
        "metadata":{"name":"a","name":"b"},"summary":{"pass":1,"pass":2}}"#;
    let post = |uri: String| {
        server
            .request("POST", &uri)
            .header("content-type", "application/json")
            .body(body)
            .send()
    };
    let strict = post(format!("{REPORTS}?fieldValidation=Strict"))
        .await
        .expect(400);
    assert!(
        strict.message().contains("duplicate field"),
        "{}",
        strict.message()
    );
    let warned = post(REPORTS.to_owned()).await.expect(201);
    assert_eq!(warned.warnings().len(), 2);
    assert_eq!(warned.json()["metadata"]["name"], "b");
}

#[tokio::test]
async fn yaml_that_is_none() {
    let server = Server::start().await;
    for body in ["a: b: c", "- [", "\t", "a: &x [*x]", "%", "---\n...\n---"] {
        let request = server
            .request("POST", REPORTS)
            .header("content-type", "application/yaml");
        request.body(body).send().await.expect(400);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is sent, the answer is a Status or an object, and the next request is served.
    #[test]
    fn any_json_is_answered(body in any_json()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server = Server::start().await;
            let stored = server.created("a").await;
            let mut object = stored.clone();
            object["results"] = body.clone();
            let item = format!("{REPORTS}/a");
            let mut spoiled = report("b");
            spoiled["metadata"] = body.clone();
            for answer in [
                server.post(REPORTS, &body).await,
                server.post(REPORTS, &spoiled).await,
                server.put(&item, &object).await,
                server.merge_patch(&item, &body).await,
                server.json_patch(&item, &body).await,
                server.request("DELETE", &format!("{REPORTS}/missing")).json(&body).send().await,
            ] {
                assert!(answer.code != 500 || answer.message().contains("resourceVersion"),
                    "{}", answer.text());
                answer.json();
            }
            server.get(REPORTS).await.expect(200);
        });
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z/~<&\u{0}-]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        let key = prop_oneof![
            Just("metadata"),
            Just("kind"),
            Just("name"),
            Just("labels"),
            Just("results"),
            Just("op"),
            Just("path"),
            Just("value"),
            Just("resourceVersion"),
            Just("finalizers"),
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..6).prop_map(|pairs| {
                Value::Object(pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
            }),
        ]
    })
}
