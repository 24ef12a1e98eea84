//! Scenarios that hold on every engine.

use std::time::Duration;

use crds::control::{
    DigestSet, GateSpec, GateState, ImportBatch, ImportMode, ImportType, checksum,
};
use futures::future::join_all;

use super::{Bed, Fixture, Seen, brief, item, key, next, report, reports, seen};
use crate::{
    cache::{CursorError, EventType, SnapshotError},
    model::ResourceDef,
    store::{StoreError, Write, WriteError, digest::DigestError},
};

/// Runs every scenario on the fixture that the expression makes.
macro_rules! on_engine {
    ($fixture:expr) => {
        $crate::store::tests::suite::on_engine!($fixture;
            writes_have_the_outcome_that_their_preconditions_say
            a_closed_gate_takes_no_writes
            concurrent_writes_are_ordered_and_each_is_answered
            one_key_written_at_once_by_many_has_one_winner
            a_watch_sees_what_comes_and_its_position_follows
            a_watch_ends_when_the_gate_closes_and_when_the_server_stops
            old_versions_are_expired_once_compacted
            the_counter_never_goes_back
            versions_wait_to_be_reached
            gate_and_definitions_survive_a_restart
            a_resource_keeps_its_shape
            a_mirror_is_idempotent_and_keeps_versions
            a_listing_does_not_undo_what_is_newer
            replayed_events_are_logged_without_undoing_the_listing
            a_mirror_is_refused_once_the_resource_was_served
            a_reset_forgets_everything
            stragglers_give_way_to_our_writes
            pruned_marks_are_forgotten
            a_digest_is_of_one_moment
            labels_are_found_by_index
        );
    };
    ($fixture:expr; $($name:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $crate::store::tests::suite::$name(&$fixture).await;
            }
        )*
    };
}
pub(super) use on_engine;

pub async fn writes_have_the_outcome_that_their_preconditions_say(fixture: &dyn Fixture) {
    let bed = Bed::serving(fixture).await;
    assert!(matches!(
        bed.update("r", "u", "a", None).await,
        Err(WriteError::NotFound(_))
    ));
    assert!(matches!(
        bed.delete("r", None).await,
        Err(WriteError::NotFound(_))
    ));
    let created = bed.create("r", "u").await.unwrap().event;
    assert!(matches!(
        bed.create("r", "v").await,
        Err(WriteError::AlreadyExists(_))
    ));
    let rv = created.rv();

    let stale = bed.update("r", "u", "b", Some(rv - 1)).await;
    assert!(matches!(stale, Err(WriteError::Conflict { rv: stored, .. }) if stored == rv));
    let other = bed.update("r", "v", "b", Some(rv)).await;
    assert!(matches!(other, Err(WriteError::Conflict { uid, .. }) if uid == "u"));
    let updated = bed.update("r", "u", "b", Some(rv)).await.unwrap().event;
    assert_eq!((updated.type_, updated.rv()), (EventType::Modified, rv + 1));
    assert_eq!(updated.previous.object().unwrap().rv, rv);

    let last = report("r", "u", "b");
    let wrong = Write::Delete {
        key: key("r"),
        expected_uid: Some("v".to_owned()),
        expected_rv: None,
        last: last.clone(),
    };
    assert!(matches!(
        bed.write(wrong).await,
        Err(WriteError::Conflict { .. })
    ));
    assert!(matches!(
        bed.delete("r", Some(rv)).await,
        Err(WriteError::Conflict { .. })
    ));
    let right = Write::Delete {
        key: key("r"),
        expected_uid: Some("u".to_owned()),
        expected_rv: Some(rv + 1),
        last,
    };
    let deleted = bed.write(right).await.unwrap().event;
    assert_eq!((deleted.type_, deleted.rv()), (EventType::Deleted, rv + 2));
    assert!(bed.reports.get(&key("r")).is_none());
    assert_eq!(
        bed.store.counter(),
        rv + 2,
        "refused writes take no version"
    );
    bed.close().await;
}

pub async fn a_closed_gate_takes_no_writes(fixture: &dyn Fixture) {
    let bed = Bed::open(fixture).await;
    for state in [GateState::Closed, GateState::Held] {
        bed.gate(state).await;
        let refused = bed.create("r", "u").await;
        assert!(matches!(refused, Err(WriteError::Gate(s)) if s == state));
    }
    let mut gate = bed.reports.gate();
    gate.mark_unchanged();
    bed.gate(GateState::Open).await;
    assert!(gate.has_changed().unwrap(), "held requests wake");
    assert_eq!(gate.borrow().holder.as_deref(), Some("operator"));
    bed.create("r", "u").await.unwrap();
    bed.close().await;
}

pub async fn concurrent_writes_are_ordered_and_each_is_answered(fixture: &dyn Fixture) {
    let bed = Bed::serving(fixture).await;
    let start = bed.store.counter();
    let names: Vec<String> = (0..200).map(|i| format!("r{i:03}")).collect();
    let written = join_all(names.iter().map(|name| async {
        let event = bed.create(name, "u").await.unwrap().event;
        assert_eq!(
            bed.reports.get(&key(name)).unwrap().rv,
            event.rv(),
            "own write is read"
        );
        event.rv()
    }))
    .await;
    let mut sorted = written.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (start + 1..=start + 200).collect::<Vec<_>>());
    let stats = bed.store.stats();
    assert_eq!((stats.batched_writes, stats.queued_writes), (200, 0));
    assert!(stats.batches < 200, "queued writes share transactions");

    let events = bed.events(start, start + 200).await;
    let versions: Vec<u64> = events.iter().map(|e| e.rv()).collect();
    assert_eq!(versions, sorted, "a watch sees them all, in order");
    assert!(events.windows(2).all(|pair| pair[0].seq < pair[1].seq));
    bed.close().await;
}

pub async fn one_key_written_at_once_by_many_has_one_winner(fixture: &dyn Fixture) {
    let bed = Bed::serving(fixture).await;
    let rv = bed.create("r", "u").await.unwrap().event.rv();
    let results = join_all((0..20).map(|_| bed.update("r", "u", "b", Some(rv)))).await;
    assert_eq!(results.iter().filter(|r| r.is_ok()).count(), 1);
    assert!(
        results
            .iter()
            .filter_map(|r| r.as_ref().err())
            .all(|e| matches!(e, WriteError::Conflict { rv: stored, .. } if *stored == rv + 1))
    );
    bed.close().await;
}

pub async fn a_watch_sees_what_comes_and_its_position_follows(fixture: &dyn Fixture) {
    let bed = Bed::serving(fixture).await;
    let other = ResourceDef {
        resource: crate::model::GroupResource::new("example.io", "others"),
        kind: "Other".into(),
        namespaced: true,
    };
    let others = bed.store.ensure_resource(other.clone()).await.unwrap();
    let open = GateSpec {
        state: GateState::Open,
        settled: None,
    };
    bed.store
        .set_gate(&other.resource, open, None)
        .await
        .unwrap();

    let mut cursor = bed.reports.events_from(bed.reports.current_rv()).unwrap();
    let waiting = tokio::spawn(async move {
        let events = next(&mut cursor, 10).await;
        (events, cursor)
    });
    bed.create("r", "u").await.unwrap();
    let (events, mut cursor) = waiting.await.unwrap();
    assert_eq!(events.len(), 1);
    assert_eq!(cursor.position(), events[0].rv());

    // Writes to another resource advance the bookmark, not the stream.
    let create = Write::Create {
        key: key("o"),
        object: report("o", "u", "a"),
    };
    let rv = bed
        .store
        .write(&other.resource, create)
        .await
        .unwrap()
        .event
        .rv();
    assert_eq!(cursor.position(), rv);
    assert_eq!((others.current_rv(), bed.reports.current_rv()), (rv, rv));
    let quiet = tokio::time::timeout(Duration::from_millis(20), cursor.next(10)).await;
    assert!(quiet.is_err());
    bed.close().await;
}

pub async fn a_watch_ends_when_the_gate_closes_and_when_the_server_stops(fixture: &dyn Fixture) {
    let bed = Bed::serving(fixture).await;
    let mut first = bed.reports.events_from(bed.reports.current_rv()).unwrap();
    bed.gate(GateState::Held).await;
    let quiet = tokio::time::timeout(Duration::from_millis(20), first.next(1)).await;
    assert!(quiet.is_err(), "a held gate ends no watch");
    bed.gate(GateState::Closed).await;
    assert!(matches!(first.next(1).await, Err(CursorError::Closed)));

    bed.gate(GateState::Open).await;
    let mut second = bed.reports.events_from(bed.reports.current_rv()).unwrap();
    let waiting = tokio::spawn(async move { second.next(1).await });
    bed.store.end_watches();
    assert!(matches!(waiting.await.unwrap(), Err(CursorError::Closed)));
    bed.close().await;
}

pub async fn old_versions_are_expired_once_compacted(fixture: &dyn Fixture) {
    let bed = Bed::serving(fixture).await;
    let start = bed.store.counter();
    bed.create("quiet", "u").await.unwrap();
    for _ in 0..20 {
        bed.update("quiet", "u", "b", None).await.unwrap();
    }
    let mut slow = bed.reports.events_from(start).unwrap();
    bed.store.compact(Duration::ZERO).await.unwrap();
    let horizon = bed.reports.horizon();
    assert_eq!(horizon, start + 21, "everything was dropped");
    let lagged = slow.next(10).await;
    assert!(matches!(lagged, Err(CursorError::Lagged { oldest, .. }) if oldest == horizon));
    assert_eq!(
        bed.reports.events_from(horizon - 1).unwrap_err().oldest,
        horizon
    );
    let expired = bed.reports.snapshot_at(start).await;
    assert!(matches!(expired, Err(SnapshotError::Expired { oldest }) if oldest == horizon));
    let future = bed.reports.snapshot_at(horizon + 1).await;
    assert!(matches!(future, Err(SnapshotError::Future { current }) if current == horizon));

    // What was not dropped can be resumed from, also after a restart.
    bed.update("quiet", "u", "c", None).await.unwrap();
    let bed = bed.reopen(fixture).await;
    assert_eq!(bed.reports.horizon(), horizon);
    let events = bed.events(horizon, horizon + 1).await;
    assert_eq!(events.len(), 1);
    assert_eq!(
        events[0].previous.object().map(|o| o.rv),
        None,
        "the state before is gone"
    );
    assert_eq!(
        events[0].previous.labels().unwrap().get("app"),
        Some("b"),
        "its labels are not"
    );
    bed.close().await;
}

pub async fn the_counter_never_goes_back(fixture: &dyn Fixture) {
    let bed = Bed::serving(fixture).await;
    assert_eq!(bed.store.raise_floor(1000).await.unwrap(), 1000);
    assert_eq!(bed.store.raise_floor(10).await.unwrap(), 1000);
    assert_eq!(bed.create("r", "u").await.unwrap().event.rv(), 1001);
    bed.delete("r", None).await.unwrap();
    bed.store.compact(Duration::ZERO).await.unwrap();
    let bed = bed.reopen(fixture).await;
    assert_eq!(
        (bed.store.counter(), bed.reports.current_rv()),
        (1002, 1002)
    );
    assert_eq!(bed.create("r", "u2").await.unwrap().event.rv(), 1003);
    bed.close().await;
}

pub async fn versions_wait_to_be_reached(fixture: &dyn Fixture) {
    let bed = Bed::serving(fixture).await;
    let rv = bed.store.counter();
    bed.store.consistent().await.unwrap();
    bed.store.wait_for_rv(&bed.reports, rv).await.unwrap();
    let (waited, created) = tokio::join!(
        bed.store.wait_for_rv(&bed.reports, rv + 1),
        bed.create("r", "u")
    );
    created.unwrap();
    waited.unwrap();
    bed.close().await;
}

pub async fn gate_and_definitions_survive_a_restart(fixture: &dyn Fixture) {
    let bed = Bed::open(fixture).await;
    let gate = GateSpec {
        state: GateState::Held,
        settled: Some(true),
    };
    bed.store
        .set_gate(&reports(), gate, Some("holder"))
        .await
        .unwrap();
    bed.store
        .save_definition("b", "1".to_owned())
        .await
        .unwrap();
    bed.store
        .save_definition("a", "2".to_owned())
        .await
        .unwrap();
    bed.store
        .save_definition("b", "3".to_owned())
        .await
        .unwrap();
    let before = bed.reports.record();
    let bed = bed.reopen(fixture).await;
    assert_eq!(bed.reports.record(), before);
    assert_eq!(
        bed.reports.gate().borrow().holder.as_deref(),
        Some("holder")
    );
    assert!(bed.reports.gate().borrow().settled);
    let definitions = bed.store.load_definitions().await.unwrap();
    assert_eq!(
        definitions,
        [("a".into(), "2".into()), ("b".into(), "3".into())]
    );
    bed.gate(GateState::Open).await;
    assert!(
        bed.reports.gate().borrow().settled,
        "an absent value keeps the stored one"
    );
    bed.close().await;
}

pub async fn a_resource_keeps_its_shape(fixture: &dyn Fixture) {
    let bed = Bed::open(fixture).await;
    let mut def = bed.reports.def().clone();
    def.namespaced = false;
    let refused = bed.store.ensure_resource(def).await.unwrap_err();
    assert!(matches!(refused, StoreError::Mismatch { .. }), "{refused}");
    let unknown = crate::model::GroupResource::new("example.io", "none");
    let error = bed
        .store
        .import(&unknown, ImportBatch::default())
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::UnknownResource(_)), "{error}");
    bed.close().await;
}

pub async fn a_mirror_is_idempotent_and_keeps_versions(fixture: &dyn Fixture) {
    use ImportType::{Added, Deleted, Modified, Object};
    let bed = Bed::open(fixture).await;
    let batch = |items| ImportBatch {
        items,
        progress: Some("130".to_owned()),
        horizon: Some("105".to_owned()),
        ..ImportBatch::default()
    };
    let items = || {
        vec![
            item(Object, "listed", "u1", "a", 90),
            item(Added, "new", "u2", "a", 110),
            item(Modified, "listed", "u1", "b", 115),
            item(Deleted, "new", "u2", "a", 120),
        ]
    };
    let result = bed.store.import(&reports(), batch(items())).await.unwrap();
    assert_eq!((result.imported, result.unchanged), (4, 0));
    assert_eq!(result.mirrored_resource_version, "130");
    let bed = bed.reopen(fixture).await;
    let result = bed.store.import(&reports(), batch(items())).await.unwrap();
    assert_eq!((result.imported, result.unchanged), (0, 4));

    let record = bed.reports.record();
    assert_eq!(
        (record.imported, record.mirrored, record.horizon),
        (1, 130, Some(105))
    );
    assert_eq!(bed.reports.current_rv(), 130);
    let stored = bed.reports.get(&key("listed")).unwrap();
    assert_eq!((stored.rv, stored.as_imported), (115, true));

    // The switch: the counter goes on above etcd, watches resume from etcd's versions.
    assert_eq!(bed.store.raise_floor(500).await.unwrap(), 500);
    bed.gate(GateState::Open).await;
    assert_eq!(bed.reports.current_rv(), 500);
    assert_eq!(
        bed.update("listed", "u1", "c", Some(115))
            .await
            .unwrap()
            .event
            .rv(),
        501
    );
    assert!(!bed.reports.get(&key("listed")).unwrap().as_imported);
    let events: Vec<Seen> = bed.events(105, 501).await.iter().map(|e| seen(e)).collect();
    let text = |s: &str| s.to_owned();
    assert_eq!(
        events,
        [
            (EventType::Added, 110, text("new"), text("u2"), text("a")),
            (
                EventType::Modified,
                115,
                text("listed"),
                text("u1"),
                text("b")
            ),
            (EventType::Deleted, 120, text("new"), text("u2"), text("a")),
            (
                EventType::Modified,
                501,
                text("listed"),
                text("u1"),
                text("c")
            ),
        ]
    );
    assert_eq!(bed.reports.events_from(104).unwrap_err().oldest, 105);
    bed.close().await;
}

pub async fn a_listing_does_not_undo_what_is_newer(fixture: &dyn Fixture) {
    use ImportType::{Added, Deleted, Object};
    let bed = Bed::open(fixture).await;
    let events = vec![
        item(Added, "kept", "u1", "new", 20),
        item(Deleted, "gone", "u2", "x", 30),
    ];
    bed.import(ImportMode::Mirror, events).await.unwrap();
    let bed = bed.reopen(fixture).await;
    let listed = vec![
        item(Object, "kept", "u1", "old", 10),
        item(Object, "gone", "u2", "x", 5),
    ];
    let result = bed.import(ImportMode::Mirror, listed).await.unwrap();
    assert_eq!((result.imported, result.unchanged), (0, 2));
    assert!(bed.reports.get(&key("gone")).is_none());
    assert_eq!(brief(&bed.reports.get(&key("kept")).unwrap()).2, "new");
    bed.close().await;
}

pub async fn replayed_events_are_logged_without_undoing_the_listing(fixture: &dyn Fixture) {
    use ImportType::{Added, Deleted, Modified, Object};
    let bed = Bed::open(fixture).await;
    let listing = ImportBatch {
        items: vec![
            item(Object, "r", "u", "c", 30),
            item(Object, "again", "u3", "a", 36),
        ],
        horizon: Some("9".to_owned()),
        progress: Some("40".to_owned()),
        ..ImportBatch::default()
    };
    bed.store.import(&reports(), listing).await.unwrap();
    let replay = vec![
        item(Added, "r", "u", "a", 10),
        item(Modified, "r", "u", "b", 20),
        item(Modified, "r", "u", "c", 30),
        item(Deleted, "again", "u2", "a", 35),
        item(Added, "again", "u3", "a", 36),
        item(Modified, "r", "u", "d", 41),
    ];
    let result = bed
        .import(ImportMode::Mirror, replay.clone())
        .await
        .unwrap();
    assert_eq!((result.imported, result.unchanged), (6, 0));
    assert_eq!(
        bed.import(ImportMode::Mirror, replay)
            .await
            .unwrap()
            .unchanged,
        6
    );

    let events = bed.events(9, 41).await;
    let versions: Vec<u64> = events.iter().map(|e| e.rv()).collect();
    assert_eq!(versions, [10, 20, 30, 35, 36, 41]);
    let before = |i: usize| events[i].previous.object().map(|o| o.rv);
    assert_eq!(
        (before(1), before(2), before(5)),
        (Some(10), Some(20), Some(30))
    );
    assert_eq!(brief(&bed.reports.get(&key("r")).unwrap()).2, "d");
    assert_eq!(&*bed.reports.get(&key("again")).unwrap().uid, "u3");

    // The same from the database.
    let bed = bed.reopen(fixture).await;
    let events = bed.events(9, 41).await;
    let before = |i: usize| events[i].previous.object().map(|o| o.rv);
    assert_eq!(
        (before(1), before(2), before(5)),
        (Some(10), Some(20), Some(30))
    );
    let past = bed.reports.snapshot_at(36).await.unwrap();
    assert_eq!(brief(past.get(&key("r")).unwrap()).2, "c");
    let lost = bed.reports.snapshot_at(34).await;
    assert!(
        matches!(lost, Err(SnapshotError::Expired { oldest: 35 })),
        "u2 was never seen whole"
    );
    bed.close().await;
}

pub async fn a_mirror_is_refused_once_the_resource_was_served(fixture: &dyn Fixture) {
    let bed = Bed::open(fixture).await;
    let items = || vec![item(ImportType::Added, "r", "u", "a", 10)];
    let early = bed.import(ImportMode::Straggler, items()).await;
    assert!(matches!(early, Err(StoreError::Refused(_))));
    bed.import(ImportMode::Mirror, items()).await.unwrap();
    for state in [GateState::Open, GateState::Held, GateState::Closed] {
        bed.gate(state).await;
        let refused = bed.import(ImportMode::Mirror, items()).await;
        assert!(matches!(refused, Err(StoreError::Refused(_))), "{state:?}");
    }
    bed.gate(GateState::Held).await;
    let refused = bed.import(ImportMode::Reset, items()).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))));
    bed.close().await;
}

pub async fn a_reset_forgets_everything(fixture: &dyn Fixture) {
    let bed = Bed::open(fixture).await;
    let objects =
        |rv| (0..150).map(move |i| item(ImportType::Object, &format!("r{i}"), "u", "a", rv));
    bed.import(ImportMode::Mirror, objects(10).collect())
        .await
        .unwrap();
    bed.import(
        ImportMode::Mirror,
        vec![item(ImportType::Modified, "r1", "u", "b", 20)],
    )
    .await
    .unwrap();
    bed.store.raise_floor(100).await.unwrap();
    bed.gate(GateState::Open).await;
    bed.create("ours", "u").await.unwrap();
    bed.gate(GateState::Closed).await;
    let mut cursor = bed.reports.events_from(20).unwrap();
    let created = bed.reports.record().created;

    let reset = bed
        .import(
            ImportMode::Reset,
            vec![item(ImportType::Added, "fresh", "u", "a", 15)],
        )
        .await
        .unwrap();
    assert_eq!(reset.imported, 1);
    assert!(matches!(cursor.next(1).await, Err(CursorError::Closed)));
    let check = |bed: &Bed| {
        let record = bed.reports.record();
        assert_eq!(
            (record.imported, record.mirrored, record.opened),
            (1, 15, None)
        );
        assert_eq!(record.created, created);
        assert_eq!(bed.reports.snapshot().len(), 1);
        assert_eq!(bed.reports.current_rv(), 15);
    };
    check(&bed);
    bed.store.compact(Duration::from_mins(10)).await.unwrap();
    let bed = bed.reopen(fixture).await;
    check(&bed);
    assert_eq!(bed.store.counter(), 101, "the counter outlives a reset");
    bed.close().await;
}

pub async fn stragglers_give_way_to_our_writes(fixture: &dyn Fixture) {
    use ImportType::{Added, Deleted, Modified, Object};
    let bed = Bed::open(fixture).await;
    let names = ["same", "changed", "ours", "deleted", "gone", "renewed"];
    let listed = names
        .iter()
        .map(|name| item(Object, name, "u", "a", 10))
        .collect();
    bed.import(ImportMode::Mirror, listed).await.unwrap();
    bed.store.raise_floor(100).await.unwrap();
    bed.gate(GateState::Open).await;
    bed.update("ours", "u", "ours", None).await.unwrap();
    bed.delete("deleted", None).await.unwrap();
    bed.create("made", "u-ours").await.unwrap();
    bed.delete("made", None).await.unwrap();
    let before = bed.store.counter();

    let stragglers = || {
        vec![
            item(Object, "same", "u", "a", 10),
            item(Modified, "changed", "u", "etcd", 20),
            item(Modified, "ours", "u", "etcd", 21),
            item(Modified, "deleted", "u", "etcd", 22),
            item(Deleted, "gone", "u", "a", 23),
            item(Added, "renewed", "u2", "etcd", 24),
            item(Added, "unseen", "u3", "etcd", 25),
            item(Added, "made", "u4", "etcd", 26),
        ]
    };
    let result = bed
        .import(ImportMode::Straggler, stragglers())
        .await
        .unwrap();
    assert_eq!((result.imported, result.unchanged), (4, 1));
    let kept_out: Vec<&str> = result.conflicts.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(kept_out, ["ours", "deleted", "made"]);
    let app = |name: &str| bed.reports.get(&key(name)).map(|o| brief(&o).2);
    assert_eq!(app("changed").as_deref(), Some("etcd"));
    assert_eq!(app("ours").as_deref(), Some("ours"));
    assert_eq!(
        (app("deleted"), app("gone"), app("made")),
        (None, None, None)
    );
    assert_eq!(&*bed.reports.get(&key("renewed")).unwrap().uid, "u2");
    assert_eq!(&*bed.reports.get(&key("unseen")).unwrap().uid, "u3");
    assert_eq!(
        bed.store.counter(),
        before + 4,
        "they have versions of our own"
    );
    let events = bed.events(before, before + 4).await;
    assert!(events.iter().all(|e| e.object.as_imported));

    // Sent again, they are known, or still in conflict.
    let again = bed
        .import(ImportMode::Straggler, stragglers())
        .await
        .unwrap();
    assert_eq!(
        (again.imported, again.unchanged, again.conflicts.len()),
        (0, 5, 3)
    );
    let marks = bed
        .store
        .digest(&reports(), DigestSet::Imported, 0, None)
        .await
        .unwrap();
    let mark = |name: &str| {
        let mark = marks.items.iter().find(|i| i.name == name);
        mark.map(|m| (m.uid.as_str(), m.resource_version.as_str()))
    };
    assert_eq!(mark("changed"), Some(("u", "20")));
    assert_eq!(
        mark("ours"),
        Some(("u", "10")),
        "what was kept out is not ours to prune"
    );
    assert_eq!((mark("gone"), mark("renewed")), (None, Some(("u2", "24"))));
    assert_eq!(bed.reports.record().imported, marks.items.len() as u64);
    bed.close().await;
}

pub async fn pruned_marks_are_forgotten(fixture: &dyn Fixture) {
    let bed = Bed::open(fixture).await;
    let items = |uid: &str| vec![item(ImportType::Object, "r", uid, "a", 10)];
    bed.import(ImportMode::Mirror, items("u")).await.unwrap();
    bed.gate(GateState::Open).await;
    let other = bed
        .import(ImportMode::Pruned, items("other"))
        .await
        .unwrap();
    assert_eq!((other.imported, other.unchanged), (0, 1));
    let pruned = bed.import(ImportMode::Pruned, items("u")).await.unwrap();
    assert_eq!((pruned.imported, pruned.unchanged), (1, 0));
    let bed = bed.reopen(fixture).await;
    assert_eq!(bed.reports.record().imported, 0);
    assert_eq!(bed.reports.snapshot().len(), 1, "our object stays");
    bed.close().await;
}

pub async fn a_digest_is_of_one_moment(fixture: &dyn Fixture) {
    let bed = Bed::serving(fixture).await;
    for (namespace, name) in [("a", "y"), ("a-b", "x"), ("a", "x"), ("b", "x")] {
        let mut object = report(name, "u", "a");
        object["metadata"]["namespace"] = namespace.into();
        let key = crate::model::ObjectKey::new(namespace, name);
        bed.write(Write::Create { key, object }).await.unwrap();
    }
    let objects = DigestSet::Objects;
    let first = bed
        .store
        .digest(&reports(), objects, 3, None)
        .await
        .unwrap();
    bed.create("later", "u").await.unwrap();
    let token = first.metadata.continue_.clone().unwrap();
    let second = bed
        .store
        .digest(&reports(), objects, 3, Some(&token))
        .await
        .unwrap();
    assert_eq!(
        second.metadata.resource_version,
        first.metadata.resource_version
    );
    assert_eq!(second.metadata.continue_, None);
    let items: Vec<_> = first.items.iter().chain(&second.items).collect();
    let order: Vec<_> = items
        .iter()
        .map(|i| (i.namespace.as_str(), i.name.as_str()))
        .collect();
    assert_eq!(order, [("a", "x"), ("a", "y"), ("a-b", "x"), ("b", "x")]);
    let stored = bed
        .reports
        .get(&crate::model::ObjectKey::new("a", "x"))
        .unwrap();
    assert_eq!(items[0].checksum, checksum(&stored.value().unwrap()));
    assert!(items.iter().all(|i| !i.as_imported));

    let bad = bed.store.digest(&reports(), objects, 3, Some("%%")).await;
    assert!(matches!(bad, Err(DigestError::Token)));
    bed.close().await;
}

pub async fn labels_are_found_by_index(fixture: &dyn Fixture) {
    let bed = Bed::serving(fixture).await;
    for name in ["r1", "r2", "r3"] {
        bed.create(name, "u").await.unwrap();
    }
    let rv = bed.update("r2", "u", "b", None).await.unwrap().event.rv();
    bed.delete("r3", None).await.unwrap();
    let bed = bed.reopen(fixture).await;
    let names = |snapshot: &crate::cache::Snapshot, app: &str, namespace: Option<&str>| {
        let found = snapshot.by_label("app", app, namespace).unwrap();
        found
            .iter()
            .map(|o| o.key.name().to_owned())
            .collect::<Vec<_>>()
    };
    let now = bed.reports.snapshot();
    assert_eq!(names(&now, "a", Some("ns")), ["r1"]);
    assert_eq!(names(&now, "b", None), ["r2"]);
    assert!(names(&now, "a", Some("n")).is_empty());
    assert!(
        now.by_label("other", "a", None).is_none(),
        "not every label is indexed"
    );
    let past = bed.reports.snapshot_at(rv - 1).await.unwrap();
    assert_eq!(names(&past, "a", Some("ns")), ["r1", "r2", "r3"]);
    bed.close().await;
}
