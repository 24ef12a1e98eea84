//! Programs in Go use the reports: the tests of `e2e/clients`, first with the CRDs behind
//! the kube-apiserver, which shows that they ask for nothing that a CRD does not give, then with
//! the server. At the end informers in Go and Rust follow while servers are killed and replaced.
mod reflectors;
mod soak;

use std::process::Stdio;
use std::time::Duration;

use comparison::serving::{Serving, ServingOptions, Storage};
use crds::catalog;
use reports_server::http::SERVER_HEADER;
use testcluster::client_go_tests;
use tokio::process::Command;

const GROUP: &str = "wgpolicyk8s.io";
/// Longest time that all tests but the soak may take.
const LIMIT: Duration = Duration::from_mins(5);

#[tokio::test(flavor = "multi_thread")]
async fn client_go_takes_us_for_the_crds() {
    client_go(Storage::Sqlite, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn client_go_takes_two_servers_on_postgresql_for_the_crds() {
    client_go(Storage::Postgres, 2).await;
}

async fn client_go(storage: Storage, servers: usize) {
    let crds = catalog::group(GROUP).map(|resource| catalog::to_crd(resource).unwrap());
    let mut options = ServingOptions::new(crds.collect());
    options.storage = storage;
    options.servers = servers;
    let mut serving = Serving::start(options).await.unwrap();
    // Who serves the CRDs does not know where we store.
    if storage == Storage::Sqlite {
        suite(&serving, "the CRDs", "").await;
    }
    serving.switch().await.unwrap();
    suite(&serving, "the server", SERVER_HEADER.as_str()).await;
    soak::soak(&mut serving).await;
}

/// The program with the tests, in the cluster's network.
async fn tests(serving: &Serving, limit: Duration) -> Command {
    let program = client_go_tests().await.unwrap();
    let mut command = serving.cluster.command(program);
    command.arg("-test.v");
    command.arg(format!("-test.timeout={}s", limit.as_secs()));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// Runs all tests but the soak. Only a server that sends the header `served_by` is meant.
async fn suite(serving: &Serving, behind: &str, served_by: &str) {
    let mut command = tests(serving, LIMIT).await;
    let output = command.env("SERVED_BY", served_by).output().await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let passed = text
        .lines()
        .filter(|line| line.starts_with("--- PASS"))
        .count();
    println!("{behind}: {passed} tests of client-go passed");
    assert!(output.status.success() && passed > 10, "{behind}: {text}");
}
