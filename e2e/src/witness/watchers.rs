//! Watchers that record every event, in the three styles that clients of the API use.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{AsyncBufReadExt as _, TryStreamExt as _};
use http::{Method, StatusCode};
use kube::client::Body;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Origin;
use super::ledger::{Ack, Did};
use super::requester::Requester;
use super::state::version;
use testreports::ReportKind;

/// The way in which a watcher gets its state, and the step that it takes when a watch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// LIST, then WATCH of whole objects; a 410 makes it list again.
    Informer,
    /// WATCH with `sendInitialEvents`, metadata only; a 410 makes it begin again.
    MetadataWatchList,
    /// LIST, then WATCH of metadata, by label where the kind has the label; dies on the first 410
    /// or event without a version, as client-go's `RetryWatcher` does.
    RetryWatcher,
}

impl Style {
    /// Returns the styles that work with the origin.
    pub fn of(origin: Origin) -> &'static [Self] {
        match origin {
            Origin::Kubernetes => &[Self::Informer, Self::MetadataWatchList, Self::RetryWatcher],
            Origin::Incumbent => &[Self::Informer],
        }
    }

    fn accept(self) -> &'static str {
        match self {
            Self::Informer => "application/json",
            Self::MetadataWatchList | Self::RetryWatcher => {
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
            }
        }
    }
}

/// Type of an event that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// ADDED.
    Added,
    /// MODIFIED.
    Modified,
    /// DELETED.
    Deleted,
}

/// One event that was seen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Seen {
    /// Type.
    pub type_: EventType,
    /// uid of the object.
    pub uid: String,
    /// The name of the object.
    pub name: String,
    /// Version of the event.
    pub version: u64,
}

/// The record of a watcher.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// Version of the initial state; events after it count.
    pub since: u64,
    /// The uids of the initial state.
    pub listed: HashSet<String>,
    /// All events after the initial state.
    pub events: Vec<Seen>,
    /// Events seen at the incumbent, once its watch has ended and the watcher has listed again.
    pub at_incumbent: Option<u64>,
    /// Times it lost its place and had to begin again.
    pub relists: u32,
    /// Times a watch ended and another was opened.
    pub reconnects: u32,
    /// The reason why it gave up.
    pub died: Option<String>,
}

/// Position in the stream of versions, and whether it is to be taken up there.
enum Next {
    Resume(u64),
    Restart,
    Die(String),
}

/// A watcher. See the module.
pub struct Watcher {
    kind: ReportKind,
    style: Style,
    origin: Origin,
    log: Mutex<Log>,
    progress: watch::Sender<u64>,
}

/// client-go's pause before a watch is opened again.
const RECONNECT_PAUSE: Duration = Duration::from_millis(200);

impl Watcher {
    /// Returns a watcher of all namespaces.
    pub fn new(kind: ReportKind, style: Style, origin: Origin) -> Self {
        Self {
            kind,
            style,
            origin,
            log: Mutex::default(),
            progress: watch::Sender::new(0),
        }
    }

    /// Returns the name for messages.
    pub fn name(&self) -> &'static str {
        match (self.style, self.kind.ephemeral()) {
            (Style::Informer, false) => "informer of permanent reports",
            (Style::Informer, true) => "informer of ephemeral reports",
            (Style::MetadataWatchList, false) => "metadata informer of permanent reports",
            (Style::MetadataWatchList, true) => "metadata informer of ephemeral reports",
            (Style::RetryWatcher, false) => "RetryWatcher of permanent reports",
            (Style::RetryWatcher, true) => "RetryWatcher of ephemeral reports",
        }
    }

    /// Returns the kind that is watched.
    pub fn kind(&self) -> ReportKind {
        self.kind
    }

    fn inner(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a copy of the record.
    pub fn log(&self) -> Log {
        self.inner().clone()
    }

    /// Returns whether it still watches at the incumbent.
    pub fn lags(&self, log: &Log) -> bool {
        self.origin == Origin::Incumbent && log.at_incumbent.is_none()
    }

    /// Waits until the initial state is there.
    pub async fn started(&self) {
        // The sender lives as long as `self`.
        let _ = self
            .progress
            .subscribe()
            .wait_for(|version| *version > 0)
            .await;
    }

    /// Waits until an event was seen for every one of `acks` that concerns this watcher.
    pub async fn seen_all(&self, acks: &[Ack]) {
        let mut progress = self.progress.subscribe();
        loop {
            let missing = {
                let log = self.inner();
                let seen: HashSet<(bool, &str, u64)> = log.events.iter().map(seen_key).collect();
                acks.iter()
                    .filter(|ack| self.expects(ack, &log))
                    .any(|ack| !seen.contains(&ack_key(ack)))
                    || self.lags(&log)
            };
            if !missing || progress.changed().await.is_err() {
                return;
            }
        }
    }

    /// Returns whether an acknowledged write must show up here as an event.
    pub fn expects(&self, ack: &Ack, log: &Log) -> bool {
        // What came and went before a watcher listed anew is no event for it.
        let known = || self.origin == Origin::Kubernetes || log.listed.contains(&ack.state.uid);
        ack.kind == self.kind
            && (ack.state.version > log.since || (ack.did == Did::Delete && known()))
    }

    /// Watches until `stop`, or until it dies.
    pub async fn run(self: std::sync::Arc<Self>, requester: Requester, stop: CancellationToken) {
        stop.run_until_cancelled(async {
            let mut next = Next::Restart;
            loop {
                next = match next {
                    Next::Resume(from) => self.watch(&requester, Some(from)).await,
                    Next::Restart if self.style == Style::MetadataWatchList => {
                        self.watch(&requester, None).await
                    }
                    Next::Restart => self.list(&requester).await,
                    Next::Die(why) => {
                        tracing::warn!(watcher = self.name(), why, "a watcher died");
                        self.inner().died = Some(why);
                        return;
                    }
                };
                tokio::time::sleep(RECONNECT_PAUSE).await;
            }
        })
        .await;
    }

    fn selector(&self) -> &'static str {
        if self.kind.ephemeral() && self.style == Style::RetryWatcher {
            "&labelSelector=audit.kyverno.io%2Fsource%3D%3Dbackground-scan"
        } else {
            ""
        }
    }

    async fn list(&self, requester: &Requester) -> Next {
        let uri = format!("{}?limit=0{}", self.kind.path(None), self.selector());
        let Some((_, list)) = requester
            .call(Method::GET, &uri, None, &[StatusCode::OK])
            .await
        else {
            return Next::Restart;
        };
        match version(&list) {
            0 => Next::Die("a list without a version".into()),
            at => {
                let items = list["items"].as_array().into_iter().flatten();
                let uids = items.filter_map(|item| item["metadata"]["uid"].as_str());
                self.begin(at, uids.map(str::to_owned).collect());
                Next::Resume(at)
            }
        }
    }

    /// Notes that the initial state was that of version `at`.
    fn begin(&self, at: u64, listed: HashSet<String>) {
        {
            let mut log = self.inner();
            if log.since == 0 {
                (log.since, log.listed) = (at, listed);
            } else if self.lags(&log) {
                log.at_incumbent = Some(log.events.len() as u64);
                log.events.clear();
                (log.since, log.listed) = (at, listed);
            } else {
                log.relists += 1;
            }
        }
        self.progress.send_modify(|seen| *seen = at.max(*seen));
    }

    async fn watch(&self, requester: &Requester, from: Option<u64>) -> Next {
        let start = from.map_or_else(
            || "sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned(),
            |from| format!("resourceVersion={from}"),
        );
        let uri = format!(
            "{}?watch=1&allowWatchBookmarks=true&timeoutSeconds=570&{start}{}",
            self.kind.path(None),
            self.selector()
        );
        let again = from.map_or(Next::Restart, Next::Resume);
        match requester
            .send(Method::GET, &uri, None, self.style.accept())
            .await
        {
            Ok((StatusCode::OK, body)) => self.read(body, from).await,
            Ok((StatusCode::GONE, _)) => self.lost("410 to the request"),
            Ok((status, _)) => {
                requester.ledger.fail(format!("WATCH {uri}: {status}"));
                again
            }
            Err(error) => {
                requester.ledger.fail(format!("WATCH {uri}: {error}"));
                again
            }
        }
    }

    fn lost(&self, why: &str) -> Next {
        if self.style == Style::RetryWatcher {
            Next::Die(why.to_owned())
        } else {
            Next::Restart
        }
    }

    /// Reads one watch to its end; returns the place from which to go on.
    async fn read(&self, body: Body, from: Option<u64>) -> Next {
        let stream = http_body_util::BodyExt::into_data_stream(body).map_err(std::io::Error::other);
        let mut lines = stream.into_async_read().lines();
        let (mut at, mut initial) = (from, from.is_none());
        self.inner().reconnects += 1;
        // A broken connection is resumed like one that ended.
        while let Ok(Some(line)) = lines.try_next().await {
            let Ok(event) = serde_json::from_str::<Value>(&line) else {
                return self.lost("an event that is not JSON");
            };
            let object = &event["object"];
            let version = version(object);
            let type_ = match event["type"].as_str() {
                Some("ERROR") => return self.lost(&format!("ERROR {object}")),
                _ if version == 0 => return self.lost("an event without a version"),
                Some("BOOKMARK") => None,
                Some("ADDED") => Some(EventType::Added),
                Some("MODIFIED") => Some(EventType::Modified),
                Some("DELETED") => Some(EventType::Deleted),
                _ => return self.lost(&format!("an event of no known type: {line}")),
            };
            if initial {
                let annotation = &object["metadata"]["annotations"]["k8s.io/initial-events-end"];
                if type_.is_none() && annotation == "true" {
                    initial = false;
                    at = Some(version);
                    self.begin(version, HashSet::new());
                }
                continue;
            }
            at = Some(at.unwrap_or(0).max(version));
            if let Some(type_) = type_ {
                let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
                let (uid, name) = (text("uid").to_owned(), text("name").to_owned());
                self.inner().events.push(Seen {
                    type_,
                    uid,
                    name,
                    version,
                });
                self.progress.send_modify(|seen| *seen = version.max(*seen));
            }
        }
        at.filter(|_| !initial).map_or(Next::Restart, Next::Resume)
    }
}

/// Returns the key by which an event matches an acknowledged write: deletions have a version of
/// their own that the writer does not learn.
pub fn ack_key(ack: &Ack) -> (bool, &str, u64) {
    match ack.did {
        Did::Delete => (true, &ack.state.uid, 0),
        Did::Create | Did::Update => (false, &ack.state.uid, ack.state.version),
    }
}

/// Returns the key of an event. See [`ack_key`].
pub fn seen_key(event: &Seen) -> (bool, &str, u64) {
    match event.type_ {
        EventType::Deleted => (true, &event.uid, 0),
        EventType::Added | EventType::Modified => (false, &event.uid, event.version),
    }
}
