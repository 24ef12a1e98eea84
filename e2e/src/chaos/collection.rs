//! DELETECOLLECTION: a namespace of its own is filled and emptied, again and again.

use std::time::Duration;

use http::{Method, StatusCode};

use super::ledger::{Fate, Key, Stamp, What};
use super::object::{self, Subject};
use super::request::{Answer, Requester, media};
use super::work::{Pace, Worker};
use testreports::ReportKind;

/// Objects that are deleted at once.
const OBJECTS: usize = 5;

/// A client of deletecollection. See the module.
pub struct Collection {
    /// Kind of the objects.
    pub kind: ReportKind,
    /// The namespace, which nobody else writes to.
    pub namespace: String,
    /// The client.
    pub requester: Requester,
    /// The ledger, and the signal whether to go on.
    pub worker: Worker,
}

/// An object that exists, or may exist.
struct Made {
    subject: Subject,
    stamp: Stamp,
    sure: bool,
}

impl Collection {
    /// Fills and empties until it is stopped, one request a period.
    pub async fn run(self, period: Duration) {
        let mut pace = Pace::new(period);
        let mut there: Vec<Made> = Vec::new();
        let mut made = 0;
        while let Some(_step) = self.worker.next(&mut pace).await {
            if there.len() >= OBJECTS {
                self.delete(&mut there).await;
            } else {
                made += 1;
                there.extend(self.create(made).await);
            }
        }
    }

    /// Creates an object; returns `None` where it surely does not exist.
    async fn create(&self, number: usize) -> Option<Made> {
        let subject = Subject {
            key: Key {
                kind: self.kind,
                namespace: self.namespace.clone(),
                name: format!("{}-{number}", self.namespace),
            },
            selected: number.is_multiple_of(2),
            owner: None,
        };
        let ledger = &self.worker.ledger;
        let stamp = ledger.begin(&subject.key, What::Create, subject.selected);
        let (uri, body) = (subject.collection(), subject.body(stamp));
        let body = Some((media::JSON, &body));
        match self.requester.call(Method::POST, &uri, body).await {
            Answer::Said(StatusCode::CREATED, created) => {
                let content = object::content(&created);
                ledger.end(&subject.key, stamp, Fate::Acknowledged, content);
                Some(Made {
                    subject,
                    stamp,
                    sure: true,
                })
            }
            answer => {
                let refused = answer.refuses();
                let fate = if refused {
                    Fate::Refused
                } else {
                    Fate::Doubted
                };
                ledger.end(&subject.key, stamp, fate, String::new());
                let text = format!("POST {uri}: {}", answer.text());
                self.requester.tally.failed(text);
                (!refused).then_some(Made {
                    subject,
                    stamp,
                    sure: false,
                })
            }
        }
    }

    /// Deletes the objects. Those in doubt afterwards are not looked at again: the next names are
    /// others.
    async fn delete(&self, there: &mut Vec<Made>) {
        let ledger = &self.worker.ledger;
        let deletions: Vec<_> = there
            .drain(..)
            .map(|made| {
                let (subject, what) = (&made.subject, What::Delete(made.stamp.seq));
                let stamp = ledger.begin(&subject.key, what, subject.selected);
                (made, stamp)
            })
            .collect();
        let uri = self.kind.path(Some(&self.namespace));
        let answer = self.requester.call(Method::DELETE, &uri, None).await;
        let fate = match &answer {
            Answer::Said(StatusCode::OK, _) => Fate::Acknowledged,
            // Some of them may be gone, whatever was answered.
            answer => {
                let text = format!("DELETE {uri}: {}", answer.text());
                self.requester.tally.failed(text);
                Fate::Doubted
            }
        };
        for (made, stamp) in deletions {
            // Nobody knows whether there was anything to delete.
            let fate = if made.sure { fate } else { Fate::Doubted };
            ledger.end(&made.subject.key, stamp, fate, String::new());
        }
    }
}
