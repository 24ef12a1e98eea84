//! Writers of every verb. Each has names of its own in one namespace, so that it knows the state
//! that must be stored under them; a name whose state is in doubt is not used any more.

use std::time::Duration;

use http::{Method, StatusCode};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use super::ledger::{Expected, Fate, Key, Ledger, Stamp, What};
use super::object::{self, MANAGER, Subject};
use super::request::{Answer, Requester, media};
use super::tally::Note;
use super::work::{Pace, Worker};
use testreports::ReportKind;

/// Names of one writer.
const NAMES: usize = 12;
/// Number of further tries of a PUT after a conflict.
const CONFLICTS: u32 = 20;

/// The place where a writer writes.
#[derive(Clone, Debug)]
pub struct Place {
    /// Kind.
    pub kind: ReportKind,
    /// Namespace; for kinds of the cluster it is part of the names.
    pub namespace: String,
    /// Owner of some of the objects: name and uid of a `ConfigMap` in the namespace.
    pub owner: Option<(String, String)>,
}

/// The knowledge of a writer about one of its names.
struct Slot {
    subject: Subject,
    /// The stamp of the stored object.
    stamp: Option<Stamp>,
}

/// The way in which an object is changed.
#[derive(Clone, Copy, Debug)]
enum Verb {
    Merge,
    Json,
    Apply,
}

/// A writer of all verbs. See the module.
pub struct Writer {
    place: Place,
    requester: Requester,
    worker: Worker,
    rng: StdRng,
    made: usize,
}

impl Writer {
    /// Returns a writer that has not begun.
    #[must_use]
    pub fn new(place: Place, requester: Requester, worker: Worker, seed: u64) -> Self {
        Self {
            place,
            requester,
            worker,
            rng: StdRng::seed_from_u64(seed),
            made: 0,
        }
    }

    fn ledger(&self) -> &Ledger {
        &self.worker.ledger
    }

    /// Writes until it is stopped.
    pub async fn run(mut self, period: Duration) {
        let mut slots: Vec<Slot> = (0..NAMES).map(|_| self.slot(false)).collect();
        let mut pace = Pace::new(period);
        let worker = self.worker.clone();
        while let Some(_step) = worker.next(&mut pace).await {
            let index = self.rng.random_range(0..slots.len());
            let kept = self.step(&mut slots[index]).await;
            if !kept {
                let unnamed = self.rng.random_range(0..4) == 0;
                slots[index] = self.slot(unnamed);
            }
        }
    }

    /// Returns a name that was not used yet, or none.
    fn slot(&mut self, unnamed: bool) -> Slot {
        self.made += 1;
        let Place {
            kind,
            namespace,
            owner,
        } = self.place.clone();
        let name = if unnamed {
            String::new()
        } else {
            format!("{namespace}-{}", self.made)
        };
        let namespaced = kind.namespaced();
        Slot {
            subject: Subject {
                key: Key {
                    kind,
                    namespace: if namespaced { namespace } else { String::new() },
                    name,
                },
                selected: self.made.is_multiple_of(2),
                owner: owner.filter(|_| namespaced && self.made.is_multiple_of(3)),
            },
            stamp: None,
        }
    }

    /// Makes one write; returns whether the name can be used on.
    async fn step(&mut self, slot: &mut Slot) -> bool {
        let dice = self.rng.random_range(0..100);
        match slot.stamp {
            None if slot.subject.key.name.is_empty() => self.post_unnamed(slot).await,
            None if dice < 25 => self.write(slot, What::Create, Verb::Apply).await,
            None => self.post(slot).await,
            Some(_) if dice < 15 => self.delete(slot).await,
            Some(_) if dice < 45 => self.put(slot).await,
            Some(_) => {
                let verb = [Verb::Merge, Verb::Json, Verb::Apply][dice % 3];
                self.write(slot, What::Update, verb).await
            }
        }
    }

    async fn post(&self, slot: &mut Slot) -> bool {
        let subject = &slot.subject;
        let stamp = self
            .ledger()
            .begin(&subject.key, What::Create, subject.selected);
        let (body, uri) = (subject.body(stamp), subject.collection());
        let answer = self
            .requester
            .call(Method::POST, &uri, Some((media::JSON, &body)))
            .await;
        self.ended(
            slot,
            stamp,
            &format!("POST {}", slot.subject.path()),
            &answer,
        )
    }

    async fn post_unnamed(&self, slot: &mut Slot) -> bool {
        let subject = &mut slot.subject;
        let stamp = self.ledger().begin_unnamed();
        let mut body = subject.body(stamp);
        body["metadata"]["generateName"] = json!(format!("{}-g-", self.place.namespace));
        let uri = subject.collection();
        let answer = self
            .requester
            .call(Method::POST, &uri, Some((media::JSON, &body)))
            .await;
        let Answer::Said(StatusCode::CREATED, created) = &answer else {
            let fate = if answer.refuses() {
                Fate::Refused
            } else {
                Fate::Doubted
            };
            self.ledger().unnamed(stamp, fate);
            let text = format!("POST {uri} (generateName): {}", answer.text());
            self.requester.tally.failed(text);
            return false;
        };
        subject.key = object::key(self.place.kind, created);
        let content = object::content(created);
        self.ledger()
            .named(stamp, &subject.key, content, subject.selected);
        self.ledger()
            .answered_at(self.place.kind, object::version(created));
        slot.stamp = Some(stamp);
        true
    }

    /// Sends a patch of one of the three sorts; returns whether the name can be used on.
    async fn write(&self, slot: &mut Slot, what: What, verb: Verb) -> bool {
        let subject = &slot.subject;
        let kind = subject.key.kind;
        let stamp = self.ledger().begin(&subject.key, what, subject.selected);
        let path = subject.path();
        let (uri, media_type, body) = match verb {
            Verb::Apply => (
                format!("{path}?fieldManager={MANAGER}&force=true"),
                media::APPLY,
                subject.applied(stamp),
            ),
            Verb::Json => (path, media::JSON_PATCH, object::json_patch(kind, stamp)),
            Verb::Merge => (path, media::MERGE_PATCH, object::merge_patch(kind, stamp)),
        };
        let answer = self
            .requester
            .call(Method::PATCH, &uri, Some((media_type, &body)))
            .await;
        self.ended(slot, stamp, &format!("PATCH ({verb:?}) {uri}"), &answer)
    }

    /// Changes an object by GET and PUT with the version that was read, again after a conflict.
    async fn put(&self, slot: &mut Slot) -> bool {
        let (key, path) = (slot.subject.key.clone(), slot.subject.path());
        for _ in 0..CONFLICTS {
            let Some(mut object) = self.get(slot).await else {
                return false;
            };
            let ledger = self.ledger();
            let stamp = ledger.begin(&key, What::Update, slot.subject.selected);
            object::mark(&mut object, key.kind, stamp);
            let answer = self
                .requester
                .call(Method::PUT, &path, Some((media::JSON, &object)))
                .await;
            if let Answer::Said(StatusCode::CONFLICT, _) = answer {
                ledger.end(&key, stamp, Fate::Refused, String::new());
                self.requester.tally.note(Note::Conflicts);
                continue;
            }
            return self.ended(slot, stamp, &format!("PUT {path}"), &answer);
        }
        let text = format!("PUT {path}: {CONFLICTS} conflicts, one after the other");
        self.requester.tally.failed(text);
        false
    }

    /// Returns the stored object: it must be the one that was written last.
    async fn get(&self, slot: &mut Slot) -> Option<Value> {
        let path = slot.subject.path();
        let since = tokio::time::Instant::now();
        let answer = self.requester.call(Method::GET, &path, None).await;
        let tally = &self.requester.tally;
        match answer {
            Answer::Said(StatusCode::OK, object) => {
                let found = object::stamp(&object);
                if found == slot.stamp || self.gave_way(slot, found) {
                    return Some(object);
                }
                let wanted = slot.stamp;
                let key = &slot.subject.key;
                tally.stale_read(since, Some(key), || {
                    format!("GET {path}: {found:?} in place of {wanted:?}")
                });
            }
            Answer::Said(StatusCode::NOT_FOUND, _) if self.gave_way(slot, None) => {}
            Answer::Said(StatusCode::NOT_FOUND, _) => {
                let wanted = slot.stamp;
                let key = &slot.subject.key;
                tally.stale_read(since, Some(key), || {
                    format!("GET {path}: nothing in place of {wanted:?}")
                });
            }
            answer => tally.failed(format!("GET {path}: {}", answer.text())),
        }
        None
    }

    /// Takes over the found state, and returns true, where the ledger expects it because the last
    /// write gave way to another.
    fn gave_way(&self, slot: &mut Slot, found: Option<Stamp>) -> bool {
        let expected = match self.ledger().expected(&slot.subject.key) {
            Some(Expected::Present { id, seq, .. }) => Some(Stamp { seq, id }),
            Some(Expected::Absent) => None,
            _ => return false,
        };
        let gave_way = expected == found && expected != slot.stamp;
        if gave_way {
            slot.stamp = found;
        }
        gave_way
    }

    async fn delete(&self, slot: &mut Slot) -> bool {
        let subject = &slot.subject;
        let of = slot.stamp.map_or(0, |stamp| stamp.seq);
        let stamp = self
            .ledger()
            .begin(&subject.key, What::Delete(of), subject.selected);
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
        let path = subject.path();
        let body = Some((media::JSON, &options));
        let answer = self.requester.call(Method::DELETE, &path, body).await;
        let kept = self.ended(slot, stamp, &format!("DELETE {path}"), &answer);
        slot.stamp = None;
        // A name that the server gave is not given again.
        kept && !slot.subject.key.name.contains("-g-")
    }

    /// Records the outcome of a write; returns whether the name can be used on.
    fn ended(&self, slot: &mut Slot, stamp: Stamp, what: &str, answer: &Answer) -> bool {
        let key = &slot.subject.key;
        if let Answer::Said(status, object) = answer
            && status.is_success()
        {
            let content = object::content(object);
            self.ledger().end(key, stamp, Fate::Acknowledged, content);
            self.ledger().answered_at(key.kind, object::version(object));
            slot.stamp = Some(stamp);
            return true;
        }
        let fate = if answer.refuses() {
            Fate::Refused
        } else {
            Fate::Doubted
        };
        self.ledger().end(key, stamp, fate, String::new());
        let text = format!("{what}: {}", answer.text());
        self.requester.tally.failed(text);
        false
    }
}
