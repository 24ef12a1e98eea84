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

    /// Takes the mark of a copy.
    pub fn mark(&mut self, key: Key, mark: &Side) {
        match self.written.get(&key) {
            Some(etcd) if knows(mark, etcd) => {
                self.written.remove(&key);
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
        if self
            .written
            .get(&key)
            .is_some_and(|etcd| knows(object, etcd))
        {
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

/// Returns whether a mark or an object is of this state in etcd. The mark of a copy that the way
/// back was about to make has no uid.
fn knows(side: &Side, (uid, version): &(Box<str>, u64)) -> bool {
    side.uid.is_empty() || side.uid == *uid && side.version == *version
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(name: &str) -> Key {
        Key {
            namespace: "n".into(),
            name: name.into(),
        }
    }

    fn side(uid: &str, version: u64, checksum: &str) -> Side {
        Side {
            uid: uid.into(),
            version,
            checksum: (!checksum.is_empty()).then(|| Sha256::digest(checksum).into()),
            as_imported: true,
        }
    }

    fn differing(etcd: &Snapshot, server: &Snapshot, listed: u64) -> BTreeMap<Key, Difference> {
        compare(etcd, server, listed, Verification::Full).0
    }

    fn snapshot(all: &[(&str, Side)]) -> Snapshot {
        all.iter()
            .map(|(name, side)| (key(name), side.clone()))
            .collect()
    }

    #[test]
    fn every_kind_of_difference_is_found() {
        let etcd = snapshot(&[
            ("same", side("a", 1, "x")),
            ("not sampled", side("n", 1, "")),
            ("content", side("b", 2, "x")),
            ("behind", side("c", 9, "x")),
            ("missing", side("d", 4, "x")),
            ("recreated", side("e2", 8, "x")),
            ("newer", side("f", 5, "x")),
        ]);
        let server = snapshot(&[
            ("same", side("a", 1, "x")),
            ("not sampled", side("n", 1, "y")),
            ("content", side("b", 2, "y")),
            ("behind", side("c", 3, "x")),
            ("recreated", side("e1", 7, "x")),
            ("newer", side("f", 11, "z")),
            ("created later", side("g", 12, "x")),
            ("not deleted", side("h", 6, "x")),
        ]);
        let found = differing(&etcd, &server, 10);
        let names: Vec<&str> = found.keys().map(|k| k.name.as_str()).collect();
        assert_eq!(
            names,
            ["behind", "content", "missing", "not deleted", "recreated"]
        );
        assert!(found[&key("content")].content);
        assert_eq!(
            found[&key("missing")].describe(),
            "etcd: uid d at 4; server: absent"
        );
    }

    #[test]
    fn the_checksum_is_of_what_is_equal_in_any_order() {
        let etcd = snapshot(&[
            ("a", side("a", 1, "x")),
            ("b", side("b", 2, "x")),
            ("c", side("c", 3, "x")),
        ]);
        let counted =
            |etcd: &Snapshot, server: &Snapshot| compare(etcd, server, 10, Verification::Full).1;
        let mut server = etcd.clone();
        server.insert(key("c"), side("c", 14, "y"));
        let later = counted(&etcd, &server);
        assert_eq!((later.objects, later.equal, later.checksummed), (3, 2, 2));
        server.remove(&key("c"));
        let without = counted(&server, &server);
        assert_eq!(later.checksum, without.checksum);
        assert_ne!(later.checksum, counted(&etcd, &etcd).checksum);
    }

    #[test]
    fn what_was_not_compared_by_checksum_is_not_counted_as_such() {
        let server = snapshot(&[
            ("a", side("a", 1, "x")),
            ("b", side("b", 2, "x")),
            ("c", side("c", 3, "x")),
        ]);
        let mut etcd = server.clone();
        for (key, side) in &mut etcd {
            if key.name != "b" {
                side.checksum = None;
            }
        }
        let (_, sampled) = compare(&etcd, &server, 10, Verification::Sample);
        assert_eq!(
            (sampled.objects, sampled.equal, sampled.checksummed),
            (3, 3, 1)
        );
        assert_eq!(sampled.as_asked, Verification::Sample);
    }

    fn lacking(all: &[(&str, u64)]) -> BTreeMap<Key, Difference> {
        let etcd: Vec<_> = all
            .iter()
            .map(|(name, v)| (*name, side("u", *v, "x")))
            .collect();
        differing(&snapshot(&etcd), &Snapshot::new(), 1000)
    }

    #[test]
    fn a_suspect_is_cleared_by_a_round_without_it_whatever_else_is_new() {
        let first = judge(None, lacking(&[("a", 5)]), 10, 3, false);
        let Verdict::Again(suspects) = first else {
            panic!("{first:?}")
        };
        assert_eq!(suspects.since, 10);
        assert_eq!(
            judge(Some(suspects), lacking(&[("b", 12)]), 20, 11, false),
            Verdict::Verified
        );
    }

    #[test]
    fn a_suspect_is_unexplained_once_the_stream_has_passed_and_it_is_the_same() {
        let suspects = Some(Suspects {
            since: 10,
            all: lacking(&[("a", 5), ("b", 6)]),
        });
        let again = judge(suspects.clone(), lacking(&[("a", 5)]), 20, 9, false);
        let rest = Suspects {
            since: 10,
            all: lacking(&[("a", 5)]),
        };
        assert_eq!(again, Verdict::Again(rest));
        let unexplained = Verdict::Unexplained(lacking(&[("a", 5)]));
        assert_eq!(
            judge(suspects, lacking(&[("a", 5)]), 20, 10, false),
            unexplained
        );
    }

    #[test]
    fn an_object_that_keeps_changing_but_never_arrives_is_not_explained_by_its_changes() {
        let suspects = Some(Suspects {
            since: 10,
            all: lacking(&[("a", 5)]),
        });
        let again = judge(suspects, lacking(&[("a", 15)]), 20, 12, false);
        let Verdict::Again(suspects) = again else {
            panic!("{again:?}")
        };
        let overdue = judge(Some(suspects), lacking(&[("a", 25)]), 30, 22, true);
        assert_eq!(overdue, Verdict::Unexplained(lacking(&[("a", 25)])));
    }

    #[test]
    fn missed_writes_and_deletions_are_told_from_our_own_history() {
        let identity = |name: &str, uid: &str, version| Identity {
            key: key(name),
            uid: uid.into(),
            version,
        };
        let etcd = [
            identity("seen", "a", 1),
            identity("changed by us", "b", 2),
            identity("deleted by us", "c", 3),
            identity("unseen update", "d", 9),
            identity("unseen create", "e", 10),
        ];
        let imported = snapshot(&[
            ("seen", side("a", 1, "")),
            ("changed by us", side("b", 2, "")),
            ("deleted by us", side("c", 3, "")),
            ("unseen update", side("d", 4, "")),
            ("unseen delete", side("f", 5, "")),
            ("deleted on both sides", side("h", 6, "")),
            ("deleted there, changed by us", side("i", 7, "")),
        ]);
        let mut ours = side("b", 50, "");
        ours.as_imported = false;
        let mut changed = side("i", 52, "");
        changed.as_imported = false;
        let mut created = side("g", 51, "");
        created.as_imported = false;
        let objects = snapshot(&[
            ("seen", side("a", 1, "")),
            ("changed by us", ours),
            ("unseen update", side("d", 4, "")),
            ("unseen delete", side("f", 5, "")),
            ("created by us", created),
            ("deleted there, changed by us", changed),
            ("pruned", side("p", 8, "")),
        ]);
        let mut search = Search::default();
        for one in etcd {
            search.etcd(one);
        }
        for (key, mark) in &imported {
            search.mark(key.clone(), mark);
        }
        for (key, object) in &objects {
            search.object(key.clone(), object);
        }
        let missed = search.end();
        let names = |all: &[Identity]| all.iter().map(|i| i.key.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&missed.written), ["unseen create", "unseen update"]);
        assert_eq!(
            names(&missed.deleted),
            ["unseen delete"],
            "not what was pruned"
        );
        assert_eq!(names(&missed.kept), ["deleted there, changed by us"]);
    }

    proptest! {
        #[test]
        fn equal_sides_never_differ(
            all in prop::collection::hash_map("[a-z]{1,3}", (0u8..4, 1u64..50), 0..20), listed in 0u64..60
        ) {
            let one: Snapshot = all
                .iter()
                .map(|(name, (uid, version))| (key(name), side(&uid.to_string(), *version, "x")))
                .collect();
            prop_assert!(differing(&one, &one, listed).is_empty());
        }

        #[test]
        fn whatever_the_list_knew_and_the_server_lacks_is_found(
            all in prop::collection::hash_map("[a-z]{1,3}", 1u64..50, 1..20), lost in any::<prop::sample::Index>()
        ) {
            let etcd: Snapshot =
                all.iter().map(|(name, version)| (key(name), side("u", *version, "x"))).collect();
            let mut names: Vec<_> = etcd.keys().cloned().collect();
            names.sort();
            let gone = lost.get(&names).clone();
            let mut server = etcd.clone();
            server.remove(&gone);
            let found = differing(&etcd, &server, 50);
            prop_assert_eq!(found.keys().collect::<Vec<_>>(), vec![&gone]);
        }
    }
}
