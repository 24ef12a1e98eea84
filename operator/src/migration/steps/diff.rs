//! The comparison of etcd with the server. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crds::control::DigestItem;

use crate::migration::cluster::pages::{Identity, Key};

/// One side of an object: uid, resourceVersion and, where it is known, the checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// uid.
    pub uid: String,
    /// resourceVersion.
    pub version: u64,
    /// See [`crds::control::checksum`]; empty when it was not computed.
    pub checksum: String,
    /// True when the object at the server is as it was imported.
    pub as_imported: bool,
}

/// Objects by key.
pub type Snapshot = HashMap<Key, Side>;

/// Returns the server's side.
#[must_use]
pub fn of_digest(items: Vec<DigestItem>) -> Snapshot {
    items
        .into_iter()
        .map(|item| {
            let side = Side {
                uid: item.uid,
                version: item.resource_version.parse().unwrap_or_default(),
                checksum: item.checksum,
                as_imported: item.as_imported,
            };
            (
                Key {
                    namespace: item.namespace,
                    name: item.name,
                },
                side,
            )
        })
        .collect()
}

/// The difference of one object: what both sides had when it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The state in etcd: uid and resourceVersion.
    pub etcd: Option<(String, u64)>,
    /// The state at the server.
    pub server: Option<(String, u64)>,
    /// True when uid and resourceVersion are the same, but the content is not.
    pub content: bool,
}

impl Difference {
    /// Describes the difference in one clause for people.
    #[must_use]
    pub fn describe(&self) -> String {
        let side = |side: &Option<(String, u64)>| match side {
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

/// Returns everything that differs between a list of etcd at version `listed` and the server's
/// digest taken after it, except what the server has from later: the list could not know that.
#[must_use]
pub fn compare(etcd: &Snapshot, server: &Snapshot, listed: u64) -> BTreeMap<Key, Difference> {
    let keys: BTreeSet<&Key> = etcd.keys().chain(server.keys()).collect();
    keys.into_iter()
        .filter_map(|key| {
            let (e, s) = (etcd.get(key), server.get(key));
            difference(e, s, listed).map(|d| (key.clone(), d))
        })
        .collect()
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
            if e.checksum.is_empty() || e.checksum == s.checksum {
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

/// Returns what the mirror has missed, judged by etcd now (read through the side door), the
/// imported copies and the server's objects.
#[must_use]
pub fn missed(etcd: &[Identity], imported: &Snapshot, objects: &Snapshot) -> Missed {
    // The mark of a copy that the way back was about to make has no uid.
    let known = |one: &Identity, side: &Side| {
        side.uid.is_empty() || side.uid == one.uid && side.version == one.version
    };
    let present: BTreeSet<&Key> = etcd.iter().map(|e| &e.key).collect();
    let written = etcd
        .iter()
        .filter(|e| !imported.get(&e.key).is_some_and(|i| known(e, i)))
        .filter(|e| !objects.get(&e.key).is_some_and(|o| known(e, o)))
        .cloned()
        .collect();
    // What was never copied, or pruned since, is not missing in etcd.
    let gone = imported
        .iter()
        .filter(|(key, mark)| !mark.uid.is_empty() && !present.contains(key));
    let mut gone: Vec<(Identity, bool)> = gone
        .filter_map(|(key, _)| {
            let object = objects.get(key)?;
            let identity = Identity {
                key: key.clone(),
                uid: object.uid.clone(),
                version: object.version,
            };
            Some((identity, object.as_imported))
        })
        .collect();
    gone.sort_by(|(a, _), (b, _)| a.key.cmp(&b.key));
    let (deleted, kept): (Vec<_>, Vec<_>) = gone.into_iter().partition(|(_, untouched)| *untouched);
    let identities = |all: Vec<(Identity, bool)>| all.into_iter().map(|(one, _)| one).collect();
    Missed {
        written,
        deleted: identities(deleted),
        kept: identities(kept),
    }
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
            checksum: checksum.into(),
            as_imported: true,
        }
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
        let found = compare(&etcd, &server, 10);
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

    fn lacking(all: &[(&str, u64)]) -> BTreeMap<Key, Difference> {
        let etcd: Vec<_> = all
            .iter()
            .map(|(name, v)| (*name, side("u", *v, "x")))
            .collect();
        compare(&snapshot(&etcd), &Snapshot::new(), 1000)
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
        let missed = missed(&etcd, &imported, &objects);
        let names = |all: &[Identity]| all.iter().map(|i| i.key.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&missed.written), ["unseen update", "unseen create"]);
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
            prop_assert!(compare(&one, &one, listed).is_empty());
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
            let found = compare(&etcd, &server, 50);
            prop_assert_eq!(found.keys().collect::<Vec<_>>(), vec![&gone]);
        }
    }
}
