//! Imports.

use std::time::Duration;

use crds::control::{DigestSet, GateState, ImportBatch, ImportItem, ImportMode, ImportType};
use serde_json::json;

use super::super::{Bed, Fixture, Seen, brief, item, key, reports, seen};
use crate::cache::{CursorError, EventType, SnapshotError};
use crate::store::StoreError;

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
    let deleted = events[3].previous.labels().unwrap();
    assert_eq!(deleted.get("app"), Some("a"), "a deletion says what was");
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
    assert_eq!(
        bed.reports.record().mirrored,
        0,
        "a mirror has no place to go on from"
    );
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
    assert!(matches!(
        cursor.next(1).await,
        Err(CursorError::Closed { .. })
    ));
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
    bed.compact(Duration::from_mins(10)).await;
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
    // A copy that was about to be made has no uid.
    let announced = || {
        let object = json!({"metadata": {"name": "s", "namespace": key("s").namespace()}});
        let type_ = ImportType::Object;
        vec![ImportItem { type_, object }]
    };
    let told = bed.import(ImportMode::WrittenBack, announced()).await;
    told.unwrap();
    assert_eq!(bed.reports.record().imported, 1);
    let pruned = bed.import(ImportMode::Pruned, announced()).await.unwrap();
    assert_eq!((pruned.imported, pruned.unchanged), (1, 0));
    assert_eq!(bed.reports.record().imported, 0);
    bed.close().await;
}
