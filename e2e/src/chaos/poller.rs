//! Lists that must be as new as the writes that were acknowledged before they began.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use serde_json::Value;

use super::ledger::{Key, Stamp};
use super::object;
use super::request::{Answer, Requester};
use super::tally::Note;
use super::work::{Pace, Worker};
use testreports::ReportKind;

/// Factor by which the time from one list to the next exceeds the time of a list.
const SHARE: u32 = 5;

/// A client that lists one kind, in one namespace or in all.
pub struct Poller {
    /// Kind.
    pub kind: ReportKind,
    /// Namespace, or all.
    pub namespace: Option<String>,
    /// The client.
    pub requester: Requester,
    /// The ledger, and the signal whether to go on.
    pub worker: Worker,
}

impl Poller {
    /// Lists until it is stopped; long lists seldom, so that they leave the cluster to others.
    pub async fn run(self, period: Duration) {
        let mut pace = Pace::new(period);
        while let Some(step) = self.worker.next(&mut pace).await {
            let began = Instant::now();
            self.poll().await;
            drop(step);
            let rest = began.elapsed() * (SHARE - 1);
            if rest > period {
                pace.put_off(rest);
            }
        }
    }

    async fn poll(&self) {
        let (ledger, tally) = (&self.worker.ledger, &self.requester.tally);
        let floors = ledger.floors(self.kind, self.namespace.as_deref());
        let version_floor = ledger.version_floor(self.kind);
        let uri = self.kind.path(self.namespace.as_deref());
        let since = tokio::time::Instant::now();
        let list = match self.requester.call(Method::GET, &uri, None).await {
            Answer::Said(StatusCode::OK, list) => list,
            answer => return tally.failed(format!("GET {uri}: {}", answer.text())),
        };
        tally.note(Note::Reads);
        let version = object::version(&list);
        if version < version_floor {
            tally.stale_read(since, None, || {
                format!("GET {uri}: version {version} after {version_floor}")
            });
        }
        let found = self.found(&list);
        for (key, floor) in floors {
            let shown = found.get(&key).copied();
            if !ledger.fresh(&key, floor, shown) {
                tally.stale_read(since, Some(&key), || {
                    format!("GET {uri} at {version}: {key:?} is {shown:?} after {floor:?}")
                });
            }
        }
        ledger.answered_at(self.kind, version);
    }

    fn found(&self, list: &Value) -> HashMap<Key, Stamp> {
        let items = list["items"].as_array().into_iter().flatten();
        items
            .filter_map(|item| Some((object::key(self.kind, item), object::stamp(item)?)))
            .collect()
    }
}
