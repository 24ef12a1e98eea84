//! Random histories of writes, restarts and compactions against a model that keeps everything.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::faults::{Fault, FaultyFixture, Trigger};
use super::{Bed, Fixture, Seen, brief, key, seen};
use crate::cache::{Event, EventType, Previous, Snapshot};
use crate::store::{StoreError, WriteError};

#[derive(Clone, Debug)]
enum Step {
    Create {
        name: u8,
    },
    /// An update; `stale` with a version that is not the stored one.
    Update {
        name: u8,
        app: u8,
        stale: bool,
    },
    Delete {
        name: u8,
        stale: bool,
    },
    /// Several writes at once, of which some share a transaction, to different keys.
    Burst {
        app: u8,
    },
    Floor {
        above: u16,
    },
    Reopen,
    Compact,
    /// A change whose transaction fails, `made` or not.
    Fault {
        name: u8,
        made: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0..6_u8;
    prop_oneof![
        4 => name.clone().prop_map(|name| Step::Create { name }),
        6 => (name.clone(), 0..3_u8, prop::bool::weighted(0.2))
            .prop_map(|(name, app, stale)| Step::Update { name, app, stale }),
        3 => (name, prop::bool::weighted(0.2)).prop_map(|(name, stale)| Step::Delete { name, stale }),
        2 => (0..3_u8).prop_map(|app| Step::Burst { app }),
        1 => (0..50_u16).prop_map(|above| Step::Floor { above }),
        1 => Just(Step::Reopen),
        1 => Just(Step::Compact),
        2 => (0..6_u8, any::<bool>()).prop_map(|(name, made)| Step::Fault { name, made }),
    ]
}

/// Name → (version, uid, label).
type State = BTreeMap<String, (u64, String, String)>;

/// The writes that were acknowledged.
#[derive(Default)]
struct Model {
    counter: u64,
    uids: u32,
    state: State,
    events: Vec<Seen>,
    /// The state after each event, by version.
    past: BTreeMap<u64, State>,
}

impl Model {
    fn take(&mut self, event: &Event) {
        self.log(seen(event));
    }

    fn log(&mut self, seen: Seen) {
        assert!(seen.1 > self.counter, "versions only grow");
        self.counter = seen.1;
        let (type_, rv, name, uid, app) = seen.clone();
        match type_ {
            EventType::Deleted => self.state.remove(&name),
            _ => self.state.insert(name, (rv, uid, app)),
        };
        self.events.push(seen);
        self.past.insert(rv, self.state.clone());
    }

    fn at(&self, rv: u64) -> State {
        self.past
            .range(..=rv)
            .next_back()
            .map(|(_, s)| s.clone())
            .unwrap_or_default()
    }
}

/// Runs random histories on fresh fixtures.
pub fn check(fixture: &dyn Fn() -> Box<dyn Fixture>) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config = Config {
        cases: 48,
        ..Config::with_source_file(file!())
    };
    TestRunner::new(config)
        .run(&prop::collection::vec(step(), 1..60), |steps| {
            runtime.block_on(run(&*fixture(), steps));
            Ok(())
        })
        .unwrap();
}

async fn run(fixture: &dyn Fixture, steps: Vec<Step>) {
    let trigger = Trigger::default();
    let fixture = &FaultyFixture {
        inner: fixture,
        trigger: trigger.clone(),
    };
    let mut bed = Bed::serving(fixture).await;
    let mut model = Model {
        counter: bed.store.counter(),
        ..Model::default()
    };
    let first = model.counter;
    for step in steps {
        match step {
            Step::Reopen => bed = bed.reopen(fixture).await,
            Step::Compact => bed.compact(Duration::ZERO).await,
            Step::Floor { above } => {
                let floor = model.counter + u64::from(above);
                assert_eq!(bed.store.raise_floor(floor).await.unwrap(), floor);
                model.counter = floor;
            }
            Step::Fault { name, made } => {
                trigger.arm(if made { Fault::After } else { Fault::Before });
                fault(&bed, &mut model, &format!("r{name}"), made).await;
            }
            Step::Burst { app } => burst(&bed, &mut model, app).await,
            Step::Create { name } => create(&bed, &mut model, &format!("r{name}")).await,
            Step::Update { name, app, stale } => {
                update(
                    &bed,
                    &mut model,
                    &format!("r{name}"),
                    &format!("a{app}"),
                    stale,
                )
                .await;
            }
            Step::Delete { name, stale } => {
                delete(&bed, &mut model, &format!("r{name}"), stale).await;
            }
        }
        assert_eq!(bed.store.counter(), model.counter);
        assert_eq!(bed.reports.current_rv(), model.counter);
    }
    let bed = compare(bed, &model, first).await;
    compare(bed.reopen(fixture).await, &model, first)
        .await
        .close()
        .await;
}

async fn create(bed: &Bed, model: &mut Model, name: &str) {
    model.uids += 1;
    let result = bed.create(name, &format!("u{}", model.uids)).await;
    match (model.state.contains_key(name), result) {
        (false, Ok(written)) => model.take(&written),
        (true, Err(WriteError::AlreadyExists(_))) => {}
        (_, result) => panic!("{result:?}"),
    }
}

async fn update(bed: &Bed, model: &mut Model, name: &str, app: &str, stale: bool) {
    let stored = model.state.get(name).cloned();
    let (rv, uid, _) = stored
        .clone()
        .unwrap_or((0, "none".to_owned(), String::new()));
    let result = bed
        .update(name, &uid, app, Some(rv - u64::from(stale && rv > 0)))
        .await;
    match (stored, result) {
        (None, Err(WriteError::NotFound(_))) => {}
        (
            Some(_),
            Err(WriteError::Conflict {
                rv: is, uid: owner, ..
            }),
        ) if stale => {
            assert_eq!((is, owner), (rv, uid));
        }
        (Some(_), Ok(written)) if !stale => model.take(&written),
        (_, result) => panic!("{result:?}"),
    }
}

async fn delete(bed: &Bed, model: &mut Model, name: &str, stale: bool) {
    let stored = model.state.get(name).map(|s| s.0);
    let result = bed
        .delete(name, stored.map(|rv| rv - u64::from(stale)))
        .await;
    match (stored, result) {
        (None, Err(WriteError::NotFound(_))) => {}
        (Some(rv), Err(WriteError::Conflict { rv: is, .. })) if stale => assert_eq!(is, rv),
        (Some(_), Ok(written)) if !stale => model.take(&written),
        (_, result) => panic!("{result:?}"),
    }
}

/// Makes a change whose outcome the store cannot tell; the next transaction finds out.
async fn fault(bed: &Bed, model: &mut Model, name: &str, made: bool) {
    let stored = model.state.get(name).cloned();
    let (rv, uid, _) = stored.clone().unwrap_or_default();
    let result = bed.update(name, &uid, "fault", Some(rv)).await;
    assert!(matches!(
        result,
        Err(WriteError::Store(StoreError::Unavailable { .. }))
    ));
    bed.store.raise_floor(0).await.unwrap();
    if made && stored.is_some() {
        let rv = model.counter + 1;
        model.log((
            EventType::Modified,
            rv,
            name.to_owned(),
            uid,
            "fault".to_owned(),
        ));
    }
}

/// Updates every object at once; the versions tell the order.
async fn burst(bed: &Bed, model: &mut Model, app: u8) {
    let app = format!("a{app}");
    let writes = model
        .state
        .iter()
        .map(|(name, (rv, uid, _))| bed.update(name, uid, &app, Some(*rv)));
    let mut events: Vec<_> = futures::future::join_all(writes)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    events.sort_by_key(|e| e.rv());
    for event in events {
        model.take(&event);
    }
}

/// Compares state, events from every version and states of the past with the model.
async fn compare(bed: Bed, model: &Model, first: u64) -> Bed {
    assert_eq!(state(&bed.reports.snapshot()), model.state);
    let horizon = bed.reports.horizon();
    for rv in first..=model.counter {
        if rv < horizon {
            assert_eq!(bed.reports.events_from(rv).unwrap_err().oldest, horizon);
            assert!(bed.reports.snapshot_at(rv).await.is_err());
            continue;
        }
        let events = bed.events(rv, model.counter).await;
        let got: Vec<Seen> = events.iter().map(|e| seen(e)).collect();
        let want: Vec<Seen> = model.events.iter().filter(|e| e.1 > rv).cloned().collect();
        assert_eq!(got, want, "from {rv}");
        for event in &events {
            previous(event, model);
        }
        match bed.reports.snapshot_at(rv).await {
            Ok(past) => {
                assert_eq!(past.rv, rv);
                assert_eq!(state(&past), model.at(rv), "at {rv}");
            }
            // What was before the horizon is not known, where an event since needs it.
            Err(error) => {
                let lost = events
                    .iter()
                    .any(|e| matches!(e.previous, Previous::Labels(_)));
                assert!(lost, "at {rv}: {error}");
            }
        }
    }
    bed
}

/// Checks that the state before an event is that of the model; its labels are always known.
fn previous(event: &Event, model: &Model) {
    let before = model.at(event.rv() - 1).remove(event.object.key.name());
    match (&event.previous, before) {
        (Previous::None, None) => {}
        (Previous::Known(object), Some((rv, uid, app))) => {
            assert_eq!(
                (object.rv, brief(object)),
                (rv, (key_name(event), uid, app))
            );
        }
        (Previous::Labels(labels), Some((_, _, app))) => {
            assert_eq!(labels.get("app"), Some(app.as_str()));
        }
        (previous, before) => panic!("{previous:?} {before:?}"),
    }
}

fn key_name(event: &Event) -> String {
    assert_eq!(event.object.key, key(event.object.key.name()));
    event.object.key.name().to_owned()
}

fn state(snapshot: &Snapshot) -> State {
    snapshot
        .range(None, None)
        .map(|object| {
            let (name, uid, app) = brief(object);
            (name, (object.rv, uid, app))
        })
        .collect()
}
