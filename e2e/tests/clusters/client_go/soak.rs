//! Informers follow what is written while servers are killed and replaced, again and again.

use std::time::{Duration, Instant};

use comparison::serving::Serving;
use comparison::serving::request::Outgoing;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::client_go::reflectors::{NAMESPACE, Reflectors};
use crate::client_go::{LIMIT, tests};
use crate::common::full;

const NAMESPACES: &str = "/api/v1/namespaces";
/// Number of writes that have to be answered between one kill and the next.
const WRITES: usize = 25;

/// Returns the time for which servers are killed: `E2E_FULL` makes it long.
fn length() -> Duration {
    if full() {
        Duration::from_mins(5)
    } else {
        Duration::from_secs(20)
    }
}

/// Kills the servers by turns, each when writes went on after the one before was replaced.
pub async fn soak(serving: &mut Serving) {
    let mut command = tests(serving, length() + LIMIT).await;
    command.arg("-test.run=^TestSoak$").env("SOAK", "1");
    let go = GoSoak::begin(command).await;
    let namespace = serde_json::json!({"metadata": {"name": NAMESPACE}});
    let create = Outgoing::new("POST", NAMESPACES).json(&namespace);
    assert_eq!(serving.send(&create).await.unwrap().code, 201);
    let reflectors = Reflectors::begin(&serving.client).await;
    let began = Instant::now();
    let mut kills = 0;
    while began.elapsed() < length() || kills < serving.servers().len() {
        reflectors.written(WRITES).await;
        let index = kills % serving.servers().len();
        serving.replace_server(index).await.unwrap();
        kills += 1;
    }
    reflectors.written(WRITES).await;
    println!("{kills} servers killed in {} s", began.elapsed().as_secs());
    assert!(kills > 2, "too few kills to say anything");
    reflectors.end().await;
    go.end().await;
}

/// The process of `TestSoak`, which writes to reports and follows them, too.
struct GoSoak {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    output: String,
}

impl GoSoak {
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
