//! Differences between etcd and the server, the judgement of rounds, and the search for what was
//! missed.

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
        identity("announced", "z", 11),
        identity("changed on both sides, with one number", "j", 12),
        identity("imported, mark forgotten", "k", 13),
    ];
    let imported = snapshot(&[
        ("seen", side("a", 1, "")),
        ("changed by us", side("b", 2, "")),
        ("deleted by us", side("c", 3, "")),
        ("unseen update", side("d", 4, "")),
        ("unseen delete", side("f", 5, "")),
        ("deleted on both sides", side("h", 6, "")),
        ("deleted there, changed by us", side("i", 7, "")),
        ("changed on both sides, with one number", side("j", 8, "")),
        ("announced", side("", 0, "")),
        ("announced and not made", side("", 0, "")),
    ]);
    let mut ours = side("b", 50, "");
    ours.as_imported = false;
    let mut changed = side("i", 52, "");
    changed.as_imported = false;
    let mut created = side("g", 51, "");
    created.as_imported = false;
    let mut same_number = side("j", 12, "");
    same_number.as_imported = false;
    let objects = snapshot(&[
        ("changed on both sides, with one number", same_number),
        ("imported, mark forgotten", side("k", 13, "")),
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
    assert_eq!(
        names(&missed.written),
        [
            "announced",
            "changed on both sides, with one number",
            "unseen create",
            "unseen update"
        ]
    );
    assert_eq!(missed.announced, HashSet::from([key("announced")]));
    let rewritten = ["changed on both sides, with one number", "unseen update"];
    assert_eq!(missed.rewritten, HashSet::from(rewritten.map(key)));
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
