//! Objects are compressed anew while they are read and written, and nobody can tell.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crds::control::{GateState, ImportItem, ImportMode, ImportType};
use serde_json::{Value, json};

use super::{Bed, Fixture, brief, key, report};
use crate::cache::{Recompressed, Resource, Snapshot};
use crate::model::{Dictionary, Encoded, Samples, StoredObject};
use crate::store::Write;
use crate::store::compression::Dictionaries;

/// Objects, enough for a dictionary.
const OBJECTS: u64 = 2200;

fn name(number: u64) -> String {
    format!("r{number:05}")
}

/// Returns the part of object `number` that never changes.
fn spec(number: u64) -> Value {
    let check = |check: u64| {
        let seen = number * 7919 + check;
        let message = format!("rule 'house-{check}' has seen {seen:x} and asks for another one");
        json!({"message": message, "policy": format!("policy-of-the-house-{}", check % 5),
            "severity": "medium", "time": 1_700_000_000 + seen})
    };
    (0..24).map(check).collect()
}

fn object(number: u64, app: &str) -> Value {
    let name = name(number);
    let mut object = report(&name, &format!("uid-{name}"), app);
    object["spec"] = spec(number);
    object
}

/// Fails unless the text of an object is that of its number.
fn check(found: &StoredObject) {
    let (name, ..) = brief(found);
    let number = name[1..].parse().unwrap();
    assert_eq!(found.value().unwrap()["spec"], spec(number), "{name}");
}

/// Returns a dictionary of generation 1.
pub fn dictionary() -> Arc<Dictionary> {
    let mut samples = Samples::default();
    for number in 0..200 {
        let encoded = Encoded::from_value(&object(number, "web"), Dictionary::built_in());
        samples.add(&encoded.unwrap().body).unwrap();
    }
    Arc::new(Dictionary::train(&samples, 1).unwrap())
}

async fn filled(fixture: &dyn Fixture) -> Bed {
    let bed = Bed::open(fixture).await;
    // The store trains no dictionary of its own accord.
    bed.store.rest();
    let items = (0..OBJECTS).map(|number| {
        let mut object = object(number, "web");
        object["metadata"]["resourceVersion"] = json!((number + 1).to_string());
        let type_ = ImportType::Object;
        ImportItem { type_, object }
    });
    let imported = bed.import(ImportMode::Mirror, items.collect()).await;
    assert_eq!(imported.unwrap().imported, OBJECTS);
    bed.store.raise_floor(2 * OBJECTS).await.unwrap();
    bed.gate(GateState::Open).await;
    bed
}

fn texts(snapshot: &Snapshot) -> Vec<Vec<u8>> {
    let objects = snapshot.range(None, None);
    objects
        .map(|object| object.json().unwrap().to_vec())
        .collect()
}

async fn round(dictionaries: &mut Dictionaries, bed: &Bed) {
    dictionaries.round(&[Arc::clone(&bed.reports)]).await;
}

pub async fn memory_falls_and_no_text_changes(fixture: &dyn Fixture) {
    let bed = filled(fixture).await;
    let before = bed.reports.compression();
    assert_eq!((before.generation, before.outdated()), (0, 0));
    let old = bed.reports.snapshot();
    let want = texts(&old);

    let mut dictionaries = Dictionaries::default();
    round(&mut dictionaries, &bed).await;
    let after = bed.reports.compression();
    assert_eq!((after.generation, after.trainings), (1, 1));
    assert_eq!(after.outdated(), 0);
    assert_eq!(after.all.json_bytes, before.all.json_bytes);
    assert!(
        after.all.compressed_bytes * 10 < before.all.compressed_bytes * 9,
        "{before:?} {after:?}"
    );
    assert!(after.dictionary_bytes > 0);
    let new = bed.reports.snapshot();
    assert_eq!((texts(&new), texts(&old)), (want.clone(), want));
    assert_eq!(new.rv, old.rv);

    // There is no reason for another one.
    round(&mut dictionaries, &bed).await;
    assert_eq!(bed.reports.compression(), after);
    bed.close().await;
}

pub async fn new_objects_use_the_newest_dictionary(fixture: &dyn Fixture) {
    let bed = filled(fixture).await;
    let generation = |bed: &Bed, name: &str| bed.reports.get(&key(name)).unwrap().body.generation();
    round(&mut Dictionaries::default(), &bed).await;
    let create = Write::Create {
        key: key("r99999"),
        object: object(99_999, "web"),
    };
    let written = bed.write(create).await.unwrap();
    check(&written.object);
    assert_eq!(generation(&bed, "r99999"), 1);

    // Dictionaries are not stored: a start begins without.
    let bed = bed.reopen(fixture).await;
    assert_eq!(generation(&bed, "r99999"), 0);
    round(&mut Dictionaries::default(), &bed).await;
    assert_eq!(generation(&bed, "r99999"), 1);
    check(&bed.reports.get(&key("r99999")).unwrap());
    bed.close().await;
}

/// Reads objects until `done`.
async fn read(reports: Arc<Resource>, done: Arc<AtomicBool>) {
    while !done.load(Ordering::SeqCst) {
        let some: Vec<_> = {
            let snapshot = reports.snapshot();
            snapshot.range(None, None).step_by(37).cloned().collect()
        };
        for object in &some {
            check(object);
        }
        tokio::task::yield_now().await;
    }
}

/// Updates every tenth object.
async fn update(bed: &Bed) {
    for number in (0..OBJECTS).step_by(10) {
        let update = Write::Update {
            key: key(&name(number)),
            expected_rv: None,
            object: object(number, "new"),
        };
        bed.write(update).await.unwrap();
    }
}

pub async fn reads_and_writes_go_on_meanwhile(fixture: &dyn Fixture) {
    let bed = filled(fixture).await;
    let done = Arc::new(AtomicBool::new(false));
    let readers = [0, 1].map(|_| tokio::spawn(read(Arc::clone(&bed.reports), Arc::clone(&done))));
    let mut dictionaries = Dictionaries::default();
    tokio::join!(round(&mut dictionaries, &bed), update(&bed));
    done.store(true, Ordering::SeqCst);
    for reader in readers {
        reader.await.unwrap();
    }
    let compression = bed.reports.compression();
    assert_eq!(
        (compression.generation, compression.all.count),
        (1, OBJECTS)
    );
    assert!(compression.outdated() < OBJECTS / 50, "{compression:?}");
    for found in bed.reports.snapshot().range(None, None) {
        check(found);
        let number: u64 = found.key.name()[1..].parse().unwrap();
        let app = if number.is_multiple_of(10) {
            "new"
        } else {
            "web"
        };
        assert_eq!(found.labels.get("app"), Some(app));
    }
    bed.close().await;
}

pub async fn what_was_written_meanwhile_stays(fixture: &dyn Fixture) {
    let bed = Bed::serving(fixture).await;
    bed.create("r", "u").await.unwrap();
    let old = bed.reports.get(&key("r")).unwrap();
    let anew = |object: &Arc<StoredObject>| {
        [Recompressed::new(Arc::clone(object), Dictionary::built_in()).unwrap()]
    };
    bed.reports.replace(&anew(&old));
    let replaced = bed.reports.get(&key("r")).unwrap();
    assert!(!Arc::ptr_eq(&old, &replaced));
    assert_eq!(brief(&old), brief(&replaced));

    let late = anew(&replaced);
    let rv = bed.update("r", "u", "b", None).await.unwrap().rv();
    bed.reports.replace(&late);
    assert_eq!(bed.reports.get(&key("r")).unwrap().rv, rv);
    let late = anew(&bed.reports.get(&key("r")).unwrap());
    bed.delete("r", None).await.unwrap();
    bed.reports.replace(&late);
    assert!(bed.reports.get(&key("r")).is_none());
    bed.close().await;
}
