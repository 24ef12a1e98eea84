//! The parts that the tests of this target share.

pub mod chaos;
pub mod ledger;
pub mod log;
pub mod replica;
pub mod scene;
pub mod watcher;
pub mod writers;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use storage::model::{GroupResource, ResourceDef};

/// Longest time that a test waits for something that must come.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Shows what servers say, as `RUST_LOG` wishes.
pub fn show_logs() {
    let filter = tracing_subscriber::EnvFilter::from_default_env();
    let _ = tracing_subscriber::fmt().with_env_filter(filter).try_init();
}

pub fn reports() -> GroupResource {
    GroupResource::new("example.io", "reports")
}

pub fn definition() -> ResourceDef {
    ResourceDef {
        resource: reports(),
        kind: "Report".into(),
        namespaced: true,
    }
}

/// A report in its state number `id`.
pub fn report(name: &str, uid: &str, id: u64) -> Value {
    json!({
        "apiVersion": "example.io/v1", "kind": "Report",
        "metadata": {"name": name, "namespace": "ns", "uid": uid, "labels": {"id": id.to_string()}},
    })
}

/// Waits until `condition` holds.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition().await {
        assert!(Instant::now() < deadline, "{what} did not come true");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
