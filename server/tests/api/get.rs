use insta::assert_snapshot;
use serde_json::json;

use crate::harness::*;

#[tokio::test]
async fn an_object_reads_as_it_was_written() {
    let server = Server::start().await;
    let created = server.created("a").await;
    let got = server.get(&format!("{REPORTS}/a")).await.expect(200);
    assert_eq!(got.headers["content-type"], "application/json");
    assert!(got.body.ends_with(b"}\n"));
    assert_eq!(got.json(), created);
    assert_snapshot!(serde_json::to_string(&steady(got.json())).unwrap(), @r#"{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"creationTimestamp":"<time>","generation":1,"labels":{"app":"a"},"managedFields":[{"apiVersion":"wgpolicyk8s.io/v1alpha2","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:results":{},"f:scope":{},"f:summary":{".":{},"f:error":{},"f:fail":{},"f:pass":{},"f:skip":{},"f:warn":{}}},"manager":"unknown","operation":"Update","time":"<time>"}],"name":"a","namespace":"default","resourceVersion":"<rv>","uid":"<uid>"},"results":[{"policy":"p","result":"pass","rule":"r"}],"scope":{"apiVersion":"v1","kind":"Pod","name":"a"},"summary":{"error":0,"fail":0,"pass":1,"skip":0,"warn":0}}"#);
}

#[tokio::test]
async fn what_is_not_there() {
    let server = Server::start().await;
    let missing = server.get(&format!("{REPORTS}/missing")).await.expect(404);
    assert_snapshot!(missing.text(), @r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"policyreports.wgpolicyk8s.io \"missing\" not found","reason":"NotFound","details":{"name":"missing","group":"wgpolicyk8s.io","kind":"policyreports"},"code":404}"#);
    for path in [
        "/apis/wgpolicyk8s.io/v1alpha2/nothing/a",
        "/apis/wgpolicyk8s.io/v9/policyreports",
        "/apis/wgpolicyk8s.io/v1alpha2/policyreports/a",
        "/apis/wgpolicyk8s.io/v1alpha2/namespaces/default/clusterpolicyreports/a",
    ] {
        assert_eq!(
            server.get(path).await.expect(404).text(),
            "404 page not found\n",
            "{path}"
        );
    }
    let status = server.get(&format!("{REPORTS}/a/status")).await.expect(404);
    assert_eq!(
        status.message(),
        "policyreports.wgpolicyk8s.io \"a\" not found"
    );
}

#[tokio::test]
async fn versions_that_cannot_be_had() {
    let server = Server::start().await;
    let now = rv(&server.created("a").await);
    for good in ["0".to_owned(), "1".to_owned(), now.to_string()] {
        server
            .get(&format!("{REPORTS}/a?resourceVersion={good}"))
            .await
            .expect(200);
    }
    tokio::time::pause();
    let future = server
        .get(&format!("{REPORTS}/a?resourceVersion={}", now + 1000))
        .await
        .expect(504);
    assert_eq!(future.headers["retry-after"], "1");
    let status = future.json();
    assert_eq!(
        status["message"],
        json!(format!(
            "Timeout: Too large resource version: {}, current: {now}",
            now + 1000
        ))
    );
    assert_eq!(
        status["details"]["causes"][0]["reason"],
        "ResourceVersionTooLarge"
    );
    server
        .get(&format!("{REPORTS}/a?resourceVersion=x"))
        .await
        .expect(500);
}

#[tokio::test]
async fn tables_and_metadata() {
    let server = Server::start().await;
    let created = server.created("a").await;
    let accept = |form: &str| format!("application/json;as={form};g=meta.k8s.io;v=v1");
    let table = server
        .request("GET", &format!("{REPORTS}/a"))
        .header("accept", &accept("Table"))
        .send()
        .await
        .expect(200)
        .json();
    assert_eq!(table["kind"], "Table");
    assert_eq!(
        table["metadata"],
        json!({"resourceVersion": created["metadata"]["resourceVersion"]})
    );
    assert_eq!(table["columnDefinitions"][0]["name"], "Name");
    let row = &table["rows"][0];
    assert_eq!(row["cells"][0], "a");
    assert_eq!(row["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(row["object"]["metadata"], created["metadata"]);

    let partial = server
        .request("GET", &format!("{REPORTS}/a"))
        .header("accept", &accept("PartialObjectMetadata"))
        .send()
        .await
        .expect(200)
        .json();
    assert_eq!(
        partial,
        json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
        "metadata": created["metadata"]})
    );

    let list = server
        .request("GET", &format!("{REPORTS}/a"))
        .header("accept", &accept("PartialObjectMetadataList"))
        .send()
        .await
        .expect(500);
    assert_eq!(list.message(), "content is not a list");
    let include = server
        .request("GET", &format!("{REPORTS}/a?includeObject=Most"))
        .header("accept", &accept("Table"))
        .send()
        .await
        .expect(400);
    assert!(
        include
            .message()
            .contains("includeObject: Invalid value: \"Most\"")
    );
}

#[tokio::test]
async fn yaml_and_indented_json() {
    let server = Server::start().await;
    let created = server.created("a").await;
    let yaml = server
        .request("GET", &format!("{REPORTS}/a"))
        .header("accept", "application/yaml")
        .send()
        .await
        .expect(200);
    assert_eq!(yaml.headers["content-type"], "application/yaml");
    assert!(
        yaml.text()
            .starts_with("apiVersion: wgpolicyk8s.io/v1alpha2\nkind: PolicyReport\n")
    );
    let pretty = server
        .get(&format!("{REPORTS}/a?pretty=true"))
        .await
        .expect(200);
    assert!(pretty.text().starts_with("{\n  \"apiVersion\""));
    assert_eq!(pretty.json(), created);
}

#[tokio::test]
async fn text_is_escaped_as_go_does() {
    let server = Server::start().await;
    let mut object = report("a");
    object["results"][0]["message"] = json!("a < b && c > d \u{2028}é");
    let answer = server.post(REPORTS, &object).await.expect(201);
    let want = r#""message":"a \u003c b \u0026\u0026 c \u003e d \u2028é""#;
    assert!(answer.text().contains(want), "{}", answer.text());
    for uri in [format!("{REPORTS}/a"), REPORTS.to_owned()] {
        assert!(server.get(&uri).await.text().contains(want), "{uri}");
    }
}
