use base64::Engine as _;
use crds::control::GateState;
use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::harness::*;

async fn with_reports(names: &[&str]) -> Server {
    let server = Server::start().await;
    for name in names {
        server.created(name).await;
    }
    server
}

#[tokio::test]
async fn an_empty_list_has_a_version() {
    let server = Server::start().await;
    let list = server.get(REPORTS).await.expect(200);
    assert_snapshot!(serde_json::to_string(&steady(list.json())).unwrap(), @r#"{"apiVersion":"wgpolicyk8s.io/v1alpha2","items":[],"kind":"PolicyReportList","metadata":{"continue":"","resourceVersion":"<rv>"}}"#);
    assert!(rv(&list.json()) > 0);
    assert!(list.body.ends_with(b"}\n"));
}

#[tokio::test]
async fn objects_are_ordered_and_whole() {
    let server = with_reports(&["b", "a", "c"]).await;
    let other = ALL_REPORTS.replace("/policyreports", "/namespaces/another/policyreports");
    server.post(&other, &report("z")).await.expect(201);
    let list = server.get(REPORTS).await.expect(200).json();
    assert_eq!(names(&list), ["a", "b", "c"]);
    assert_eq!(
        list["items"][0],
        server.get(&format!("{REPORTS}/a")).await.json()
    );
    let all = server.get(ALL_REPORTS).await.expect(200).json();
    assert_eq!(names(&all), ["z", "a", "b", "c"]);
    assert!(
        rv(&all)
            >= all["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(rv)
                .max()
                .unwrap()
    );
}

#[tokio::test]
async fn pages_stay_at_their_version() {
    let server = with_reports(&["a", "b", "c", "d", "e"]).await;
    let first = server
        .get(&format!("{REPORTS}?limit=2"))
        .await
        .expect(200)
        .json();
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    server.delete(&format!("{REPORTS}/d")).await.expect(200);
    server.created("bb").await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = server
        .get(&format!("{REPORTS}?limit=2&continue={token}"))
        .await
        .expect(200)
        .json();
    assert_eq!(names(&second), ["c", "d"]);
    assert_eq!(second["metadata"]["remainingItemCount"], 1);
    assert_eq!(rv(&second), rv(&first));
    let token = second["metadata"]["continue"].as_str().unwrap();
    let last = server
        .get(&format!("{REPORTS}?limit=2&continue={token}"))
        .await
        .expect(200)
        .json();
    assert_eq!(names(&last), ["e"]);
    assert_eq!(last["metadata"]["continue"], "");
    assert_eq!(last["metadata"].get("remainingItemCount"), None);
}

#[tokio::test]
async fn pages_of_a_selection_and_of_all_namespaces() {
    let server = Server::start().await;
    for (index, namespace) in ["n1", "n2", "n1", "n2", "n1", "n2"].iter().enumerate() {
        let mut object = report(&format!("r{index}"));
        object["metadata"]["labels"]["odd"] = json!((index % 2 == 1).to_string());
        let uri = format!("/apis/wgpolicyk8s.io/v1alpha2/namespaces/{namespace}/policyreports");
        server.post(&uri, &object).await.expect(201);
    }
    let mut token = String::new();
    let mut seen = Vec::new();
    for _ in 0..4 {
        let uri = format!("{ALL_REPORTS}?limit=2&labelSelector=odd%3D%3Dtrue&continue={token}");
        let page = server.get(&uri).await.expect(200).json();
        seen.extend(names(&page));
        assert_eq!(page["metadata"].get("remainingItemCount"), None);
        page["metadata"]["continue"]
            .as_str()
            .unwrap()
            .clone_into(&mut token);
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(seen, ["r1", "r3", "r5"]);
    assert_eq!(token, "");
}

#[tokio::test]
async fn selectors() {
    let server = with_reports(&["a", "b", "c"]).await;
    for (query, expected) in [
        ("labelSelector=app%3Da", vec!["a"]),
        ("labelSelector=app+in+(a,c)", vec!["a", "c"]),
        ("labelSelector=app!%3Da", vec!["b", "c"]),
        ("labelSelector=!app", vec![]),
        ("fieldSelector=metadata.name%3Db", vec!["b"]),
        ("fieldSelector=metadata.name!%3Db", vec!["a", "c"]),
        ("fieldSelector=metadata.namespace%3Dother", vec![]),
        (
            "fieldSelector=metadata.name%3Db&labelSelector=app%3Da",
            vec![],
        ),
    ] {
        let list = server
            .get(&format!("{REPORTS}?{query}"))
            .await
            .expect(200)
            .json();
        assert_eq!(names(&list), expected, "{query}");
        let all = server
            .get(&format!("{ALL_REPORTS}?{query}"))
            .await
            .expect(200)
            .json();
        assert_eq!(names(&all), expected, "{query}");
    }
    let uri = format!("{ALL_REPORTS}?fieldSelector=metadata.namespace%3Ddefault,metadata.name%3Da");
    assert_eq!(names(&server.get(&uri).await.expect(200).json()), ["a"]);
    for bad in ["labelSelector=a+in", "fieldSelector=spec.x%3D1"] {
        server.get(&format!("{REPORTS}?{bad}")).await.expect(400);
    }
}

#[tokio::test]
async fn an_indexed_label_finds_the_same_as_a_scan() {
    let server = Server::start().await;
    let key = "audit.kyverno.io/resource.uid";
    for (name, uid) in [("a", "u1"), ("b", "u2"), ("c", "u1")] {
        let mut object = report(name);
        object["metadata"]["labels"][key] = json!(uid);
        server.post(REPORTS, &object).await.expect(201);
    }
    let query = "labelSelector=audit.kyverno.io%2Fresource.uid%3Du1";
    for uri in [REPORTS, ALL_REPORTS] {
        let list = server
            .get(&format!("{uri}?{query}"))
            .await
            .expect(200)
            .json();
        assert_eq!(names(&list), ["a", "c"]);
    }
    let page = server
        .get(&format!("{REPORTS}?{query}&limit=1"))
        .await
        .expect(200)
        .json();
    assert_eq!(names(&page), ["a"]);
    let token = page["metadata"]["continue"].as_str().unwrap();
    let next = server
        .get(&format!("{REPORTS}?{query}&limit=1&continue={token}"))
        .await
        .json();
    assert_eq!(names(&next), ["c"]);
    let changed = json!({"metadata": {"labels": {key: "u2"}}});
    server
        .merge_patch(&format!("{REPORTS}/a"), &changed)
        .await
        .expect(200);
    assert_eq!(
        names(&server.get(&format!("{REPORTS}?{query}")).await.json()),
        ["c"]
    );
}

#[tokio::test]
async fn versions() {
    let server = with_reports(&["a"]).await;
    let before = rv(&server.get(REPORTS).await.json());
    server.created("b").await;
    let list = |query: String| {
        let server = &server;
        async move { server.get(&format!("{REPORTS}?{query}")).await }
    };
    let exact = format!("resourceVersion={before}&resourceVersionMatch=Exact");
    let exact = list(exact).await.expect(200).json();
    assert_eq!((names(&exact), rv(&exact)), (vec!["a".to_owned()], before));
    let legacy = list(format!("resourceVersion={before}&limit=5"))
        .await
        .expect(200)
        .json();
    assert_eq!(names(&legacy), ["a"]);
    let newer = format!("resourceVersion={before}&resourceVersionMatch=NotOlderThan&limit=1");
    let newer = list(newer).await.expect(200).json();
    assert_eq!(names(&newer), ["a"]);
    assert!(rv(&newer) > before);
    let any = list("resourceVersion=0&limit=1".to_owned())
        .await
        .expect(200)
        .json();
    assert_eq!(names(&any), ["a", "b"]);
    tokio::time::pause();
    for query in [
        "",
        "&resourceVersionMatch=Exact",
        "&resourceVersionMatch=NotOlderThan",
    ] {
        let answer = list(format!("resourceVersion=999999{query}"))
            .await
            .expect(504);
        assert!(
            answer
                .message()
                .starts_with("Timeout: Too large resource version: 999999")
        );
    }
}

#[tokio::test]
async fn nonsense_is_refused_with_the_reason() {
    let server = with_reports(&["a", "b"]).await;
    let page = server.get(&format!("{REPORTS}?limit=1")).await.json();
    let token = page["metadata"]["continue"].as_str().unwrap();
    for (query, code, words) in [
        (
            "limit=abc".to_owned(),
            400,
            "strconv.ParseInt: parsing \"abc\": invalid syntax",
        ),
        (
            "continue=nonsense".to_owned(),
            400,
            "continue key is not valid",
        ),
        (
            format!("continue={token}&resourceVersion=1"),
            400,
            "specifying resource version",
        ),
        (
            "resourceVersion=x".to_owned(),
            400,
            "invalid resource version",
        ),
        (
            "resourceVersionMatch=Exact".to_owned(),
            422,
            "forbidden unless resourceVersion",
        ),
        (
            "sendInitialEvents=true".to_owned(),
            422,
            "sendInitialEvents is forbidden for list",
        ),
    ] {
        let answer = server.get(&format!("{REPORTS}?{query}")).await.expect(code);
        assert!(
            answer.message().contains(words),
            "{query}: {}",
            answer.message()
        );
    }
}

#[tokio::test]
async fn a_token_of_a_forgotten_version_goes_on_with_the_newest() {
    let server = Server::start_closed(|_| {}).await;
    server.store.raise_floor(1000).await.unwrap();
    server
        .set_gate("policyreports.wgpolicyk8s.io", GateState::Open)
        .await;
    for name in ["a", "b", "c"] {
        server.created(name).await;
    }
    // As the kube-apiserver made it long before the switch.
    let token = base64::engine::general_purpose::URL_SAFE_NO_PAD
        .encode(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"a\u0000"}"#);
    let uri = format!("{REPORTS}?limit=1&continue={token}");
    let expired = server.get(&uri).await.expect(410).json();
    assert_eq!(expired["reason"], "Expired");
    let next = expired["metadata"]["continue"].as_str().unwrap();
    let uri = format!("{REPORTS}?limit=1&continue={next}");
    let page = server.get(&uri).await.expect(200).json();
    assert_eq!(names(&page), ["b"]);
    assert!(rv(&page) > 1000);
    let exact = format!("{REPORTS}?resourceVersion=1&resourceVersionMatch=Exact");
    let gone = server.get(&exact).await.expect(410);
    assert_eq!(
        gone.message(),
        "The resourceVersion for the provided list is too old."
    );
}

#[tokio::test]
async fn metadata_lists_as_the_controllers_ask_for_them() {
    let server = with_reports(&["a", "b"]).await;
    let ask = |accept: &'static str| {
        let request = server.request("GET", ALL_REPORTS).header("accept", accept);
        async move { request.send().await.expect(200) }
    };
    let protobuf = ask(
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
        application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
    )
    .await;
    let kind = &protobuf.headers["content-type"];
    assert_eq!(kind, "application/vnd.kubernetes.protobuf");
    assert!(protobuf.body.starts_with(b"k8s\0"));
    let answer =
        ask("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json")
            .await;
    let list = answer.expect(200).json();
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(list["apiVersion"], "meta.k8s.io/v1");
    assert_eq!(names(&list), ["a", "b"]);
    assert_eq!(list["items"][0]["kind"], "PartialObjectMetadata");
    assert_eq!(list["items"][0].get("results"), None);
    assert_eq!(list["metadata"].get("continue"), None);
    assert!(rv(&list) > 0);
}

#[tokio::test]
async fn tables_as_kubectl_asks_for_them() {
    let server = with_reports(&["a", "b"]).await;
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,\
        application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
    let ask = |query: &str| {
        let uri = format!("{REPORTS}?limit=500{query}");
        let request = server.request("GET", &uri).header("accept", accept);
        async move { request.send().await.expect(200).json() }
    };
    let table = ask("").await;
    let columns: Vec<_> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        columns,
        [
            "Name", "Kind", "Name", "Pass", "Fail", "Warn", "Error", "Skip", "Age"
        ]
    );
    let cells = |row: usize| table["rows"][row]["cells"].as_array().unwrap()[..8].to_vec();
    assert_eq!(
        Value::from(cells(0)),
        json!(["a", "Pod", "a", 1, 0, 0, 0, 0])
    );
    assert_eq!(table["rows"][1]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(
        ask("&includeObject=None").await["rows"][0]["object"],
        Value::Null
    );
    assert_eq!(
        ask("&includeObject=Object").await["rows"][0]["object"]["kind"],
        "PolicyReport"
    );
    let yaml = server
        .request("GET", REPORTS)
        .header("accept", "application/yaml")
        .send()
        .await
        .expect(200);
    assert!(yaml.text().contains("kind: PolicyReportList"));
}

#[tokio::test]
async fn a_large_list_is_streamed_whole() {
    let server = Server::start().await;
    let text = "x".repeat(200_000);
    for index in 0..8 {
        let mut object = report(&format!("r{index}"));
        object["results"][0]["message"] = json!(text);
        server.post(REPORTS, &object).await.expect(201);
    }
    let list = server.get(REPORTS).await.expect(200);
    assert!(!list.headers.contains_key("content-length"));
    assert!(list.body.len() > 8 * text.len());
    let list = list.json();
    assert_eq!(names(&list).len(), 8);
    assert_eq!(list["items"][7]["results"][0]["message"], json!(text));
}

#[tokio::test]
async fn head_and_other_methods() {
    let server = with_reports(&["a"]).await;
    server.request("HEAD", REPORTS).send().await.expect(200);
    let options = server.request("OPTIONS", REPORTS).send().await.expect(405);
    assert_eq!(options.json()["reason"], "MethodNotAllowed");
    server.put(REPORTS, &report("a")).await.expect(400);
    let no_name = server.merge_patch(REPORTS, &json!({})).await.expect(400);
    assert_eq!(no_name.message(), "name must be provided");
    for method in ["DELETE", "POST"] {
        server
            .request(method, ALL_REPORTS)
            .json(&json!({}))
            .send()
            .await
            .expect(404);
    }
}
