//! Programs in Go use the reports: the tests of `e2e/cluster/clients`, first with the CRDs behind
//! the kube-apiserver, which shows that they ask for nothing that a CRD does not give, then with
//! the server.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy takes helpers outside #[test] functions for production code"
)]

use std::process::Stdio;

use crds::catalog;
use e2e::{
    cluster::client_go_tests,
    serving::{Serving, ServingOptions, Storage, request::Outgoing},
};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

const GROUP: &str = "wgpolicyk8s.io";
const REPORTS: &str = "/apis/wgpolicyk8s.io/v1alpha2/policyreports";

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
    if storage == Storage::Sqlite {
        suite(&serving, "the CRDs").await;
    }
    serving.switch().await.unwrap();
    suite(&serving, "the server").await;
    soak(&mut serving).await;
}

/// The program with the tests, in the cluster's network.
async fn tests(serving: &Serving) -> Command {
    let program = client_go_tests().await.unwrap();
    let mut command = serving.cluster.command(program);
    command.args(["-test.v", "-test.timeout=5m"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// Runs all tests but the soak.
async fn suite(serving: &Serving, behind: &str) {
    let output = tests(serving).await.output().await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let passed = text
        .lines()
        .filter(|line| line.starts_with("--- PASS"))
        .count();
    println!("{behind}: {passed} tests of client-go passed");
    assert!(output.status.success() && passed > 10, "{behind}: {text}");
}

/// Informers follow what is written, while each server is killed and replaced.
async fn soak(serving: &mut Serving) {
    let mut command = tests(serving).await;
    command.arg("-test.run=^TestSoak$").env("SOAK", "1");
    let soak = Soak::begin(command).await;
    for index in 0..serving.servers().len() {
        serving.replace_server(index).await.unwrap();
        let served = async || {
            let answer = serving.send(&Outgoing::get(REPORTS)).await;
            answer.is_ok_and(|answer| answer.code == 200)
        };
        serving.until("served again", served).await.unwrap();
    }
    soak.end().await;
}

/// The soak's process.
struct Soak {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    output: String,
}

impl Soak {
    /// Starts it; gives it when the first writes are under way.
    async fn begin(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut soak = Self {
            child,
            lines,
            output: String::new(),
        };
        while let Some(line) = soak.line().await {
            if line == "soaking" {
                return soak;
            }
        }
        panic!("{}", soak.output);
    }

    async fn line(&mut self) -> Option<String> {
        let line = self.lines.next_line().await.unwrap()?;
        self.output.push_str(&line);
        self.output.push('\n');
        Some(line)
    }

    /// Has it write no more, and compare what was seen.
    async fn end(mut self) {
        drop(self.child.stdin.take());
        while self.line().await.is_some() {}
        let status = self.child.wait().await.unwrap();
        assert!(status.success(), "{}", self.output);
        println!("{}", self.output);
    }
}
