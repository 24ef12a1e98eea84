use http::StatusCode;
use rcgen::ExtendedKeyUsagePurpose;
use reports_server::auth::FrontProxyConfig;
use rstest::rstest;
use serde_json::json;

use crate::support::client::{as_user, request};
use crate::support::kube_api::KubeApi;
use crate::support::pki::{Ca, Pki};
use crate::support::{Options, start};

const PATH: &str = "/apis/g.io/v1/echoes";

#[tokio::test]
async fn the_front_proxy_speaks_for_its_users() {
    let server = start(Options::default()).await;
    let headers = [
        ("x-remote-user", "bob"),
        ("x-remote-uid", "u-1"),
        ("x-remote-group", "devs"),
        ("x-remote-group", "system:authenticated"),
        ("x-remote-extra-scopes%2Fmore", "a"),
        ("x-remote-extra-scopes%2Fmore", "b"),
        ("user-agent", "test"),
        ("audit-id", "audit-1"),
    ];
    let answer = server.proxy().await.send(request(PATH, &headers)).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    let seen = answer.json();
    assert_eq!(seen["user"], "bob");
    assert_eq!(seen["uid"], "u-1");
    assert_eq!(seen["groups"], json!(["devs", "system:authenticated"]));
    assert_eq!(seen["extra"], json!({"scopes/more": ["a", "b"]}));
    assert_eq!(seen["requestId"], "audit-1");
    assert_eq!(seen["headers"], json!(["audit-id", "user-agent"]));
}

#[tokio::test]
async fn forged_headers_without_a_certificate_are_ignored() {
    let server = start(Options::default()).await;
    let forged = [
        ("x-remote-user", "admin"),
        ("x-remote-group", "system:masters"),
        ("x-remote-extra-a", "b"),
    ];
    let mut client = server.connect(None).await;
    let seen = client.send(request(PATH, &forged)).await.json();
    assert_eq!(seen["user"], "system:anonymous");
    assert_eq!(seen["groups"], json!(["system:unauthenticated"]));
    assert_eq!(seen["headers"], json!([]));
    // A token proves its owner, not the headers beside it.
    let mut with_token = forged.to_vec();
    with_token.push(("authorization", "Bearer good"));
    let seen = client.send(request(PATH, &with_token)).await.json();
    assert_eq!(seen["user"], "alice");
    assert_eq!(seen["groups"], json!(["devs", "system:authenticated"]));
}

#[derive(Clone, Copy)]
enum Wrong {
    Ca,
    Name,
    Usage,
}

#[rstest]
#[case(Wrong::Ca)]
#[case(Wrong::Name)]
#[case(Wrong::Usage)]
#[tokio::test]
async fn other_certificates_prove_nothing(#[case] wrong: Wrong) {
    let server = start(Options::default()).await;
    let ca = &server.pki.front_proxy;
    let leaf = match wrong {
        Wrong::Ca => Ca::new("front-proxy").client("front-proxy-client"),
        Wrong::Name => ca.client("kubelet"),
        Wrong::Usage => ca.issue("front-proxy-client", ExtendedKeyUsagePurpose::ServerAuth),
    };
    // The handshake goes through: a client with a token may show whatever certificate it has.
    let mut client = server.connect(Some(&leaf)).await;
    let answer = client.send(as_user(PATH, "bob")).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    assert_eq!(answer.json()["reason"], "Unauthorized");
    let headers = [("x-remote-user", "bob"), ("authorization", "Bearer good")];
    assert_eq!(
        client.send(request(PATH, &headers)).await.json()["user"],
        "alice"
    );
}

#[tokio::test]
async fn a_new_front_proxy_ca_counts_at_once_also_on_open_connections() {
    let server = start(Options::default()).await;
    let mut old = server.proxy().await;
    assert_eq!(old.send(as_user(PATH, "bob")).await.status, StatusCode::OK);
    let next = Pki::new();
    let config = FrontProxyConfig::parse(&next.front_proxy_config()).unwrap();
    server.front_proxy.store(config.into());
    assert_eq!(
        old.send(as_user(PATH, "bob")).await.status,
        StatusCode::UNAUTHORIZED
    );
    let mut new = server.connect(Some(&next.proxy())).await;
    assert_eq!(new.send(as_user(PATH, "bob")).await.json()["user"], "bob");
}

#[tokio::test]
async fn before_the_configuration_is_read_a_proxy_is_told_to_come_back() {
    let server = start(Options {
        front_proxy: false,
        ..Options::default()
    })
    .await;
    let answer = server.proxy().await.send(as_user(PATH, "bob")).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.header("retry-after"), "1");
    assert_eq!(answer.json()["reason"], "ServiceUnavailable");
}

#[tokio::test]
async fn tokens_are_reviewed_once_and_bad_ones_refused() {
    let server = start(Options::default()).await;
    let mut client = server.connect(None).await;
    for _ in 0..3 {
        let answer = client
            .send(request(PATH, &[("authorization", "Bearer good")]))
            .await;
        assert_eq!(answer.json()["extra"], json!({"k": ["v"]}));
        let answer = client
            .send(request(PATH, &[("authorization", "Bearer bad")]))
            .await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
        assert_eq!(answer.json()["message"], "Unauthorized");
    }
    assert_eq!(server.kube.asked("tokenreviews").len(), 2);
}

#[tokio::test]
async fn a_review_that_is_refused_is_an_error_and_no_anonymous_request() {
    let kube = KubeApi::new(|path, _| {
        assert!(path.ends_with("tokenreviews"), "asked {path}");
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
            "message": "no rights", "reason": "Forbidden", "code": 403});
        (403, status)
    });
    let server = start(Options {
        kube,
        ..Options::default()
    })
    .await;
    let mut client = server.connect(None).await;
    let answer = client
        .send(request(PATH, &[("authorization", "Bearer good")]))
        .await;
    assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(answer.json()["reason"], "InternalError");
}

#[tokio::test]
async fn impersonation_is_refused_on_direct_connections() {
    let server = start(Options::default()).await;
    let headers = [
        ("authorization", "Bearer good"),
        ("impersonate-user", "admin"),
    ];
    let answer = server
        .connect(None)
        .await
        .send(request(PATH, &headers))
        .await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
}
