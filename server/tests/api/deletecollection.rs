use serde_json::json;

use crate::harness::*;

async fn with_reports(count: usize) -> Server {
    let server = Server::start().await;
    for index in 0..count {
        server.created(&format!("r{index}")).await;
    }
    server
}

#[tokio::test]
async fn everything_goes_before_the_answer_comes() {
    let server = with_reports(150).await;
    let other = ALL_REPORTS.replace("/policyreports", "/namespaces/other/policyreports");
    server.post(&other, &report("stays")).await.expect(201);
    let from = rv(&server.get(REPORTS).await.json());
    // As the namespace controller does it.
    let answer = server
        .request("DELETE", REPORTS)
        .header("accept", "application/vnd.kubernetes.protobuf,application/json")
        .json(&json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}))
        .send()
        .await
        .expect(200)
        .json();
    assert_eq!(answer["kind"], "PolicyReportList");
    assert_eq!(names(&answer).len(), 150);
    assert_eq!(names(&server.get(REPORTS).await.json()), [""; 0]);
    assert_eq!(names(&server.get(&other).await.json()), ["stays"]);
    let mut watch = server
        .watch(&format!("{REPORTS}?watch=1&resourceVersion={from}"))
        .await;
    for _ in 0..150 {
        assert_eq!(watch.next().await.unwrap()["type"], "DELETED");
    }
    let empty = server.delete(REPORTS).await.expect(200).json();
    assert_eq!(empty["items"], json!([]));
}

#[tokio::test]
async fn selections_and_pages() {
    let server = with_reports(5).await;
    let one = server
        .delete(&format!("{REPORTS}?labelSelector=app%3Dr1"))
        .await
        .expect(200)
        .json();
    assert_eq!(names(&one), ["r1"]);
    let named = format!("{REPORTS}?fieldSelector=metadata.name%3Dr3");
    assert_eq!(
        names(&server.delete(&named).await.expect(200).json()),
        ["r3"]
    );
    let page = server
        .delete(&format!("{REPORTS}?limit=1"))
        .await
        .expect(200)
        .json();
    assert_eq!(names(&page), ["r0"]);
    assert_eq!(names(&server.get(REPORTS).await.json()), ["r2", "r4"]);
    server
        .delete(&format!("{REPORTS}?dryRun=All"))
        .await
        .expect(200);
    assert_eq!(names(&server.get(REPORTS).await.json()), ["r2", "r4"]);
    server
        .delete(&format!("{REPORTS}?fieldSelector=spec.x%3D1"))
        .await
        .expect(400);
}

#[tokio::test]
async fn objects_with_finalizers_wait() {
    let server = with_reports(1).await;
    let mut held = report("held");
    held["metadata"]["finalizers"] = json!(["example.com/x"]);
    server.post(REPORTS, &held).await.expect(201);
    server.delete(REPORTS).await.expect(200);
    let left = server.get(REPORTS).await.json();
    assert_eq!(names(&left), ["held"]);
    assert!(left["items"][0]["metadata"]["deletionTimestamp"].is_string());
}
