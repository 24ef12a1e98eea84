//! Writes, gates and versions.

use std::time::Duration;

use crds::control::{GateSpec, GateState, ImportBatch, ImportMode, ImportType};
use futures::future::join_all;

use super::super::{Bed, Fixture, item, key, report, reports};
use crate::cache::EventType;
use crate::model::{GroupResource, ResourceRecord};
use crate::store::{StoreError, Write, WriteError};

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
    let created = bed.create("r", "u").await.unwrap();
    assert!(matches!(
        bed.create("r", "v").await,
        Err(WriteError::AlreadyExists(_))
    ));
    let rv = created.rv();

    let stale = bed.update("r", "u", "b", Some(rv - 1)).await;
    assert!(matches!(stale, Err(WriteError::Conflict { rv: stored, .. }) if stored == rv));
    let other = bed.update("r", "v", "b", Some(rv)).await;
    assert!(matches!(other, Err(WriteError::Conflict { uid, .. }) if uid == "u"));
    let updated = bed.update("r", "u", "b", Some(rv)).await.unwrap();
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
    let deleted = bed.write(right).await.unwrap();
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
        let event = bed.create(name, "u").await.unwrap();
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
    let rv = bed.create("r", "u").await.unwrap().rv();
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

pub async fn the_counter_never_goes_back(fixture: &dyn Fixture) {
    let bed = Bed::serving(fixture).await;
    assert_eq!(bed.store.raise_floor(1000).await.unwrap(), 1000);
    assert_eq!(bed.store.raise_floor(10).await.unwrap(), 1000);
    assert_eq!(bed.create("r", "u").await.unwrap().rv(), 1001);
    bed.delete("r", None).await.unwrap();
    bed.compact(Duration::ZERO).await;
    let bed = bed.reopen(fixture).await;
    assert_eq!(
        (bed.store.counter(), bed.reports.current_rv()),
        (1002, 1002)
    );
    assert_eq!(bed.create("r", "u2").await.unwrap().rv(), 1003);
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
        ..GateSpec::default()
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
    // Its number is nobody's business.
    let after = ResourceRecord {
        id: before.id,
        ..bed.reports.record()
    };
    assert_eq!(after, before);
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
    let unknown = GroupResource::new("example.io", "none");
    let error = bed
        .store
        .import(&unknown, ImportBatch::default())
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::UnknownResource(_)), "{error}");
    bed.close().await;
}

/// A text that a database may not be able to hold is refused by itself; the writes that would have
/// been in one transaction with it are made.
pub async fn a_write_that_cannot_be_stored_refuses_no_other(fixture: &dyn Fixture) {
    let bed = Bed::serving(fixture).await;
    let start = bed.reports.current_rv();
    let long = "x".repeat(5000);
    let name = bed.create("a\0b", "u");
    let uid = bed.create("c", "u\0");
    let too_long = bed.create(&long, "u");
    let precondition = bed.write(Write::Delete {
        key: key("d"),
        expected_uid: Some("\0".to_owned()),
        expected_rv: None,
        last: report("d", "u", "a"),
    });
    let good = join_all((0..10).map(|i| {
        let name = format!("good-{i}");
        let bed = &bed;
        async move { bed.create(&name, "u").await }
    }));
    let (name, uid, too_long, precondition, good) =
        tokio::join!(name, uid, too_long, precondition, good);
    for (refused, at) in [
        (name, "metadata.name"),
        (uid, "metadata.uid"),
        (too_long, "metadata.name"),
        (precondition, "preconditions.uid"),
    ] {
        match refused {
            Err(WriteError::Store(StoreError::Invalid { field, .. })) => assert_eq!(field, at),
            other => panic!("{other:?}"),
        }
    }
    assert!(good.iter().all(Result::is_ok), "{good:?}");
    assert_eq!(bed.store.counter(), start + 10);

    let item = item(ImportType::Added, "i", "u\0", "a", start + 100);
    let refused = bed.import(ImportMode::Mirror, vec![item]).await;
    assert!(
        matches!(&refused, Err(StoreError::Invalid { field, .. })
            if field == "items[0].object.metadata.uid"),
        "{refused:?}"
    );
    bed.close().await;
}
