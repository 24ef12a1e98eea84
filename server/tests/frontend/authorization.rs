use http::StatusCode;
use serde_json::{Value, json};

use crate::support::client::{as_user, request};
use crate::support::kube_api::KubeApi;
use crate::support::{Options, start};

const OBJECT: &str = "/apis/g.io/v1/namespaces/n/echoes/x";

fn attributes(review: &Value) -> &Value {
    &review["spec"]["resourceAttributes"]
}

#[tokio::test]
async fn one_permission_for_everything_covers_all_requests_of_a_proxied_user() {
    let server = start(Options::default()).await;
    let mut proxy = server.proxy().await;
    for name in ["x", "y", "z"] {
        let path = format!("/apis/g.io/v1/namespaces/{name}/echoes/{name}");
        assert_eq!(
            proxy.send(as_user(&path, "bob")).await.status,
            StatusCode::OK
        );
    }
    let asked = server.kube.asked("subjectaccessreviews");
    assert_eq!(asked.len(), 1);
    let expected = json!({"group": "g.io", "version": "v1", "resource": "echoes", "verb": "get"});
    assert_eq!(attributes(&asked[0]), &expected);
    assert_eq!(asked[0]["spec"]["user"], "bob");
    assert_eq!(asked[0]["spec"]["groups"], json!(["system:authenticated"]));
}

#[tokio::test]
async fn narrower_permissions_are_found_and_refusals_name_the_request() {
    let only_x = |spec: &Value| spec["resourceAttributes"]["name"] == "x";
    let kube = KubeApi::deciding(only_x);
    let server = start(Options {
        kube,
        ..Options::default()
    })
    .await;
    let mut proxy = server.proxy().await;
    assert_eq!(
        proxy.send(as_user(OBJECT, "bob")).await.status,
        StatusCode::OK
    );
    let places: Vec<_> = server
        .kube
        .asked("subjectaccessreviews")
        .iter()
        .map(|review| {
            let at = attributes(review);
            (at["namespace"].clone(), at["name"].clone())
        })
        .collect();
    assert_eq!(
        places,
        [
            (Value::Null, Value::Null),
            (json!("n"), Value::Null),
            (json!("n"), json!("x"))
        ]
    );
    let answer = proxy
        .send(as_user("/apis/g.io/v1/namespaces/n/echoes/y", "bob"))
        .await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    assert_eq!(
        answer.json()["message"],
        "echoes.g.io \"y\" is forbidden: User \"bob\" cannot get resource \"echoes\" in API group \
         \"g.io\" in the namespace \"n\": says the test"
    );
}

#[tokio::test]
async fn a_direct_client_is_asked_about_exactly() {
    let server = start(Options::default()).await;
    let mut client = server.connect(None).await;
    let headers = [("authorization", "Bearer good")];
    assert_eq!(
        client.send(request(OBJECT, &headers)).await.status,
        StatusCode::OK
    );
    let asked = server.kube.asked("subjectaccessreviews");
    assert_eq!(asked.len(), 1);
    assert_eq!(attributes(&asked[0])["namespace"], "n");
    assert_eq!(attributes(&asked[0])["name"], "x");
    assert_eq!(asked[0]["spec"]["uid"], "1");
    assert_eq!(asked[0]["spec"]["extra"], json!({"k": ["v"]}));
}

#[tokio::test]
async fn masters_are_not_asked_about() {
    let kube = KubeApi::deciding(|_| false);
    let server = start(Options {
        kube,
        ..Options::default()
    })
    .await;
    let headers = [
        ("x-remote-user", "admin"),
        ("x-remote-group", "system:masters"),
    ];
    let answer = server.proxy().await.send(request(OBJECT, &headers)).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert!(server.kube.asked("subjectaccessreviews").is_empty());
}

/// kube-aggregator reads `/apis/<group>/<version>` as a user without groups; the role
/// `system:discovery` is bound to `system:authenticated`.
#[tokio::test]
async fn the_aggregator_without_groups_may_discover() {
    let kube = KubeApi::deciding(|spec| {
        let groups = spec["groups"].as_array();
        let path = spec["nonResourceAttributes"]["path"]
            .as_str()
            .unwrap_or_default();
        groups.is_some_and(|all| all.contains(&json!("system:authenticated")))
            && path.starts_with("/apis/")
            && spec["nonResourceAttributes"]["verb"] == "get"
    });
    let server = start(Options {
        kube,
        ..Options::default()
    })
    .await;
    let path = "/apis/wgpolicyk8s.io/v1alpha2";
    let answer = server
        .proxy()
        .await
        .send(as_user(path, "system:kube-aggregator"))
        .await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    assert_eq!(answer.json()["kind"], "APIResourceList");
    let anonymous = server.connect(None).await.get(path).await;
    assert_eq!(anonymous.status, StatusCode::FORBIDDEN);
    assert_eq!(
        anonymous.json()["message"],
        "forbidden: User \"system:anonymous\" cannot get path \"/apis/wgpolicyk8s.io/v1alpha2\": \
         says the test"
    );
}

#[tokio::test]
async fn health_needs_no_permission_and_metrics_do() {
    let kube = KubeApi::deciding(|_| false);
    let server = start(Options {
        kube,
        ..Options::default()
    })
    .await;
    let mut client = server.connect(None).await;
    for path in ["/livez", "/readyz", "/healthz"] {
        assert_eq!(client.get(path).await.body, "ok", "{path}");
    }
    for path in ["/metrics", "/version", "/apis", "/openapi/v3", "/nowhere"] {
        assert_eq!(
            client.get(path).await.status,
            StatusCode::FORBIDDEN,
            "{path}"
        );
    }
}

#[tokio::test]
async fn the_same_question_at_the_same_time_is_asked_once() {
    let server = start(Options::default()).await;
    server
        .kube
        .gate
        .forget_permits(tokio::sync::Semaphore::MAX_PERMITS);
    let clients = (0..8).map(|_| async {
        let mut proxy = server.proxy().await;
        proxy
            .send(as_user("/apis/g.io/v1/echoes", "bob"))
            .await
            .status
    });
    let open = async {
        while server.kube.asked("subjectaccessreviews").is_empty() {
            tokio::task::yield_now().await;
        }
        server.kube.gate.add_permits(1);
    };
    let (codes, ()) = tokio::join!(futures::future::join_all(clients), open);
    assert!(
        codes.iter().all(|code| *code == StatusCode::OK),
        "{codes:?}"
    );
    assert_eq!(server.kube.asked("subjectaccessreviews").len(), 1);
}

/// With the clock of the test, so that the pauses between attempts cost nothing.
#[tokio::test(start_paused = true)]
async fn a_review_that_fails_is_tried_again_and_then_refuses() {
    use reports_server::auth::{Attributes, Authorizer, Decision, SubjectAccess};
    use reports_server::telemetry::Metrics;
    use std::sync::atomic::{AtomicU32, Ordering};

    let failures = std::sync::Arc::new(AtomicU32::new(2));
    let left = failures.clone();
    let kube = KubeApi::new(move |_, body| {
        let failing = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        if failing.is_ok() {
            return (
                503,
                json!({"kind": "Status", "status": "Failure", "code": 503,
                "message": "down", "reason": "ServiceUnavailable"}),
            );
        }
        (
            201,
            json!({"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": {},
            "spec": {}, "status": {"allowed": true}}),
        )
    });
    let access = SubjectAccess::new(kube.client(), Metrics::new().reviews);
    let question = Attributes {
        verb: "get".to_owned(),
        ..Attributes::default()
    };
    assert_eq!(access.authorize(&question).await, Ok(Decision::Allow));
    assert_eq!(kube.asked("subjectaccessreviews").len(), 3);

    failures.store(u32::MAX, Ordering::SeqCst);
    let other = Attributes {
        verb: "list".to_owned(),
        ..Attributes::default()
    };
    assert!(access.authorize(&other).await.is_err());
    assert_eq!(kube.asked("subjectaccessreviews").len(), 8);
}
