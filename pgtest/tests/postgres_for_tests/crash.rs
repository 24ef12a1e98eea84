use std::path::PathBuf;
use std::process::Stdio;

use pgtest::{Pgbouncer, PgbouncerOptions, Postgres, PostgresOptions};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::support::eventually;

const VICTIM: &str = "PGTEST_CRASH_VICTIM";

/// Dies with a server that does not listen to signals any more. Run by the test below.
#[tokio::test]
async fn victim() {
    if std::env::var_os(VICTIM).is_none() {
        return;
    }
    let server = Postgres::start(PostgresOptions::quick()).await.unwrap();
    let pooler = Pgbouncer::start(&server, PgbouncerOptions::default())
        .await
        .unwrap();
    server.pause().unwrap();
    pooler.pause().unwrap();
    println!("\nserver {} {}", server.data().display(), server.port());
    println!("\nserver {} {}", server.data().display(), pooler.port());
    std::process::abort();
}

#[tokio::test]
async fn a_test_that_dies_leaves_nothing_running() {
    let mut victim = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::victim", "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let mut found: Vec<(PathBuf, u16)> = Vec::new();
    while let Some(line) = lines.next_line().await.unwrap() {
        if let ["server", data, port] = line.split(' ').collect::<Vec<_>>()[..] {
            found.push((data.into(), port.parse().unwrap()));
        }
    }
    assert!(!victim.wait().await.unwrap().success());
    assert_eq!(found.len(), 2);
    for (data, port) in found {
        let directory = data.ancestors().nth(2).unwrap().to_owned();
        eventually("the directory is gone", || !directory.exists()).await;
        let connect = move || std::net::TcpStream::connect(("127.0.0.1", port)).is_err();
        eventually("the port is free", connect).await;
    }
}
