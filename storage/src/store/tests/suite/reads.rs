//! Watches, states of the past, digests and the index.

use std::time::Duration;

use crds::control::{DigestSet, GateSpec, GateState, checksum};

use super::super::{Bed, Fixture, key, next, report, reports};
use crate::cache::{CursorError, Snapshot, SnapshotError};
use crate::model::{GroupResource, ObjectKey, ResourceDef};
use crate::store::Write;
use crate::store::digest::DigestError;
use crate::store::maintenance::History;

pub async fn a_watch_sees_what_comes_and_its_position_follows(fixture: &dyn Fixture) {
    let bed = Bed::serving(fixture).await;
    let other = ResourceDef {
        resource: GroupResource::new("example.io", "others"),
        kind: "Other".into(),
        namespaced: true,
    };
    let others = bed.store.ensure_resource(other.clone()).await.unwrap();
    let open = GateSpec {
        state: GateState::Open,
        settled: None,
        ..GateSpec::default()
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
        .write(&other.resource, &create)
        .await
        .unwrap()
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
    assert!(matches!(
        first.next(1).await,
        Err(CursorError::Closed { .. })
    ));

    bed.gate(GateState::Open).await;
    let mut second = bed.reports.events_from(bed.reports.current_rv()).unwrap();
    let waiting = tokio::spawn(async move { second.next(1).await });
    bed.store.end_watches();
    assert!(matches!(
        waiting.await.unwrap(),
        Err(CursorError::Closed { .. })
    ));
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
    bed.compact(Duration::ZERO).await;
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

pub async fn a_digest_is_of_one_moment(fixture: &dyn Fixture) {
    let bed = Bed::serving(fixture).await;
    for (namespace, name) in [("a", "y"), ("a-b", "x"), ("a", "x"), ("b", "x")] {
        let mut object = report(name, "u", "a");
        object["metadata"]["namespace"] = namespace.into();
        let key = ObjectKey::new(namespace, name);
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
    let stored = bed.reports.get(&ObjectKey::new("a", "x")).unwrap();
    let expected = hex::encode(checksum(&stored.value().unwrap()));
    assert_eq!(items[0].checksum, expected);
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
    let rv = bed.update("r2", "u", "b", None).await.unwrap().rv();
    bed.delete("r3", None).await.unwrap();
    let bed = bed.reopen(fixture).await;
    let names = |snapshot: &Snapshot, app: &str, namespace: Option<&str>| {
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

pub async fn a_list_continues_anywhere_in_key_order(fixture: &dyn Fixture) {
    let bed = Bed::serving(fixture).await;
    for (namespace, name) in [
        ("a", "b"),
        ("a", "y"),
        ("a-b", "x"),
        ("a0", "x"),
        ("", "cluster"),
    ] {
        let mut object = report(name, "u", "a");
        object["metadata"]["namespace"] = namespace.into();
        let key = ObjectKey::new(namespace, name);
        bed.write(Write::Create { key, object }).await.unwrap();
    }
    let all = bed.reports.snapshot();
    let list = |namespace: Option<&str>, after: Option<(&str, &str)>| {
        let after = after.map(|(namespace, name)| ObjectKey::new(namespace, name));
        let objects = all.range(namespace, after.as_ref());
        objects.map(|o| o.key.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(list(None, None), ["a-b/x", "a/b", "a/y", "a0/x", "cluster"]);
    assert_eq!(list(None, Some(("a", "b"))), ["a/y", "a0/x", "cluster"]);
    assert_eq!(list(Some("a"), None), ["a/b", "a/y"]);
    assert_eq!(
        list(Some("a"), Some(("a", "c"))),
        ["a/y"],
        "the object at the token is gone"
    );
    assert!(list(Some("a"), Some(("a", "y"))).is_empty());
    assert_eq!(
        list(Some("a"), Some(("a-b", "x"))),
        ["a/b", "a/y"],
        "a token before the namespace"
    );
    assert!(
        list(Some("a"), Some(("b", "x"))).is_empty(),
        "a token behind the namespace"
    );
    assert!(list(Some("none"), None).is_empty());
    bed.close().await;
}

pub async fn a_log_that_is_too_large_is_cut_before_its_time(fixture: &dyn Fixture) {
    let bed = Bed::serving(fixture).await;
    let start = bed.store.counter();
    for i in 0..10 {
        bed.create(&format!("r{i}"), "u").await.unwrap();
    }
    let body = fixture.logged(&report("r0", "u", "a").to_string()) as u64;
    let age = Duration::from_mins(10);
    bed.store
        .compact(History {
            age,
            bytes: 10 * body,
        })
        .await
        .unwrap();
    assert_eq!(bed.reports.horizon(), start, "all of it fits");
    bed.store
        .compact(History {
            age,
            bytes: 4 * body,
        })
        .await
        .unwrap();
    assert_eq!(bed.reports.horizon(), start + 6);
    let bed = bed.reopen(fixture).await;
    bed.store
        .compact(History {
            age,
            bytes: 4 * body,
        })
        .await
        .unwrap();
    assert_eq!(
        bed.reports.horizon(),
        start + 6,
        "what was dropped does not count"
    );
    bed.close().await;
}
