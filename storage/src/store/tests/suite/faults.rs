//! The store on a database that fails.

use crds::control::{GateSpec, GateState, ImportMode, ImportType};

use super::super::faults::{Fault, FaultyFixture, Trigger};
use super::super::{Bed, Fixture, Seen, item, key, next, reports, seen};
use crate::cache::{CursorError, EventType, Previous};
use crate::store::{StoreError, WriteError};

fn unavailable<T>(result: &Result<T, WriteError>) -> bool {
    matches!(
        result,
        Err(WriteError::Store(StoreError::Unavailable { .. }))
    )
}

/// Has the store do something harmless, before which it finds out the outcome of the last
/// transaction.
async fn settle(bed: &Bed) {
    bed.store.raise_floor(0).await.unwrap();
}

pub async fn a_write_that_failed_is_not_visible(fixture: &dyn Fixture) {
    let trigger = Trigger::default();
    let fixture = FaultyFixture {
        inner: fixture,
        trigger: trigger.clone(),
    };
    let bed = Bed::serving(&fixture).await;
    let rv = bed.create("r", "u").await.unwrap().rv();
    trigger.arm(Fault::Before);
    assert!(unavailable(&bed.update("r", "u", "b", Some(rv)).await));
    assert!(!bed.store.stats().database_up);
    assert_eq!(
        bed.update("r", "u", "c", Some(rv)).await.unwrap().rv(),
        rv + 1
    );
    assert!(bed.store.stats().database_up);
    assert_eq!(bed.events(rv, rv + 1).await.len(), 1);
    bed.close().await;
}

pub async fn a_write_that_was_made_after_all_is_seen_by_all(fixture: &dyn Fixture) {
    let trigger = Trigger::default();
    let fixture = FaultyFixture {
        inner: fixture,
        trigger: trigger.clone(),
    };
    let bed = Bed::serving(&fixture).await;
    let rv = bed.create("r", "u").await.unwrap().rv();
    let mut cursor = bed.reports.events_from(rv).unwrap();
    trigger.arm(Fault::After);
    assert!(
        unavailable(&bed.update("r", "u", "b", Some(rv)).await),
        "it is not known"
    );
    trigger.arm(Fault::After);
    assert!(unavailable(&bed.create("s", "v").await));

    let repeated = bed.update("r", "u", "b", Some(rv)).await;
    assert!(matches!(repeated, Err(WriteError::Conflict { rv: is, .. }) if is == rv + 1));
    assert!(matches!(
        bed.create("s", "v").await,
        Err(WriteError::AlreadyExists(_))
    ));
    let mut events = next(&mut cursor, 10).await;
    while events.len() < 2 {
        events.extend(next(&mut cursor, 10).await);
    }
    let text = |s: &str| s.to_owned();
    let got: Vec<Seen> = events.iter().map(|e| seen(e)).collect();
    assert_eq!(
        got,
        [
            (EventType::Modified, rv + 1, text("r"), text("u"), text("b")),
            (EventType::Added, rv + 2, text("s"), text("v"), text("a")),
        ]
    );
    assert!(matches!(&events[0].previous, Previous::Known(before) if before.rv == rv));
    assert_eq!(bed.reports.current_rv(), rv + 2);
    bed.close().await;
}

pub async fn orders_that_were_carried_out_after_all_are_in_force(fixture: &dyn Fixture) {
    use ImportType::{Added, Modified, Object};
    let trigger = Trigger::default();
    let fixture = FaultyFixture {
        inner: fixture,
        trigger: trigger.clone(),
    };
    let bed = Bed::open(&fixture).await;

    let items = || {
        vec![
            item(Object, "r", "u", "a", 10),
            item(Object, "s", "v", "a", 11),
            item(Modified, "r", "u", "b", 12),
        ]
    };
    trigger.arm(Fault::After);
    bed.import(ImportMode::Mirror, items()).await.unwrap_err();
    settle(&bed).await;
    assert_eq!(bed.reports.snapshot().len(), 2);
    assert_eq!(bed.reports.record().imported, 2);
    assert_eq!(
        bed.import(ImportMode::Mirror, items())
            .await
            .unwrap()
            .unchanged,
        3
    );

    trigger.arm(Fault::After);
    bed.import(ImportMode::Reset, vec![]).await.unwrap_err();
    settle(&bed).await;
    bed.import(ImportMode::Mirror, vec![item(Added, "t", "w", "a", 20)])
        .await
        .unwrap();
    let names: Vec<_> = bed
        .reports
        .snapshot()
        .range(None, None)
        .map(|o| o.key.to_string())
        .collect();
    assert_eq!(names, ["ns/t"]);

    let gate = GateSpec {
        state: GateState::Open,
        settled: Some(true),
        ..GateSpec::default()
    };
    trigger.arm(Fault::After);
    bed.store
        .set_gate(&reports(), gate, None)
        .await
        .unwrap_err();
    let rv = bed.update("t", "w", "b", Some(20)).await.unwrap().rv();
    assert_eq!(bed.reports.gate().borrow().state, GateState::Open);

    trigger.arm(Fault::After);
    bed.store.raise_floor(rv + 100).await.unwrap_err();
    assert_eq!(bed.create("z", "z").await.unwrap().rv(), rv + 101);

    trigger.arm(Fault::After);
    let mut def = bed.reports.def().clone();
    def.resource.resource = "others".into();
    bed.store.ensure_resource(def.clone()).await.unwrap_err();
    bed.store.ensure_resource(def).await.unwrap();
    bed.close().await;
}

pub async fn reads_go_on_while_the_database_is_down(fixture: &dyn Fixture) {
    let trigger = Trigger::default();
    let fixture = FaultyFixture {
        inner: fixture,
        trigger: trigger.clone(),
    };
    let bed = Bed::serving(&fixture).await;
    let start = bed.store.counter();
    for i in 0..10 {
        bed.create(&format!("r{i}"), "u").await.unwrap();
    }
    let mut behind = bed.reports.events_from(start).unwrap();
    trigger.arm(Fault::Down);
    for _ in 0..3 {
        assert!(unavailable(&bed.create("new", "u").await));
    }
    assert_eq!(bed.reports.snapshot().len(), 10);
    assert!(bed.reports.get(&key("r3")).is_some());
    bed.store.consistent().await.unwrap();
    // What has left the ring is not lost: the watch asks again.
    assert!(matches!(behind.next(3).await, Err(CursorError::Log(_))));
    trigger.arm(Fault::None);
    let mut events = Vec::new();
    while events.len() < 10 {
        events.extend(next(&mut behind, 3).await.iter().map(|e| e.rv()));
    }
    assert_eq!(events, (start + 1..=start + 10).collect::<Vec<_>>());
    bed.create("new", "u").await.unwrap();
    bed.close().await;
}
