//! Counters under optimistic locking: several clients read a number, add one, and put it back with
//! the version that they read. Every acknowledged increment must count.

use std::time::Duration;

use http::{Method, StatusCode};

use super::ledger::{Expected, Fate, Ledger, Stamp, What};
use super::object::{self, Subject};
use super::request::{Answer, Requester, media};
use super::tally::{Flaw, Note, Tally};
use super::work::{Pace, Worker};

/// One of the clients that increment a counter.
pub struct Counter {
    /// The counter; it exists.
    pub subject: Subject,
    /// The client.
    pub requester: Requester,
    /// The ledger, and the signal whether to go on.
    pub worker: Worker,
}

/// Creates the counter; it begins with 1.
///
/// # Errors
/// If it is refused.
pub async fn create(
    subject: &Subject,
    requester: &Requester,
    ledger: &Ledger,
) -> Result<(), String> {
    let stamp = ledger.begin(&subject.key, What::Create, subject.selected);
    let (uri, body) = (subject.collection(), subject.body(stamp));
    let body = Some((media::JSON, &body));
    match requester.call(Method::POST, &uri, body).await {
        Answer::Said(StatusCode::CREATED, created) => {
            let content = object::content(&created);
            ledger.end(&subject.key, stamp, Fate::Acknowledged, content);
            Ok(())
        }
        answer => Err(format!("POST {uri}: {}", answer.text())),
    }
}

impl Counter {
    /// Increments until it is stopped.
    pub async fn run(self, period: Duration) {
        let mut pace = Pace::new(period);
        while let Some(_step) = self.worker.next(&mut pace).await {
            self.increment().await;
        }
    }

    async fn increment(&self) {
        let (key, path) = (&self.subject.key, self.subject.path());
        let (ledger, tally) = (&self.worker.ledger, &self.requester.tally);
        let floors = ledger.floors(key.kind, Some(&key.namespace));
        let since = tokio::time::Instant::now();
        let read = self.requester.call(Method::GET, &path, None).await;
        let found = match &read {
            Answer::Said(StatusCode::OK, object) => object::stamp(object),
            Answer::Said(StatusCode::NOT_FOUND, _) => None,
            answer => return tally.failed(format!("GET {path}: {}", answer.text())),
        };
        let floor = floors.get(key).copied().unwrap_or_default();
        if !ledger.fresh(key, floor, found) {
            tally.stale_read(since, Some(key), || {
                format!("GET {path}: {found:?} after {floor:?}")
            });
        }
        let (Answer::Said(_, mut object), Some(Stamp { seq, .. })) = (read, found) else {
            return;
        };
        let stamp = ledger.begin_at(key, What::Update, seq + 1, self.subject.selected);
        object::mark(&mut object, key.kind, stamp);
        let body = Some((media::JSON, &object));
        let answer = self.requester.call(Method::PUT, &path, body).await;
        let (fate, content) = match &answer {
            Answer::Said(StatusCode::OK, put) => {
                ledger.answered_at(key.kind, object::version(put));
                (Fate::Acknowledged, object::content(put))
            }
            Answer::Said(StatusCode::CONFLICT, _) => {
                tally.note(Note::Conflicts);
                (Fate::Refused, String::new())
            }
            answer => {
                tally.failed(format!("PUT {path}: {}", answer.text()));
                let refused = answer.refuses();
                let fate = if refused {
                    Fate::Refused
                } else {
                    Fate::Doubted
                };
                (fate, String::new())
            }
        };
        ledger.end(key, stamp, fate, content);
    }
}

/// Checks that every acknowledged increment counts: no two made the same number, and the number
/// that is expected is that of the increments, give or take those in doubt.
pub fn check(subjects: &[Subject], ledger: &Ledger, tally: &Tally) {
    for subject in subjects {
        ledger.each(|key, history| {
            if *key != subject.key {
                return;
            }
            let with = |fate| history.ops.iter().filter(move |op| op.fate == fate);
            let (sure, doubted) = (
                with(Fate::Acknowledged).count(),
                with(Fate::Doubted).count(),
            );
            let Expected::Present { seq, .. } = history.expected() else {
                return;
            };
            let (sure, most) = (sure as u64, (sure + doubted) as u64);
            if seq < sure || seq > most {
                tally.flaw_of(Flaw::Lost, key, || {
                    format!("{key:?}: {sure} to {most} increments, and it stands at {seq}")
                });
            }
        });
    }
}
