//! The mirror's watch: opened on the old handler before the switch, resumed while the CRD still
//! serves the API, and followed to its end through the switch.

use std::time::Duration;

use crds::control::ImportType;
use tokio::sync::watch;
use tokio::time::Instant;

use super::batch::Entry;
use super::importer::Sender;
use super::{MirrorError, Progress, WatchState};
use crate::migration::cluster::control::retry;
use crate::migration::cluster::pages;
use crate::migration::cluster::wire::{RawEvent, WatchStream, Wire, WireError, query};

/// The longest silence of a watch. With bookmarks it says something every minute; one that is
/// silent for longer is broken.
const SILENCE: Duration = Duration::from_secs(150);
/// The timeout of a watch, which need not end by itself; the kube-apiserver takes any value.
const TIMEOUT_SECONDS: &str = "86400";
/// The silence after which an opened watch counts as accepted.
const ACCEPTED: Duration = Duration::from_secs(1);
/// The time for which a resumption is tried.
const PATIENCE: Duration = Duration::from_mins(5);

/// The end of a watch.
#[derive(Debug)]
pub enum End {
    /// The server has ended it between two events.
    Clean,
    /// It was cut, or silent for too long.
    Broken(WireError),
}

/// Returns the URI of a watch from `version`.
#[must_use]
pub fn uri(path: &str, version: u64) -> String {
    query(
        path,
        &[
            ("watch", "1"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", &version.to_string()),
            ("timeoutSeconds", TIMEOUT_SECONDS),
        ],
    )
}

/// Follows a resource from `version` until its watch has ended for good: because it was sealed
/// (the switch is on) or because our own server answered the resumption.
pub async fn follow(
    wire: &Wire,
    path: &str,
    mut version: u64,
    mut stream: WatchStream,
    entries: &Sender,
    progress: &watch::Sender<Progress>,
    sealed: &watch::Receiver<bool>,
) -> Result<(), MirrorError> {
    loop {
        let end = pump(&mut stream, &mut version, entries, progress, sealed).await?;
        let clean = matches!(end, End::Clean);
        progress.send_modify(|p| {
            p.watch = WatchState::Ended {
                clean,
                at: Instant::now(),
            }
        });
        if *sealed.borrow() {
            return Ok(());
        }
        if let End::Broken(error) = end {
            tracing::info!(path, version, %error, "the mirror's watch broke; resuming it");
        }
        let again = uri(path, version);
        stream = retry(PATIENCE, || wire.watch(&again))
            .await
            .map_err(expired)?;
        if stream.is_ours() {
            return Ok(());
        }
    }
}

/// Passes events on until the watch ends. It is live once nothing says that it has lost its place,
/// which a kube-apiserver may say in the first event.
async fn pump(
    stream: &mut WatchStream,
    version: &mut u64,
    entries: &Sender,
    progress: &watch::Sender<Progress>,
    sealed: &watch::Receiver<bool>,
) -> Result<End, MirrorError> {
    let mut sealed = sealed.clone();
    let mut live = false;
    loop {
        let patience = if live { SILENCE } else { ACCEPTED };
        let event = match tokio::time::timeout(patience, stream.next()).await {
            Ok(Ok(Some(event))) => event,
            Ok(Ok(None)) => return Ok(End::Clean),
            Ok(Err(error)) => return Ok(End::Broken(error)),
            Err(_) if !live => {
                live = true;
                progress.send_modify(|p| p.watch = WatchState::Live);
                continue;
            }
            Err(_) => {
                let path = "the watch".to_owned();
                return Ok(End::Broken(WireError::Timeout {
                    path,
                    after: SILENCE,
                }));
            }
        };
        match entry(&event)? {
            Ok((at, entry)) => {
                live = true;
                let is_event = !matches!(entry, Entry::Bookmark(_));
                // Nobody waits for what was received; one event is no reason to wake them all.
                progress.send_if_modified(|p| {
                    if is_event {
                        p.received = at.max(p.received);
                    }
                    std::mem::replace(&mut p.watch, WatchState::Live) != WatchState::Live
                });
                if !entries.send_in_time(entry, &mut sealed).await {
                    return Err(MirrorError::ImporterGone);
                }
                *version = at.max(*version);
            }
            Err(broken) => return Ok(End::Broken(broken)),
        }
    }
}

/// Returns the meaning of an event. Outer error: the watch has lost its place. Inner: it ended with
/// an error after which it can be resumed.
fn entry(event: &RawEvent) -> Result<Result<(u64, Entry), WireError>, MirrorError> {
    let type_ = match event.type_.as_str() {
        "ADDED" => ImportType::Added,
        "MODIFIED" => ImportType::Modified,
        "DELETED" => ImportType::Deleted,
        "BOOKMARK" => {
            let at = pages::version(&event.object).ok_or(MirrorError::NoVersion)?;
            return Ok(Ok((at, Entry::Bookmark(at))));
        }
        _ => {
            let code = event
                .object
                .get("code")
                .and_then(serde_json::Value::as_u64)
                .unwrap_or(500);
            let text = |key| {
                event
                    .object
                    .get(key)
                    .and_then(serde_json::Value::as_str)
                    .unwrap_or_default()
            };
            let error = WireError::Status {
                method: http::Method::GET,
                path: "the watch".to_owned(),
                code: u16::try_from(code).unwrap_or(500),
                reason: text("reason").to_owned(),
                message: text("message").to_owned(),
                retry_after: None,
            };
            return if code == 410 {
                Err(expired(error))
            } else {
                Ok(Err(error))
            };
        }
    };
    let at = pages::version(&event.object).ok_or(MirrorError::NoVersion)?;
    Ok(Ok((at, Entry::event(type_, &event.object))))
}

fn expired(error: WireError) -> MirrorError {
    if error.code() == Some(410) {
        MirrorError::Expired(error)
    } else {
        MirrorError::Wire(error)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(type_: &str, object: serde_json::Value) -> RawEvent {
        RawEvent {
            type_: type_.to_owned(),
            object,
        }
    }

    #[test]
    fn events_keep_their_type_and_version() {
        let object = json!({"metadata": {"resourceVersion": "5"}, "spec": {"x": 1}});
        let (at, found) = entry(&event("DELETED", object.clone())).unwrap().unwrap();
        assert_eq!((at, found), (5, Entry::event(ImportType::Deleted, &object)));
        let (at, found) = entry(&event("BOOKMARK", object)).unwrap().unwrap();
        assert_eq!((at, found), (5, Entry::Bookmark(5)));
    }

    #[test]
    fn only_410_loses_the_place() {
        let gone = json!({"code": 410, "reason": "Expired", "message": "too old"});
        assert!(matches!(
            entry(&event("ERROR", gone)),
            Err(MirrorError::Expired(_))
        ));
        let other = json!({"code": 500, "message": "etcd"});
        assert!(matches!(
            entry(&event("ERROR", other)),
            Ok(Err(WireError::Status { .. }))
        ));
        assert!(matches!(
            entry(&event("ADDED", json!({}))),
            Err(MirrorError::NoVersion)
        ));
    }
}
