//! Servers on one database that learn of each other by their own commits alone, in random turns.
//!
//! No look at the database comes between, so a commit is behind whatever the others did since the
//! last one of the same server.

use crds::control::{GateSpec, GateState, ImportMode, ImportType};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::super::{Bed, item, reports};
use super::Cluster;
use crate::model::GroupResource;

/// The work of a server in its turn.
#[derive(Clone, Copy, Debug)]
enum Turn {
    /// Forgets what was mirrored.
    Reset,
    /// Takes an event of etcd.
    Import(u8),
    /// Closes the gate again, which changes the record alone.
    Close,
    /// Raises the counter.
    Floor,
    /// Takes a straggler, which is refused while the gate was never opened.
    Refused,
    /// Defines another resource.
    Define,
}

fn turns() -> impl Strategy<Value = Vec<(bool, Turn)>> {
    let turn = prop_oneof![
        1 => Just(Turn::Reset),
        5 => (0..6_u8).prop_map(Turn::Import),
        1 => Just(Turn::Close),
        2 => Just(Turn::Floor),
        1 => Just(Turn::Refused),
        1 => Just(Turn::Define),
    ];
    prop::collection::vec((any::<bool>(), turn), 1..25)
}

/// Tries again what a server refuses that does not know of a reset yet: it has caught up by then.
async fn patiently<T, E: std::fmt::Display>(attempt: impl AsyncFn() -> Result<T, E>) -> T {
    for _ in 0..3 {
        if let Ok(done) = attempt().await {
            return done;
        }
    }
    attempt().await.unwrap_or_else(|error| panic!("{error}"))
}

async fn take(bed: &Bed, turn: Turn, at: u64) {
    match turn {
        Turn::Reset => drop(patiently(async || bed.import(ImportMode::Reset, vec![]).await).await),
        Turn::Import(n) => {
            let name = format!("r{n}");
            let event = item(ImportType::Modified, &name, &name, "a", at);
            let events = || vec![event.clone()];
            patiently(async || bed.import(ImportMode::Mirror, events()).await).await;
        }
        Turn::Close => {
            let closed = GateSpec {
                state: GateState::Closed,
                ..GateSpec::default()
            };
            let name = reports();
            patiently(async || bed.store.set_gate(&name, closed.clone(), None).await).await;
        }
        Turn::Floor => drop(patiently(async || bed.store.raise_floor(at).await).await),
        Turn::Refused => {
            let straggler = vec![item(ImportType::Modified, "s", "s", "a", at)];
            let refused = bed.import(ImportMode::Straggler, straggler).await;
            refused.unwrap_err();
        }
        Turn::Define => {
            let mut def = bed.reports.def().clone();
            def.resource = GroupResource::new("example.io", format!("others{}", at % 3));
            patiently(async || bed.store.ensure_resource(def.clone()).await).await;
        }
    }
}

/// Returns the objects in memory with their versions, and the number of marks in the database.
fn known(bed: &Bed) -> (Vec<(String, u64)>, u64) {
    let snapshot = bed.store.resource(&reports()).unwrap().snapshot();
    let objects = snapshot.range(None, None);
    let objects = objects.map(|o| (o.key.name().to_owned(), o.rv));
    (objects.collect(), bed.reports.record().imported)
}

async fn run(turns: &[(bool, Turn)]) {
    let cluster = Cluster::direct();
    let beds = [Bed::open(&cluster).await, Bed::open(&cluster).await];
    for bed in &beds {
        bed.store.rest();
    }
    for (at, (second, turn)) in turns.iter().enumerate() {
        take(&beds[usize::from(*second)], *turn, 100 + at as u64).await;
    }
    for bed in &beds {
        for floor in [10_000, 20_000] {
            patiently(async || bed.store.raise_floor(floor).await).await;
        }
    }
    let fresh = Bed::open(&cluster).await;
    let stored = known(&fresh);
    assert_eq!(stored.0.len() as u64, stored.1, "each is marked");
    for bed in &beds {
        assert_eq!(known(bed), stored);
    }
    for bed in beds {
        bed.close().await;
    }
    fresh.close().await;
}

#[test]
fn servers_that_take_turns_know_the_same_objects() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config = Config {
        cases: 48,
        ..Config::with_source_file(file!())
    };
    TestRunner::new(config)
        .run(&turns(), |turns| {
            runtime.block_on(run(&turns));
            Ok(())
        })
        .unwrap();
}
