//! The program of `e2e/clients/watcher`: client-go's own `RetryWatchers` and informers.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;
use tokio::task::JoinHandle;

use super::ChaosError;
use super::ledger::{Key, Stamp};
use super::object::{LABEL, PARTS};
use super::observer::{EventType, Observer, Seen};
use crate::access::Access;
use testcluster::client_go_watcher;

/// The kind of a watcher of client-go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GoStyle {
    /// `RetryWatcher`.
    Retry,
    /// Shared informer of whole objects.
    Informer,
    /// Shared informer of metadata.
    Metadata,
}

#[derive(Serialize)]
struct Wanted<'a> {
    name: &'a str,
    style: GoStyle,
    group: &'a str,
    version: &'a str,
    resource: String,
    selector: String,
    server: Option<String>,
}

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "w")]
    watcher: String,
    #[serde(rename = "t")]
    type_: String,
    #[serde(rename = "ns", default)]
    namespace: String,
    #[serde(rename = "n", default)]
    name: String,
    #[serde(rename = "v", default)]
    version: String,
    #[serde(rename = "s", default)]
    seq: String,
    #[serde(rename = "i", default)]
    id: String,
    #[serde(default)]
    why: String,
}

/// The running program.
pub struct ClientGo {
    child: Child,
    reader: JoinHandle<()>,
}

impl ClientGo {
    /// Starts the program with these watchers.
    ///
    /// # Errors
    /// If it cannot be built or started.
    pub async fn start(
        cluster: &dyn Access,
        watchers: &[(GoStyle, Arc<Observer>)],
    ) -> Result<Self, ChaosError> {
        let wanted: Vec<Wanted<'_>> = watchers
            .iter()
            .map(|(style, observer)| {
                let server = cluster.server(observer.nature.apiserver);
                wanted(*style, observer, server)
            })
            .collect();
        let wanted = serde_json::to_string(&wanted)
            .map_err(|error| ChaosError::ClientGo(error.to_string()))?;
        let log = cluster.logs().join("watcher.log");
        let failed = |error: std::io::Error| ChaosError::ClientGo(error.to_string());
        let log = std::fs::File::create(log).map_err(failed)?;
        let mut command = cluster.command(&client_go_watcher().await?);
        command
            .arg(wanted)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::from(log));
        let mut child = command.spawn().map_err(failed)?;
        let output = child.stdout.take();
        let output = output.ok_or_else(|| ChaosError::ClientGo("no output".to_owned()))?;
        let observers: HashMap<String, Arc<Observer>> = watchers
            .iter()
            .map(|(_, observer)| (observer.nature.name.clone(), Arc::clone(observer)))
            .collect();
        let reader = tokio::spawn(async move {
            let mut lines = BufReader::new(output).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                match serde_json::from_str::<Line>(&line) {
                    Ok(line) => tell(&observers, line),
                    Err(error) => tracing::error!(%error, line, "not a line of the watcher"),
                }
            }
        });
        Ok(Self { child, reader })
    }

    /// Checks that it still runs.
    ///
    /// # Errors
    /// If it does not.
    pub fn check(&mut self) -> Result<(), ChaosError> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(ChaosError::ClientGo(format!("ended: {status}"))),
            Err(error) => Err(ChaosError::ClientGo(error.to_string())),
        }
    }

    /// Ends it.
    pub async fn end(mut self) {
        drop(self.child.stdin.take());
        // How it ends is of no account: everything it had to say was awaited.
        let _ = self.child.wait().await;
        let _ = self.reader.await;
    }
}

fn wanted(style: GoStyle, observer: &Observer, server: Option<String>) -> Wanted<'_> {
    let nature = &observer.nature;
    Wanted {
        name: &nature.name,
        style,
        group: nature.kind.group(),
        version: nature.kind.version(),
        resource: nature.kind.plural(),
        selector: if nature.selected {
            format!("{LABEL}={}", PARTS[0])
        } else {
            String::new()
        },
        server,
    }
}

fn tell(observers: &HashMap<String, Arc<Observer>>, line: Line) {
    let Some(observer) = observers.get(&line.watcher) else {
        return;
    };
    let version = line.version.parse().unwrap_or_default();
    let seen = Seen {
        key: Key {
            kind: observer.nature.kind,
            namespace: line.namespace,
            name: line.name,
        },
        version,
        stamp: match (line.seq.parse(), line.id.parse()) {
            (Ok(seq), Ok(id)) => Some(Stamp { seq, id }),
            _ => None,
        },
    };
    match line.type_.as_str() {
        "ITEM" => observer.listed(seen),
        "BEGUN" => observer.begun(version),
        "ADDED" => observer.event(EventType::Added, &seen),
        "MODIFIED" => observer.event(EventType::Modified, &seen),
        "DELETED" => observer.event(EventType::Deleted, &seen),
        "DIED" | "RELIST" => observer.expired(&line.why),
        _ => tracing::error!(line.type_, "not a line of the watcher"),
    }
}
