use std::time::Duration;

use http::StatusCode;
use http_body_util::BodyExt;
use reports_server::shutdown::Shutdown;

use crate::support::client::{as_user, get_http1};
use crate::support::{Options, start};

#[tokio::test]
async fn watches_end_cleanly_and_requests_are_answered() {
    let server = start(Options::default()).await;
    let mut proxy = server.proxy().await;
    let watch = as_user("/apis/g.io/v1/watches?watch=1", "bob");
    let watch = proxy.open(watch).await.unwrap();
    let mut slow = server.proxy().await;
    let held = tokio::spawn(async move {
        let answer = slow.send(as_user("/apis/g.io/v1/gates", "bob")).await;
        (answer.status, slow.closed.await.is_ok())
    });
    server.api.arrived.notified().await;
    server.api.arrived.notified().await;
    server.drain.cancel();
    // The stream's end is no error, so the client just comes back.
    let events = watch.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(events, "{}\n");
    proxy.closed.await.unwrap();
    // New connections are not taken while the request is still worked on.
    while get_http1(server.address, &server.pki.serving, "/livez")
        .await
        .is_ok()
    {
        tokio::task::yield_now().await;
    }
    server.api.gate.notify_one();
    assert_eq!(held.await.unwrap(), (StatusCode::OK, true));
    assert!(server.ended.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn it_is_unready_before_it_drains() {
    let shutdown = Shutdown::default();
    let sequence = {
        let shutdown = shutdown.clone();
        tokio::spawn(async move { shutdown.sequence(Duration::from_secs(10)).await })
    };
    tokio::task::yield_now().await;
    assert!(!shutdown.is_requested());
    shutdown.requested.cancel();
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert!(shutdown.is_requested() && !shutdown.drain.is_cancelled());
    sequence.await.unwrap();
    assert!(shutdown.drain.is_cancelled());
}
