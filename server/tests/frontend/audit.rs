//! Requests that do not come through the kube-apiserver, in the log.

use std::io;
use std::sync::{Arc, Mutex};

use http::StatusCode;
use reports_server::telemetry::AUDIT_TARGET;
use serde_json::{Value, json};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::util::SubscriberInitExt;

use crate::support::client::{as_user, request};
use crate::support::{Options, TestServer, start};

const PATH: &str = "/apis/g.io/v1/namespaces/a/echoes/b";

/// The log of the thread of a test, on which its server runs.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Starts a log that has what `reports-server` writes at info.
    fn start() -> (Self, DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let logs = tracing_subscriber::fmt()
            .json()
            .flatten_event(true)
            .with_writer(move || writer.clone())
            .finish();
        (log, logs.set_default())
    }

    /// Returns the lines about direct clients.
    fn lines(&self) -> Vec<Value> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines
            .filter(|line: &Value| line["target"] == AUDIT_TARGET)
            .collect()
    }
}

/// Sends a request straight to the server; gives its code.
async fn direct(server: &TestServer, path: &str, token: Option<&str>) -> StatusCode {
    let bearer = token.map(|token| format!("Bearer {token}"));
    let headers: Vec<(&str, &str)> = bearer
        .iter()
        .map(|bearer| ("authorization", bearer.as_str()))
        .collect();
    let mut client = server.connect(None).await;
    client.send(request(path, &headers)).await.status
}

#[tokio::test]
async fn each_request_of_a_direct_client_has_a_line_and_no_other() {
    let (log, _guard) = Log::start();
    let server = start(Options {
        audit: true,
        ..Options::default()
    })
    .await;
    server.proxy().await.send(as_user(PATH, "bob")).await;
    direct(&server, "/livez", None).await;
    assert_eq!(log.lines(), Vec::<Value>::new());

    assert_eq!(direct(&server, PATH, Some("good")).await, StatusCode::OK);
    direct(&server, "/metrics", None).await;
    let refused = direct(&server, PATH, Some("bad")).await;
    assert_eq!(refused, StatusCode::UNAUTHORIZED);
    let lines = log.lines();
    let told = |line: &Value| json!([line["user"], line["proof"], line["verb"], line["path"]]);
    let told: Vec<Value> = lines.iter().map(told).collect();
    let expected = [
        json!(["alice", "token", "get", PATH]),
        json!(["system:anonymous", "none", "get", "/metrics"]),
        json!(["", "invalid", "get", PATH]),
    ];
    assert_eq!(told, expected);
    let line = &lines[0];
    let facts = json!([
        line["group"],
        line["resource"],
        line["namespace"],
        line["name"]
    ]);
    assert_eq!(facts, json!(["g.io", "echoes", "a", "b"]));
    assert_eq!(
        (&line["code"], &lines[2]["code"]),
        (&json!(200), &json!(401))
    );
}

#[tokio::test]
async fn nothing_is_told_unless_it_is_asked_for() {
    let (log, _guard) = Log::start();
    let server = start(Options::default()).await;
    assert_eq!(direct(&server, PATH, Some("good")).await, StatusCode::OK);
    assert_eq!(log.lines(), Vec::<Value>::new());
}
