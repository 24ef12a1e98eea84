//! Old connections are left by their clients, and nothing that runs on them notices.

use std::time::Duration;

use axum::body::Body;
use futures::FutureExt;
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use crate::support::client::{as_user, connect_tls, request};
use crate::support::pki::SERVER_NAME;
use crate::support::{Options, TestServer, start};

/// A server beside which others come all the time.
async fn aging(millis: u64) -> TestServer {
    let (arrivals, arrived) = watch::channel(0);
    tokio::spawn(async move {
        while arrivals.send(0).is_ok() {
            sleep(Duration::from_millis(10)).await;
        }
    });
    start(Options {
        connection_age: Duration::from_millis(millis),
        arrivals: Some(arrived),
        ..Options::default()
    })
    .await
}

impl TestServer {
    fn aged(&self) -> bool {
        let metrics = self.metrics.encode().unwrap();
        metrics.contains("connections_aged_total 1")
    }
}

#[tokio::test]
async fn http2_clients_are_told_to_go_and_nothing_is_cut() {
    let server = aging(300).await;
    let mut proxy = server.proxy().await;
    let watch = proxy.open(as_user("/apis/g.io/v1/watches?watch=1", "bob"));
    let mut watch = watch.await.unwrap().into_body();
    let first = watch.frame().await.unwrap().unwrap();
    assert_eq!(first.data_ref().unwrap(), "{}\n");
    server.api.arrived.notified().await;
    let held = tokio::spawn(proxy.begin(as_user("/apis/g.io/v1/gates", "bob")));
    server.api.arrived.notified().await;
    let mut answered = 0;
    // A client that has heard of the end sends nothing any more; whatever it has sent is answered.
    while let Ok(answer) = proxy.open(as_user("/apis/g.io/v1/things", "bob")).await {
        assert_eq!(answer.status(), StatusCode::OK);
        let body = answer.into_body().collect().await.unwrap();
        assert!(!body.to_bytes().is_empty());
        answered += 1;
    }
    assert!(answered > 0 && server.aged());
    // What had begun goes on.
    server.api.gate.notify_one();
    assert_eq!(held.await.unwrap().unwrap().status(), StatusCode::OK);
    assert!(watch.frame().now_or_never().is_none());
    // Another connection serves at once, and the old one ends with its last stream.
    let answer = server.proxy().await.get("/livez").await;
    assert_eq!(answer.status, StatusCode::OK);
    server.drain.cancel();
    assert_eq!(watch.collect().await.unwrap().to_bytes(), "");
    proxy.closed.await.unwrap();
    assert!(server.ended.await.unwrap());
}

#[tokio::test]
async fn http2_clients_are_told_in_a_pause() {
    let begun = Instant::now();
    let server = aging(1000).await;
    let mut proxy = server.proxy().await;
    let held = tokio::spawn(proxy.begin(as_user("/apis/g.io/v1/gates", "bob")));
    server.api.arrived.notified().await;
    // Old after 1.2 s at the latest, twice as old after 1.6 s at the earliest.
    sleep_until(begun + Duration::from_millis(1300)).await;
    let aged = server.aged();
    let twice_as_old = begun.elapsed() > Duration::from_millis(1600);
    assert!(twice_as_old || !aged);
    server.api.gate.notify_one();
    assert_eq!(held.await.unwrap().unwrap().status(), StatusCode::OK);
    proxy.closed.await.unwrap();
    assert!(server.aged());
}

#[tokio::test]
async fn http1_clients_are_told_with_their_next_answer() {
    let server = aging(300).await;
    let stream = connect_tls(server.address, &server.pki.serving, None, b"http/1.1")
        .await
        .unwrap();
    let (mut sender, connection) = http1::handshake::<_, Body>(TokioIo::new(stream))
        .await
        .unwrap();
    let ended = tokio::spawn(connection);
    let mut announced = Vec::new();
    while !announced.contains(&true) {
        // Not closed before it was announced.
        sender.ready().await.unwrap();
        let get = request("/livez", &[("host", SERVER_NAME)]);
        let answer = sender.send_request(get).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        announced.push(answer.headers().contains_key("connection"));
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "ok");
    }
    assert!(announced.len() > 1 && server.aged());
    ended.await.unwrap().unwrap();
}
