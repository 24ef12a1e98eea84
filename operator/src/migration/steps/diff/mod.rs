//! The comparison of etcd with the server. Pure.

use std::collections::{BTreeMap, HashMap, HashSet};

use crds::control::{Checksum, DigestItem};
use crds::v1alpha1::spec::Verification;
use sha2::{Digest as _, Sha256};

use crate::migration::cluster::pages::{Identity, Key};
use crate::migration::plan::verified::Verified;

/// One side of an object: uid, resourceVersion and, where it is known, the checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// uid.
    pub uid: Box<str>,
    /// resourceVersion.
    pub version: u64,
    /// See [`crds::control::checksum`]; absent when it was not computed.
    pub checksum: Option<Checksum>,
    /// True when the object at the server is as it was imported.
    pub as_imported: bool,
}

/// Objects by key. Of a million there may be one, not two: what is compared with it comes entry by
/// entry.
pub type Snapshot = HashMap<Key, Side>;

/// Returns the server's side of an object.
#[must_use]
pub fn of_digest(item: DigestItem) -> (Key, Side) {
    let mut checksum = [0; 32];
    let known = hex::decode_to_slice(&item.checksum, &mut checksum).is_ok();
    let side = Side {
        uid: item.uid.into(),
        version: item.resource_version.parse().unwrap_or_default(),
        checksum: known.then_some(checksum),
        as_imported: item.as_imported,
    };
    let key = Key {
        namespace: item.namespace,
        name: item.name,
    };
    (key, side)
}

/// The difference of one object: what both sides had when it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The state in etcd: uid and resourceVersion.
    pub etcd: Option<(Box<str>, u64)>,
    /// The state at the server.
    pub server: Option<(Box<str>, u64)>,
    /// True when uid and resourceVersion are the same, but the content is not.
    pub content: bool,
}

impl Difference {
    /// Describes the difference in one clause for people.
    #[must_use]
    pub fn describe(&self) -> String {
        let side = |side: &Option<(Box<str>, u64)>| match side {
            Some((uid, version)) => format!("uid {uid} at {version}"),
            None => "absent".to_owned(),
        };
        if self.content {
            format!("same version, other content ({})", side(&self.etcd))
        } else {
            format!("etcd: {}; server: {}", side(&self.etcd), side(&self.server))
        }
    }
}

/// The comparison of a list of etcd with the server's digest taken after it.
#[derive(Debug)]
pub struct Comparison {
    /// The objects that the digest has not named yet.
    etcd: Snapshot,
    /// The version of the list.
    listed: u64,
    objects: u64,
    equal: u64,
    checksummed: u64,
    hasher: Sha256,
    found: BTreeMap<Key, Difference>,
}

impl Comparison {
    /// Returns a comparison with a list at version `listed`.
    #[must_use]
    pub fn new(etcd: Snapshot, listed: u64) -> Self {
        Self {
            objects: etcd.len() as u64,
            etcd,
            listed,
            equal: 0,
            checksummed: 0,
            hasher: Sha256::new(),
            found: BTreeMap::new(),
        }
    }

    /// Takes the next entry of the digest, which is sorted by namespace, then name.
    pub fn take(&mut self, key: Key, server: &Side) {
        let etcd = self.etcd.remove(&key);
        match (difference(etcd.as_ref(), Some(server), self.listed), &etcd) {
            (Some(difference), _) => {
                self.found.insert(key, difference);
            }
            (None, Some(etcd)) if etcd.version == server.version => self.count(&key, etcd),
            (None, _) => {}
        }
    }

    fn count(&mut self, key: &Key, side: &Side) {
        let Key { namespace, name } = key;
        let Side { uid, version, .. } = side;
        let checksum = side.checksum.map(hex::encode).unwrap_or_default();
        self.equal += 1;
        self.checksummed += u64::from(side.checksum.is_some());
        // None of the parts can hold a slash.
        self.hasher
            .update(format!("{namespace}/{name}/{uid}/{version}/{checksum}\n"));
    }

    /// Returns everything that differs, except what the server has from later than the list, which
    /// could not know that; and what is equal.
    #[must_use]
    pub fn end(mut self, how: Verification) -> (BTreeMap<Key, Difference>, Verified) {
        for (key, etcd) in self.etcd {
            let lacking = difference(Some(&etcd), None, self.listed);
            self.found.extend(lacking.map(|lacking| (key, lacking)));
        }
        let verified = Verified {
            objects: self.objects,
            equal: self.equal,
            checksummed: self.checksummed,
            as_asked: how,
            checksum: hex::encode(self.hasher.finalize()),
        };
        (self.found, verified)
    }
}

fn difference(etcd: Option<&Side>, server: Option<&Side>, listed: u64) -> Option<Difference> {
    let brief = |side: Option<&Side>| side.map(|s| (s.uid.clone(), s.version));
    let found = |content| {
        Some(Difference {
            etcd: brief(etcd),
            server: brief(server),
            content,
        })
    };
    match (etcd, server) {
        (Some(e), Some(s)) if e.uid == s.uid && e.version == s.version => {
            if e.checksum.is_none() || e.checksum == s.checksum {
                None
            } else {
                found(true)
            }
        }
        (_, Some(s)) if s.version > listed => None,
        (None, None) => None,
        _ => found(false),
    }
}

/// Differences that wait for their explanation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suspects {
    /// The version of the list that first showed them.
    pub since: u64,
    /// The differences, as they were in the last round.
    pub all: BTreeMap<Key, Difference>,
}

/// The result of a round of comparing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every object was found equal or was changed by the stream since.
    Verified,
    /// The differences have to be compared again.
    Again(Suspects),
    /// Nothing explains these.
    Unexplained(BTreeMap<Key, Difference>),
}

/// Judges a round. `listed` is the version of its list, `position` what the mirror had durably
/// sent before the round began, `overdue` whether the suspects have had time enough.
///
/// A suspect is cleared by the first round that does not show it. Differences which are new in a
/// later round need no look: that object was equal in an earlier one and the stream has changed
/// it since. A suspect is unexplained when it is exactly the same although the stream has passed
/// the list that first showed it.
#[must_use]
pub fn judge(
    suspects: Option<Suspects>,
    found: BTreeMap<Key, Difference>,
    listed: u64,
    position: u64,
    overdue: bool,
) -> Verdict {
    let Some(Suspects { since, all }) = suspects else {
        return if found.is_empty() {
            Verdict::Verified
        } else {
            Verdict::Again(Suspects {
                since: listed,
                all: found,
            })
        };
    };
    let still: BTreeMap<Key, Difference> = found
        .into_iter()
        .filter(|(key, _)| all.contains_key(key))
        .collect();
    let same: BTreeMap<Key, Difference> = still
        .iter()
        .filter(|(key, difference)| all.get(*key) == Some(*difference))
        .map(|(key, difference)| (key.clone(), difference.clone()))
        .collect();
    if still.is_empty() {
        Verdict::Verified
    } else if position >= since && !same.is_empty() {
        Verdict::Unexplained(same)
    } else if overdue {
        Verdict::Unexplained(still)
    } else {
        Verdict::Again(Suspects { since, all: still })
    }
}

/// Names the first ten, each with its difference.
#[must_use]
pub fn name_first<'a, V: 'a>(
    all: impl ExactSizeIterator<Item = (&'a Key, V)>,
    describe: impl Fn(V) -> String,
) -> Vec<String> {
    all.take(NAMED)
        .map(|(key, value)| format!("{key} ({})", describe(value)))
        .collect()
}

/// The number of objects that a message names.
pub const NAMED: usize = 10;

/// Writes to etcd that the server has not seen, and deletions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// Objects in etcd with a uid or version that was never imported.
    pub written: Vec<Identity>,
    /// Those of them which the way back was about to make: it has, or a client.
    pub announced: HashSet<Key>,
    /// Those of them which are later states of copies: of the way back, or of a client.
    pub rewritten: HashSet<Key>,
    /// Copies that are gone from etcd and untouched by us: deleted there unseen.
    pub deleted: Vec<Identity>,
    /// Copies that are gone from etcd, but changed by us since: they stay.
    pub kept: Vec<Identity>,
}

impl Missed {
    /// Returns whether nothing was missed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.written.is_empty() && self.deleted.is_empty() && self.kept.is_empty()
    }
}

/// The search for what the mirror has missed: etcd now (read through the side door) first, then the
/// marks of the copies that were imported, then the server's objects.
#[derive(Debug, Default)]
pub struct Search {
    /// The objects in etcd that were not found among marks and objects: uid and version.
    written: HashMap<Key, (Box<str>, u64)>,
    /// The marks of copies that are gone from etcd. What was never copied, or pruned since, is not
    /// missing there.
    gone: HashSet<Key>,
    missed: Missed,
}

impl Search {
    /// Takes an object of etcd.
    pub fn etcd(&mut self, one: Identity) {
        self.written.insert(one.key, (one.uid.into(), one.version));
    }

    /// Takes the mark of a copy. That of one which the way back was about to make has no uid.
    pub fn mark(&mut self, key: Key, mark: &Side) {
        match self.written.get(&key) {
            Some(_) if mark.uid.is_empty() => {
                self.missed.announced.insert(key);
            }
            Some(etcd) if knows(mark, etcd) => {
                self.written.remove(&key);
            }
            Some((uid, _)) if *uid == mark.uid => {
                self.missed.rewritten.insert(key);
            }
            Some(_) => {}
            None if mark.uid.is_empty() => {}
            None => {
                self.gone.insert(key);
            }
        }
    }

    /// Takes an object of the server.
    pub fn object(&mut self, key: Key, object: &Side) {
        // The version of what was written here is no revision of etcd, though it may be the same number.
        let of_etcd = object.as_imported && !self.missed.rewritten.contains(&key);
        let etcd = self.written.get(&key).filter(|_| of_etcd);
        if etcd.is_some_and(|etcd| knows(object, etcd)) {
            self.written.remove(&key);
        }
        if self.gone.remove(&key) {
            let all = if object.as_imported {
                &mut self.missed.deleted
            } else {
                &mut self.missed.kept
            };
            all.push(Identity {
                key,
                uid: object.uid.to_string(),
                version: object.version,
            });
        }
    }

    /// Returns what was missed, sorted by key.
    #[must_use]
    pub fn end(self) -> Missed {
        let written = self
            .written
            .into_iter()
            .map(|(key, (uid, version))| Identity {
                key,
                uid: uid.into(),
                version,
            });
        let mut missed = self.missed;
        missed.written = written.collect();
        for all in [&mut missed.written, &mut missed.deleted, &mut missed.kept] {
            all.sort_by(|a, b| a.key.cmp(&b.key));
        }
        missed
    }
}

/// Returns whether a mark or an object is of this state in etcd.
fn knows(side: &Side, (uid, version): &(Box<str>, u64)) -> bool {
    side.uid == *uid && side.version == *version
}

/// Returns the result of a comparison with a whole digest.
#[cfg(test)]
pub(super) fn compare(
    etcd: &Snapshot,
    server: &Snapshot,
    listed: u64,
    how: Verification,
) -> (BTreeMap<Key, Difference>, Verified) {
    let mut comparison = Comparison::new(etcd.clone(), listed);
    let sorted: BTreeMap<_, _> = server.iter().collect();
    for (key, side) in sorted {
        comparison.take(key.clone(), side);
    }
    comparison.end(how)
}

#[cfg(test)]
mod tests;
