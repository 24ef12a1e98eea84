//! Gates on the way back: fencing tokens, the release, and the messages to watchers.

use std::time::Duration;

use crds::control::{DigestSet, GateSpec, GateState, ImportItem, ImportMode, ImportType};
use serde_json::json;

use crate::cache::CursorError;
use crate::model::{GroupResource, ResourceDef};
use crate::store::tests::{Bed, Fixture, key, report, reports};
use crate::store::{StoreError, Write};

const SHORT: Duration = Duration::from_millis(20);

fn gate(state: GateState, fence: Option<u64>) -> GateSpec {
    GateSpec {
        state,
        fence,
        ..GateSpec::default()
    }
}

async fn set(bed: &Bed, gate: GateSpec) -> Result<(), StoreError> {
    bed.store
        .set_gate(&reports(), gate, Some("operator"))
        .await
        .map(drop)
}

/// Returns a resource beside the usual one, open.
async fn other(bed: &Bed) -> GroupResource {
    let def = ResourceDef {
        resource: GroupResource::new("example.io", "others"),
        kind: "Other".into(),
        namespaced: true,
    };
    bed.store.ensure_resource(def.clone()).await.unwrap();
    let open = gate(GateState::Open, None);
    bed.store.set_gate(&def.resource, open, None).await.unwrap();
    def.resource
}

async fn create_in(bed: &Bed, resource: &GroupResource, name: &str) -> u64 {
    let write = Write::Create {
        key: key(name),
        object: report(name, name, "a"),
    };
    let written = bed.store.write(resource, &write).await.unwrap();
    written.rv()
}

pub async fn only_the_newest_fencing_token_moves_a_gate(fixture: &dyn Fixture) {
    let bed = Bed::serving(fixture).await;
    let old = bed.store.take_fence(&reports()).await.unwrap();
    set(&bed, gate(GateState::Held, Some(old))).await.unwrap();
    let new = bed.store.take_fence(&reports()).await.unwrap();
    assert!(new > old);
    let refused = set(&bed, gate(GateState::Open, Some(old))).await;
    assert!(matches!(refused, Err(StoreError::Refused(why)) if why.contains("fencing token")));
    assert_eq!(bed.reports.record().gate.state, GateState::Held);
    let bed = bed.reopen(fixture).await;
    set(&bed, gate(GateState::Open, Some(new))).await.unwrap();
    assert!(bed.reports.record().gate.last_hold.is_some());
    // People need no token.
    set(&bed, gate(GateState::Held, None)).await.unwrap();
    bed.close().await;
}

pub async fn what_is_released_is_closed_and_never_opened(fixture: &dyn Fixture) {
    let bed = Bed::serving(fixture).await;
    let others = other(&bed).await;
    bed.create("r", "u").await.unwrap();
    let before = bed.reports.current_rv();
    set(&bed, gate(GateState::Held, None)).await.unwrap();
    let elsewhere = create_in(&bed, &others, "o").await;
    assert_eq!(
        bed.reports.current_rv(),
        before,
        "others write, it does not"
    );
    let released = GateSpec {
        released: Some(true),
        resource_version: Some((elsewhere + 5).to_string()),
        ..gate(GateState::Held, None)
    };
    set(&bed, released).await.unwrap();
    let bed = bed.reopen(fixture).await;
    assert_eq!(bed.reports.current_rv(), elsewhere + 5);
    assert!(set(&bed, gate(GateState::Open, None)).await.is_err());
    set(&bed, gate(GateState::Closed, None)).await.unwrap();
    assert!(!bed.reports.record().gate.released);
    bed.close().await;
}

pub async fn a_watch_is_told_of_milestones_and_ends_with_all_there_was(fixture: &dyn Fixture) {
    let bed = Bed::serving(fixture).await;
    let from = bed.reports.current_rv();
    let mut cursor = bed.reports.events_from(from).unwrap();
    bed.create("r", "u").await.unwrap();
    let floor = bed.store.raise_floor(from + 1000).await.unwrap();
    let events = cursor.next_or_milestone(10, true).await.unwrap();
    assert_eq!(events.map(|events| events.len()), Some(1), "events first");
    assert!(cursor.next_or_milestone(10, true).await.unwrap().is_none());
    assert_eq!(cursor.position(), floor);
    let told = tokio::time::timeout(SHORT, cursor.next_or_milestone(10, true)).await;
    assert!(told.is_err(), "once");
    // Who comes back with an older version is told as well.
    let mut late = bed.reports.events_from(floor - 1).unwrap();
    assert!(late.next_or_milestone(10, true).await.unwrap().is_none());

    bed.create("s", "u").await.unwrap();
    set(&bed, gate(GateState::Held, None)).await.unwrap();
    let released = GateSpec {
        released: Some(true),
        resource_version: Some((floor + 500).to_string()),
        ..gate(GateState::Held, None)
    };
    set(&bed, released).await.unwrap();
    set(&bed, gate(GateState::Closed, None)).await.unwrap();
    // Nothing that was there is kept from a watch that ends.
    assert_eq!(cursor.next(10).await.unwrap().len(), 1);
    let ended = cursor.next(10).await;
    assert!(matches!(ended, Err(CursorError::Closed { complete: true })));
    assert_eq!(cursor.position(), floor + 500);
    bed.close().await;
}

pub async fn copies_that_were_written_back_are_marked(fixture: &dyn Fixture) {
    let item = |uid: &str, rv: &str| ImportItem {
        type_: ImportType::Object,
        object: json!({"metadata": {"name": "r", "namespace": key("r").namespace(), "uid": uid,
            "resourceVersion": rv}}),
    };
    let bed = Bed::open(fixture).await;
    let early = bed
        .import(ImportMode::WrittenBack, vec![item("", "")])
        .await;
    assert!(
        early.is_err(),
        "nothing is written back of what is not served"
    );
    bed.gate(GateState::Open).await;
    bed.create("r", "u").await.unwrap();
    let mark = async |uid: &str, rv: &str| {
        let items = vec![item(uid, rv)];
        bed.import(ImportMode::WrittenBack, items).await.unwrap();
        let name = reports();
        let marks = bed.store.digest(&name, DigestSet::Imported, 0, None).await;
        let marks = marks.unwrap().items;
        assert_eq!(bed.reports.record().imported, 1);
        (marks[0].uid.clone(), marks[0].resource_version.clone())
    };
    assert_eq!(mark("", "").await, (String::new(), "0".to_owned()));
    assert_eq!(mark("e", "7").await, ("e".to_owned(), "7".to_owned()));
    // The mark of a copy that is about to be made stands for one of any uid.
    mark("", "").await;
    let pruned = bed.import(ImportMode::Pruned, vec![item("x", "1")]).await;
    assert_eq!(pruned.unwrap().imported, 1);
    bed.close().await;
}
