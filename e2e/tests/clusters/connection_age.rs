//! Connections of a real kube-apiserver get old and are left, again and again, as other servers come
//! to the database, and neither writers nor watchers notice.

use std::time::Duration;

use crate::api_support::*;
use comparison::serving::{PORT, Storage};
use futures::future::join_all;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use testcluster::network;

/// So many connections are left, each after a second: without a pause, at twice the age.
const AGED: u64 = 15;
const WRITERS: usize = 8;

#[tokio::test]
async fn old_connections_are_left_without_a_failed_request() {
    let mut setup = Setup::start().await;
    setup.options.args = vec!["--connection-max-age=500ms".to_owned()];
    setup.options.storage = Storage::Postgres;
    setup.switch().await;
    let metrics = direct(&setup).await;
    let list = setup.get(ALL_REPORTS).await.expect(200).json();
    let from = list["metadata"]["resourceVersion"].as_str().unwrap();
    let uri = format!("{ALL_REPORTS}?watch=1&allowWatchBookmarks=false&resourceVersion={from}");
    let (code, mut watch) = setup.watch(&uri, "application/json").await;
    assert_eq!(code, 200);
    let before = aged(&metrics).await;
    let newcomers = tokio::spawn(newcomers(
        setup.postgres().unwrap().superuser().await.unwrap(),
    ));
    let writes = join_all((0..WRITERS).map(|writer| write(&setup, writer, &metrics, before)));
    let written: usize = writes.await.into_iter().sum();
    newcomers.abort();
    // The watch was opened on a connection that was left long ago; it has every event.
    let mut events = 0;
    while events < written {
        let event = watch.next().await.unwrap();
        assert_ne!(event["type"], "ERROR", "{event}");
        events += 1;
    }
    println!("{written} writes, {events} events");
    assert!(aged(&metrics).await - before >= AGED);
}

/// Says what servers say when they come to the database.
async fn newcomers(database: tokio_postgres::Client) {
    for name in 0.. {
        let text = format!("NOTIFY reports_server_1, '{name:x} present'");
        database.batch_execute(&text).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Creates, changes, reads and deletes until enough connections have got old; gives the number of
/// writes. Each request has to be answered as it should be.
async fn write(setup: &Setup, writer: usize, metrics: &Client, before: u64) -> usize {
    let mut written = 0;
    for round in 0.. {
        let name = format!("report-{writer}-{round}");
        let uri = format!("{REPORTS}/{name}");
        let created = setup.send("POST", REPORTS, &[JSON], &report(&name)).await;
        let mut body = created.expect(201).json();
        body["summary"]["pass"] = json!(7);
        setup.send("PUT", &uri, &[JSON], &body).await.expect(200);
        setup.get(&uri).await.expect(200);
        let deleted = setup.send("DELETE", &uri, &[], &Value::Null).await;
        deleted.expect(200);
        written += 3;
        if round % 20 == 19 && aged(metrics).await - before >= AGED {
            break;
        }
    }
    written
}

/// A client that speaks to the server as the kube-apiserver does, but on connections of its own.
async fn direct(setup: &Setup) -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let port = setup
        .cluster
        .forward((network::NODE_IP, PORT).into())
        .unwrap();
    let pki = setup.cluster.directory().join("pki");
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config",
        "clusters": [{"name": "server", "cluster": {
            "server": format!("https://{port}"), "insecure-skip-tls-verify": true}}],
        "users": [{"name": "proxy", "user": {
            "client-certificate": pki.join("front-proxy-client.crt"),
            "client-key": pki.join("front-proxy-client.key")}}],
        "contexts": [{"name": "server", "context": {"cluster": "server", "user": "proxy"}}],
        "current-context": "server",
    });
    let kubeconfig = Kubeconfig::from_yaml(&kubeconfig.to_string()).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    config.read_timeout = Some(Duration::from_secs(30));
    Client::try_from(config).unwrap()
}

/// Returns the number of connections that have got old so far.
async fn aged(metrics: &Client) -> u64 {
    let request = http::Request::get("/metrics")
        .header("x-remote-user", "admin")
        .header("x-remote-group", "system:masters")
        .body(Vec::new())
        .unwrap();
    let text = metrics.request_text(request).await.unwrap();
    let line = text
        .lines()
        .find(|line| line.starts_with("reports_server_connections_aged_total"));
    let value = line.and_then(|line| line.split(' ').nth(1)).unwrap();
    value.parse().unwrap()
}
