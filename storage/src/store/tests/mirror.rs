//! Random histories in etcd, mirrored in every order and with every repetition that an operator
//! may cause, then switched: nothing is lost, made twice or undone.

use std::collections::BTreeMap;

use crds::control::{GateState, ImportBatch, ImportItem, ImportMode, ImportType};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{Bed, Fixture, Seen, item, reports, seen};
use crate::cache::{EventType, Previous};

/// The events in etcd, and the way in which they are mirrored.
#[derive(Clone, Debug)]
struct Plan {
    /// (object, gap before the version, delete rather than change).
    events: Vec<(u8, u64, bool)>,
    /// Share of the events before the listing, and of those before the watch's beginning.
    listed_at: prop::sample::Index,
    watched_from: prop::sample::Index,
    /// The next batch of the operator: a page of the listing, or events.
    order: Vec<bool>,
    /// The batch after which the operator or the server restarts, and the number of batches that
    /// are repeated.
    restart: (prop::sample::Index, usize),
    page: usize,
}

fn plan() -> impl Strategy<Value = Plan> {
    (
        prop::collection::vec((0..5_u8, 1..4_u64, prop::bool::weighted(0.3)), 1..40),
        any::<prop::sample::Index>(),
        any::<prop::sample::Index>(),
        prop::collection::vec(any::<bool>(), 40),
        (any::<prop::sample::Index>(), 0..3_usize),
        1..4_usize,
    )
        .prop_map(
            |(events, listed_at, watched_from, order, restart, page)| Plan {
                events,
                listed_at,
                watched_from,
                order,
                restart,
                page,
            },
        )
}

/// One event of etcd's history.
#[derive(Clone, Debug)]
struct Happened {
    type_: ImportType,
    name: String,
    uid: String,
    app: String,
    rv: u64,
}

impl Happened {
    fn item(&self) -> ImportItem {
        item(self.type_, &self.name, &self.uid, &self.app, self.rv)
    }

    fn seen(&self) -> Seen {
        let type_ = match self.type_ {
            ImportType::Modified => EventType::Modified,
            ImportType::Deleted => EventType::Deleted,
            ImportType::Object | ImportType::Added => EventType::Added,
        };
        (
            type_,
            self.rv,
            self.name.clone(),
            self.uid.clone(),
            self.app.clone(),
        )
    }
}

/// Returns a possible history, from random choices.
fn history(choices: &[(u8, u64, bool)]) -> Vec<Happened> {
    let mut live: BTreeMap<u8, Happened> = BTreeMap::new();
    let mut rv = 100;
    choices
        .iter()
        .map(|&(object, gap, delete)| {
            rv += gap;
            let (type_, uid) = match live.get(&object) {
                None => (ImportType::Added, format!("u{rv}")),
                Some(before) if delete => (ImportType::Deleted, before.uid.clone()),
                Some(before) => (ImportType::Modified, before.uid.clone()),
            };
            // The last state of a deletion is the one before it.
            let app = match live.get(&object) {
                Some(before) if delete => before.app.clone(),
                _ => format!("a{}", rv % 3),
            };
            let event = Happened {
                type_,
                name: format!("r{object}"),
                uid,
                app,
                rv,
            };
            match type_ {
                ImportType::Deleted => live.remove(&object),
                _ => live.insert(object, event.clone()),
            };
            event
        })
        .collect()
}

/// Returns the objects after `events`.
fn state(events: &[Happened]) -> BTreeMap<String, Happened> {
    let mut state = BTreeMap::new();
    for event in events {
        match event.type_ {
            ImportType::Deleted => state.remove(&event.name),
            _ => state.insert(event.name.clone(), event.clone()),
        };
    }
    state
}

/// Returns the batches that an operator sends: pages of a listing and pieces of a watch, mixed.
fn batches(plan: &Plan, history: &[Happened], listed: usize, watched: usize) -> Vec<ImportBatch> {
    let rv_of = |n: usize| n.checked_sub(1).map_or(100, |i| history[i].rv);
    let listing: Vec<ImportItem> = state(&history[..listed])
        .into_values()
        .map(|mut object| {
            object.type_ = ImportType::Object;
            object.item()
        })
        .collect();
    let stream: Vec<ImportItem> = history[watched..].iter().map(Happened::item).collect();
    let batch = |items: &[ImportItem]| ImportBatch {
        items: items.to_vec(),
        horizon: Some(rv_of(watched).to_string()),
        ..ImportBatch::default()
    };
    let mut pages: Vec<ImportBatch> = listing.chunks(plan.page).map(batch).collect();
    // The end of the listing is progress, however small it is.
    pages.push(ImportBatch {
        progress: Some(rv_of(listed).to_string()),
        ..batch(&[])
    });
    let mut pieces = stream.chunks(plan.page).map(batch);
    let mut pages = pages.into_iter();
    let mut mixed = Vec::new();
    for list in plan.order.iter().cycle() {
        let next = if *list { pages.next() } else { pieces.next() };
        match next.or_else(|| pages.next()).or_else(|| pieces.next()) {
            Some(batch) => mixed.push(batch),
            None => return mixed,
        }
    }
    mixed
}

/// Runs random mirrors on fresh fixtures.
pub fn check(fixture: &dyn Fn() -> Box<dyn Fixture>) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config = Config {
        cases: 64,
        ..Config::with_source_file(file!())
    };
    TestRunner::new(config)
        .run(&plan(), |plan| {
            runtime.block_on(run(&*fixture(), &plan));
            Ok(())
        })
        .unwrap();
}

async fn run(fixture: &dyn Fixture, plan: &Plan) {
    let history = history(&plan.events);
    let listed = plan.listed_at.index(history.len() + 1);
    // The watch begins at the listing or before it, so that nothing is missed in between.
    let watched = plan.watched_from.index(listed + 1);
    let batches = batches(plan, &history, listed, watched);
    let (restart, repeat) = (plan.restart.0.index(batches.len()), plan.restart.1);

    let mut bed = Bed::open(fixture).await;
    for (n, batch) in batches.iter().enumerate() {
        bed.store.import(&reports(), batch.clone()).await.unwrap();
        if n == restart {
            bed = bed.reopen(fixture).await;
            for batch in &batches[(n + 1).saturating_sub(repeat)..=n] {
                let again = bed.store.import(&reports(), batch.clone()).await.unwrap();
                assert_eq!(again.imported, 0, "what is known changes nothing");
            }
        }
    }
    let horizon = watched.checked_sub(1).map_or(100, |i| history[i].rv);
    let want = state(&history);
    compare(&bed, &history, &want, horizon, watched).await;
    let bed = bed.reopen(fixture).await;
    compare(&bed, &history, &want, horizon, watched).await;
    serve(&bed, &history, &want, watched, horizon).await;
    bed.close().await;
}

/// Checks that state, marks and log are those of etcd.
async fn compare(
    bed: &Bed,
    history: &[Happened],
    want: &BTreeMap<String, Happened>,
    horizon: u64,
    watched: usize,
) {
    let got: Vec<_> = bed
        .reports
        .snapshot()
        .range(None, None)
        .map(|o| (o.key.name().to_owned(), o.rv))
        .collect();
    let objects: Vec<_> = want.values().map(|o| (o.name.clone(), o.rv)).collect();
    assert_eq!(got, objects);
    assert!(
        bed.reports
            .snapshot()
            .range(None, None)
            .all(|o| o.as_imported)
    );
    let marks = bed
        .store
        .engine()
        .marks(bed.reports.record().id, None, 100)
        .await
        .unwrap();
    let marks: Vec<_> = marks
        .into_iter()
        .map(|m| (m.name, m.uid, m.resource_version))
        .collect();
    let copies: Vec<_> = want
        .values()
        .map(|o| (o.name.clone(), o.uid.clone(), o.rv.to_string()))
        .collect();
    assert_eq!(marks, copies);
    assert_eq!(bed.reports.record().imported, copies.len() as u64);

    assert_eq!(bed.reports.horizon(), horizon);
    let newest = bed.reports.current_rv();
    assert_eq!(newest, history.last().map_or(100, |e| e.rv).max(horizon));
    for from in watched..=history.len() {
        let rv = from.checked_sub(1).map_or(100, |i| history[i].rv);
        let events = bed.events(rv, newest).await;
        let got: Vec<Seen> = events.iter().map(|e| seen(e)).collect();
        let want: Vec<Seen> = history[from..].iter().map(Happened::seen).collect();
        assert_eq!(got, want, "from {rv}");
        // Where a state before an event is given, it is the right one.
        for (event, at) in events.iter().zip(from..) {
            let before = state(&history[..at]).remove(event.object.key.name());
            match (&event.previous, before) {
                (Previous::Known(object), Some(before)) => assert_eq!(object.rv, before.rv),
                (Previous::Labels(labels), Some(before)) => {
                    assert_eq!(labels.get("app"), Some(before.app.as_str()));
                }
                (Previous::None, None) => {}
                // Only where the listing brought a newer state before the first event came.
                (Previous::Unknown, Some(_)) => assert_eq!(event.type_, EventType::Modified),
                (previous, before) => panic!("{previous:?}, not {before:?}"),
            }
        }
    }
}

/// Checks that our writes follow etcd's events after the switch, for clients that resume.
async fn serve(
    bed: &Bed,
    history: &[Happened],
    want: &BTreeMap<String, Happened>,
    watched: usize,
    horizon: u64,
) {
    bed.store.raise_floor(10_000).await.unwrap();
    bed.gate(GateState::Open).await;
    for object in want.values() {
        bed.update(&object.name, &object.uid, "ours", Some(object.rv))
            .await
            .unwrap();
    }
    let last = bed.store.counter();
    assert_eq!(last, 10_000 + want.len() as u64);
    let events: Vec<u64> = bed
        .events(horizon, last)
        .await
        .iter()
        .map(|e| e.rv())
        .collect();
    let etcd = history[watched..].iter().map(|e| e.rv);
    assert_eq!(events, etcd.chain(10_001..=last).collect::<Vec<_>>());
    let refused = bed.import(ImportMode::Mirror, vec![]).await;
    assert!(refused.is_err());
}
