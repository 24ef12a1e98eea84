//! Watchers on raw HTTP: with bookmarks and without, of whole objects and of metadata, from a list
//! or with the initial state in the stream.

use std::sync::Arc;
use std::time::Duration;

use futures::{AsyncBufReadExt as _, TryStreamExt as _};
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::object::{self, LABEL, PARTS};
use super::observer::{EventType, Observer, Seen};
use super::request::{Answer, Requester, media};
use super::tally::{Direction, Flaw, Note};

/// Media type of metadata alone.
const PARTIAL: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
/// client-go's pause before a watch is opened again.
const PAUSE: Duration = Duration::from_millis(800);
/// Length of a watch, in seconds: long enough that no watch ends by itself between two switches.
const SECONDS: u32 = 570;

/// The way to ask for the state and the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// LIST, then WATCH of whole objects.
    Plain,
    /// LIST, then WATCH of metadata.
    Metadata,
    /// WATCH with `sendInitialEvents`.
    WatchList,
}

/// A watcher on raw HTTP. See the module.
pub struct Watcher {
    /// The observer of its events.
    pub observer: Arc<Observer>,
    /// The way in which it asks.
    pub style: Style,
    /// The sender of its requests.
    pub requester: Requester,
}

/// The place where a watch goes on.
enum Next {
    Resume(u64),
    Restart,
}

impl Watcher {
    /// Watches until it is stopped.
    pub async fn run(self, stop: CancellationToken) {
        let watching = async {
            let mut next = Next::Restart;
            loop {
                next = match next {
                    Next::Resume(from) => self.watch(Some(from)).await,
                    Next::Restart if self.style == Style::WatchList => self.watch(None).await,
                    Next::Restart => self.list().await,
                };
                tokio::time::sleep(PAUSE).await;
            }
        };
        stop.run_until_cancelled(watching).await;
    }

    fn accept(&self) -> &'static str {
        if self.style == Style::Metadata {
            PARTIAL
        } else {
            media::JSON
        }
    }

    fn selector(&self) -> String {
        if !self.observer.nature.selected {
            return String::new();
        }
        format!(
            "&labelSelector={}%3D{}",
            LABEL.replace('/', "%2F"),
            PARTS[0]
        )
    }

    async fn list(&self) -> Next {
        self.observer.asks();
        let kind = self.observer.nature.kind;
        let uri = format!("{}?limit=0{}", kind.path(None), self.selector());
        let list = match self.requester.call(Method::GET, &uri, None).await {
            Answer::Said(StatusCode::OK, list) => list,
            answer => {
                let text = format!("GET {uri}: {}", answer.text());
                self.requester.tally.failed(text);
                return Next::Restart;
            }
        };
        for item in list["items"].as_array().into_iter().flatten() {
            self.observer.listed(self.seen(item));
        }
        let version = object::version(&list);
        self.observer.begun(version);
        Next::Resume(version)
    }

    fn seen(&self, item: &Value) -> Seen {
        Seen {
            key: object::key(self.observer.nature.kind, item),
            version: object::version(item),
            stamp: object::stamp(item),
        }
    }

    async fn watch(&self, from: Option<u64>) -> Next {
        let start = from.map_or_else(
            || "sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned(),
            |from| format!("resourceVersion={from}"),
        );
        let nature = &self.observer.nature;
        let bookmarks = nature.bookmarks;
        let uri = format!(
            "{}?watch=1&allowWatchBookmarks={bookmarks}&timeoutSeconds={SECONDS}&{start}{}",
            nature.kind.path(None),
            self.selector()
        );
        let again = from.map_or(Next::Restart, Next::Resume);
        if from.is_none() {
            self.observer.asks();
        }
        let sent = self
            .requester
            .send(&Method::GET, &uri, None, self.accept())
            .await;
        let (status, headers, body) = match sent {
            Ok(answer) => answer,
            Err(why) => {
                self.requester.tally.failed(format!("WATCH {uri}: {why}"));
                return again;
            }
        };
        match status {
            StatusCode::OK => self.read(body, from).await,
            StatusCode::GONE => {
                self.observer.expired("410 to the request");
                Next::Restart
            }
            status => {
                if let Some(pause) = self.requester.pause(status, &headers) {
                    tokio::time::sleep(pause).await;
                } else {
                    let text = body
                        .collect()
                        .await
                        .map(http_body_util::Collected::to_bytes);
                    let text = text.unwrap_or_default();
                    let text = String::from_utf8_lossy(&text[..text.len().min(200)]).into_owned();
                    let text = format!("WATCH {uri}: {status} {text}");
                    self.requester.tally.failed(text);
                }
                again
            }
        }
    }

    /// Reads one watch to its end; returns the place from which to go on.
    async fn read(&self, body: Body, from: Option<u64>) -> Next {
        let stream = http_body_util::BodyExt::into_data_stream(body).map_err(std::io::Error::other);
        let mut lines = stream.into_async_read().lines();
        let mut at = from;
        // A broken connection is resumed like one that ended.
        while let Ok(Some(line)) = lines.try_next().await {
            match self.line(&line, at) {
                Ok(Some(version)) => at = Some(version),
                Ok(None) => {}
                Err(next) => return next.unwrap_or(at.map_or(Next::Restart, Next::Resume)),
            }
        }
        let tally = &self.requester.tally;
        let moment = tally.moment();
        let going = moment.direction == Direction::Forward;
        if self.observer.nature.bookmarks && !going && !moment.disturbed {
            tally.note(Note::WatchesEnded);
        }
        at.map_or(Next::Restart, Next::Resume)
    }

    /// Takes one event; returns the version from which a watch would be resumed after it. `at` is
    /// `None` as long as the initial state is being sent.
    fn line(&self, line: &str, at: Option<u64>) -> Result<Option<u64>, Option<Next>> {
        let kind = self.observer.nature.kind;
        let event: Value = serde_json::from_str(line).unwrap_or_default();
        let item = &event["object"];
        let version = object::version(item);
        let type_ = match event["type"].as_str() {
            Some("ADDED") => EventType::Added,
            Some("MODIFIED") => EventType::Modified,
            Some("DELETED") => EventType::Deleted,
            Some("BOOKMARK") => {
                let end = &item["metadata"]["annotations"]["k8s.io/initial-events-end"];
                return Ok(match at {
                    None if end != "true" => None,
                    None => {
                        self.observer.begun(version);
                        Some(version)
                    }
                    Some(at) => {
                        self.observer.bookmark(version);
                        Some(version.max(at))
                    }
                });
            }
            _ if item["code"] == 410 => {
                self.observer.expired(&format!("an event {line}"));
                return Err(Some(Next::Restart));
            }
            _ => {
                self.requester.tally.failed(format!("an event {line}"));
                return Err(None);
            }
        };
        let Some(at) = at else {
            self.observer.listed(self.seen(item));
            return Ok(None);
        };
        if self.style != Style::Metadata && object::torn(item, kind) {
            let name = &self.observer.nature.name;
            self.requester.tally.flaw(Flaw::OutOfOrder, || {
                format!("{name}: body and annotations are of two writes: {line}")
            });
        }
        self.observer.event(type_, &self.seen(item));
        Ok(Some(version.max(at)))
    }
}
