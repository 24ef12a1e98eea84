//! The objects of a list while nobody writes, compared with the acknowledged writes.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use http::{Method, StatusCode};
use serde_json::Value;
use tokio::time::Instant;

use super::ledger::{Expected, Key, Ledger, Stamp};
use super::request::{Answer, Requester};
use super::tally::{Flaw, Tally};
use super::{ChaosError, object};
use testreports::ReportKind;

/// Objects of a page.
const PAGE: u32 = 500;
/// Time for which a page is tried.
const LIMIT: Duration = Duration::from_secs(90);
/// Most objects of one check that are looked at again.
const LOOKED_AT: usize = 5;
/// Pause between two tries.
const PAUSE: Duration = Duration::from_secs(1);

/// An object as a list shows it.
#[derive(Clone, Debug)]
pub struct Found {
    /// The stamp; `None` for an object that the harness did not write.
    pub stamp: Option<Stamp>,
    /// The content; see [`object::content`].
    pub content: String,
}

/// Returns all objects of these kinds.
///
/// # Errors
/// If a list is not available in time.
pub async fn list(
    requester: &Requester,
    kinds: &[ReportKind],
) -> Result<BTreeMap<Key, Found>, ChaosError> {
    let mut found = BTreeMap::new();
    for kind in kinds {
        let mut token = String::new();
        loop {
            let uri = format!("{}?limit={PAGE}&continue={token}", kind.path(None));
            let page = page(requester, &uri).await?;
            for item in page["items"].as_array().into_iter().flatten() {
                let stamp = object::stamp(item);
                let content = object::content(item);
                found.insert(object::key(*kind, item), Found { stamp, content });
            }
            let next = page["metadata"]["continue"].as_str();
            next.unwrap_or_default().clone_into(&mut token);
            if token.is_empty() {
                break;
            }
        }
    }
    Ok(found)
}

async fn page(requester: &Requester, uri: &str) -> Result<Value, ChaosError> {
    let deadline = Instant::now() + LIMIT;
    loop {
        let answer = requester.call(Method::GET, uri, None).await;
        if let Answer::Said(StatusCode::OK, page) = answer {
            return Ok(page);
        }
        let text = format!("GET {uri}: {}", answer.text());
        requester.tally.failed(text.clone());
        if Instant::now() > deadline {
            return Err(ChaosError::Request(text));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Reports the answers of each kube-apiserver about the first objects that were found wrong, so that
/// a state which is gone is told from a list that lacked it.
pub async fn look_again(requesters: &[Requester], wrong: &[Key]) {
    for key in wrong.iter().take(LOOKED_AT) {
        look_at(requesters, key).await;
    }
}

async fn look_at(requesters: &[Requester], key: &Key) {
    let Key {
        kind,
        namespace,
        name,
    } = key;
    let namespace = (!namespace.is_empty()).then_some(namespace.as_str());
    let uri = format!("{}/{name}", kind.path(namespace));
    for (apiserver, requester) in requesters.iter().enumerate() {
        let answer = requester.call(Method::GET, &uri, None).await;
        let metadata = match &answer {
            Answer::Said(_, object) => object["metadata"].to_string(),
            Answer::Unclear(_) => String::new(),
        };
        let status = answer.text();
        tracing::warn!(uri, apiserver, status, metadata, "looked at again");
    }
}

/// The faults that were found, so that none is counted in every round.
#[derive(Default)]
pub struct Comparison(HashSet<Key>);

impl Comparison {
    /// Counts lost objects and those that have come back; returns those that were not counted
    /// before.
    pub fn compare(
        &mut self,
        found: &BTreeMap<Key, Found>,
        ledger: &Ledger,
        tally: &Tally,
    ) -> Vec<Key> {
        let known = self.0.clone();
        let background = ledger.background();
        ledger.each(|key, history| {
            if let Some((flaw, why)) = judge(&history.expected(), found.get(key)) {
                let why = format!("{why}; {}", history.told());
                self.count(tally, flaw, key, &why);
            }
        });
        self.count_background(&background, found, tally);
        for (key, object) in found {
            let ours = object.stamp.is_some_and(|stamp| ledger.knows(key, stamp));
            if !ours && !background.contains_key(key) {
                self.count(tally, Flaw::Resurrected, key, "is there and nobody made it");
            }
        }
        self.0.difference(&known).cloned().collect()
    }

    /// Counts lost objects of the kinds that are listed and that nobody writes; returns those that
    /// were not counted before.
    pub fn compare_background(
        &mut self,
        found: &BTreeMap<Key, Found>,
        kinds: &[ReportKind],
        ledger: &Ledger,
        tally: &Tally,
    ) -> Vec<Key> {
        let known = self.0.clone();
        let mut background = ledger.background();
        background.retain(|key, _| kinds.contains(&key.kind));
        self.count_background(&background, found, tally);
        self.0.difference(&known).cloned().collect()
    }

    fn count_background(
        &mut self,
        background: &BTreeMap<Key, String>,
        found: &BTreeMap<Key, Found>,
        tally: &Tally,
    ) {
        for (key, content) in background {
            match found.get(key) {
                None => self.count(tally, Flaw::Lost, key, "was there before"),
                Some(found) if found.content != *content => {
                    self.count(tally, Flaw::Lost, key, "has changed, and nobody wrote");
                }
                Some(_) => {}
            }
        }
    }

    fn count(&mut self, tally: &Tally, flaw: Flaw, key: &Key, why: &str) {
        if self.0.insert(key.clone()) {
            tally.flaw_of(flaw, key, || format!("{key:?} {why}"));
        }
    }

    /// Forgets that an object was counted, once that is explained, so that it counts again.
    pub fn explained(&mut self, key: &Key) {
        self.0.remove(key);
    }
}

/// Returns the fault of an object.
fn judge(expected: &Expected, found: Option<&Found>) -> Option<(Flaw, String)> {
    match (expected, found) {
        (Expected::Unknown, _) | (Expected::Absent, None) => None,
        (Expected::Absent, Some(found)) => {
            let why = format!("was deleted and is there as {:?}", found.stamp);
            Some((Flaw::Resurrected, why))
        }
        (Expected::Present { seq, .. }, None) => {
            Some((Flaw::Lost, format!("number {seq} is not there")))
        }
        (Expected::Present { id, seq, content }, Some(found)) => {
            if found.stamp.is_none_or(|stamp| stamp.id != *id) {
                let why = format!("number {seq} (write {id}) is {:?}", found.stamp);
                return Some((Flaw::Lost, why));
            }
            (found.content != *content)
                .then(|| (Flaw::Lost, format!("number {seq} has other content")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::ledger::{Fate, What};

    fn key() -> Key {
        Key {
            kind: ReportKind::PolicyReport,
            namespace: "n".into(),
            name: "a".into(),
        }
    }

    fn found(stamp: Stamp, content: &str) -> BTreeMap<Key, Found> {
        let found = Found {
            stamp: Some(stamp),
            content: content.into(),
        };
        [(key(), found)].into()
    }

    fn count(ledger: &Ledger, found: &BTreeMap<Key, Found>) -> (u64, u64) {
        let tally = Tally::default();
        let mut comparison = Comparison::default();
        comparison.compare(found, ledger, &tally);
        comparison.compare(found, ledger, &tally);
        (tally.flaws(Flaw::Lost), tally.flaws(Flaw::Resurrected))
    }

    #[test]
    fn what_is_lost_and_what_comes_back_is_counted_once() {
        let ledger = Ledger::default();
        let old = ledger.begin(&key(), What::Create, false);
        ledger.end(&key(), old, Fate::Acknowledged, "1".into());
        let new = ledger.begin(&key(), What::Update, false);
        ledger.end(&key(), new, Fate::Acknowledged, "2".into());
        assert_eq!(count(&ledger, &found(new, "2")), (0, 0));
        assert_eq!(count(&ledger, &found(old, "1")), (1, 0), "older");
        assert_eq!(count(&ledger, &found(new, "3")), (1, 0), "changed");
        assert_eq!(count(&ledger, &BTreeMap::new()), (1, 0), "gone");
        let gone = ledger.begin(&key(), What::Delete(2), false);
        ledger.end(&key(), gone, Fate::Acknowledged, String::new());
        assert_eq!(count(&ledger, &found(new, "2")), (0, 1));
        let other = Stamp { seq: 1, id: 99 };
        assert_eq!(count(&Ledger::default(), &found(other, "1")), (0, 1));
    }
}
