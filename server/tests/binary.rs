//! The binary as the kubelet meets it: exit codes, last words, signals.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // as in unit tests; helpers too

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rstest::rstest;
use tempfile::TempDir;

/// The binary with valid options, in a directory of its own. Its cluster cannot be reached.
fn server(directory: &Path) -> Command {
    let key = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let path = |name: &str| directory.join(name);
    std::fs::write(path("tls.crt"), key.cert.pem()).unwrap();
    std::fs::write(path("tls.key"), key.signing_key.serialize_pem()).unwrap();
    let kubeconfig = "{apiVersion: v1, kind: Config, current-context: c, \
        clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}], \
        contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {token: t}}]}";
    std::fs::write(path("kubeconfig"), kubeconfig).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_reports-server"));
    command
        .env_clear()
        .args(["--groups", "g.io", "--bind-address", "127.0.0.1:0"]);
    let files = [
        ("--tls-cert-file", "tls.crt"),
        ("--tls-private-key-file", "tls.key"),
        ("--database", "reports.db"),
        ("--kubeconfig", "kubeconfig"),
    ];
    for (option, file) in files {
        command.arg(option).arg(path(file));
    }
    command
}

fn failure(mut command: Command) -> (i32, String) {
    let Output { status, stderr, .. } = command.output().unwrap();
    (status.code().unwrap(), String::from_utf8(stderr).unwrap())
}

#[rstest]
#[case(
    "tls.crt",
    "/tls.crt holds no usable certificate chain: no PEM certificate in it"
)]
#[case("tls.key", "/tls.key holds no usable private key")]
#[case("kubeconfig", "cannot use the kubeconfig")]
#[case("reports.db", "check the volume, or restore it from a backup")]
fn a_start_that_fails_says_why(#[case] broken: &str, #[case] expected: &str) {
    let directory = TempDir::new().unwrap();
    let command = server(directory.path());
    std::fs::write(directory.path().join(broken), "nonsense: [").unwrap();
    let (code, stderr) = failure(command);
    assert_eq!(code, 1, "{stderr}");
    let last_words = stderr
        .lines()
        .find(|line| line.starts_with("reports-server: "))
        .unwrap();
    assert!(last_words.contains(expected), "{stderr}");
}

#[rstest]
#[case(&["--log-level", "loud,,="], 1, "check --log-level")]
#[case(&["--history", "soon"], 2, "give a duration such as 30s")]
fn options_that_make_no_sense_are_named(
    #[case] options: &[&str],
    #[case] code: i32,
    #[case] expected: &str,
) {
    let directory = TempDir::new().unwrap();
    let mut command = server(directory.path());
    command.args(options);
    let (got, stderr) = failure(command);
    assert_eq!(got, code, "{stderr}");
    assert!(stderr.contains(expected), "{stderr}");
}

#[rstest]
#[case("json", true)]
#[case("text", false)]
fn a_log_has_the_form_that_is_asked_for(#[case] format: &str, #[case] is_json: bool) {
    let directory = TempDir::new().unwrap();
    let mut command = server(directory.path());
    command
        .args(["--log-format", format])
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = lines
        .map(Result::unwrap)
        .find(|line| line.contains("watching CRDs: trying again"));
    child.kill().unwrap();
    child.wait().unwrap();
    let line = line.unwrap();
    let read = serde_json::from_str::<serde_json::Value>(&line);
    assert_eq!(read.is_ok(), is_json, "{line}");
    assert!(!line.contains('\u{1b}'), "no colours: {line}");
}

/// A pod can be deleted while it still waits for the cluster.
#[test]
fn a_signal_during_the_start_ends_it_cleanly() {
    let directory = TempDir::new().unwrap();
    let mut child = server(directory.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map(Result::unwrap);
    // It has signal handlers and an open database by the time it looks at the cluster.
    assert!(lines.any(|line| line.contains("watching CRDs: trying again")));
    let kill = Command::new("kill")
        .arg(child.id().to_string())
        .status()
        .unwrap();
    assert!(kill.success());
    let rest: Vec<_> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{rest:?}");
    assert!(
        rest.iter().any(|line| line.contains("the store is closed")),
        "{rest:?}"
    );
}
