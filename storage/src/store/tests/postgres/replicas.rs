//! Several servers on one database behave as one.

use std::sync::Arc;
use std::time::Duration;

use crds::control::{GateSpec, GateState, ImportMode, ImportType};
use futures::future::join_all;
use pgtest::Timeline;
use tempfile::TempDir;

use super::super::faults::{Fault, FaultyFixture, Trigger};
use super::super::{
    Bed, Seen, begins_above_etcd, brief, compression, item, key, next, reports, seen,
};
use super::Cluster;
use crate::cache::EventType;
use crate::model::GroupResource;
use crate::store::engine::Engine;
use crate::store::postgres::Postgres;
use crate::store::{PostgresOptions, Store, StoreOptions, WriteError};

/// Time within which one server tells the commits of another.
const SOON: Duration = Duration::from_secs(5);

/// Waits until `store` has applied everything that was committed before.
async fn settled(bed: &Bed) {
    bed.store.consistent().await.unwrap();
}

async fn pair(cluster: &Cluster) -> (Bed, Bed) {
    let first = Bed::serving(cluster).await;
    let second = Bed::open(cluster).await;
    (first, second)
}

async fn writes_of_one_are_seen_by_the_other(cluster: &Cluster) {
    let (first, second) = pair(cluster).await;
    let mut watch = second
        .reports
        .events_from(second.reports.current_rv())
        .unwrap();
    let rv = first.create("r", "u").await.unwrap().rv();
    // The watch is woken without anybody asking.
    let events = next(&mut watch, 10).await;
    assert_eq!(seen(&events[0]).1, rv);

    let rv = first.update("r", "u", "b", Some(rv)).await.unwrap().rv();
    settled(&second).await;
    assert_eq!(second.reports.get(&key("r")).unwrap().rv, rv);
    assert_eq!(second.store.counter(), rv);

    // The second writes on top of it, and the first learns of that.
    let stale = second.update("r", "u", "c", Some(rv - 1)).await;
    assert!(matches!(stale, Err(WriteError::Conflict { rv: is, .. }) if is == rv));
    let rv = second.update("r", "u", "c", Some(rv)).await.unwrap().rv();
    settled(&first).await;
    assert_eq!(first.reports.get(&key("r")).unwrap().rv, rv);
    first.close().await;
    second.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_of_one_server_are_seen_by_the_other() {
    writes_of_one_are_seen_by_the_other(&Cluster::direct()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_of_one_server_are_seen_by_the_other_through_a_pooler() {
    writes_of_one_are_seen_by_the_other(&Cluster::pooled()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_server_compresses_writes_of_others_with_its_own_dictionary() {
    let cluster = Cluster::direct();
    let (first, second) = pair(&cluster).await;
    second.reports.set_dictionary(compression::dictionary());
    first.create("r", "u").await.unwrap();
    settled(&second).await;
    let [here, there] = [&first, &second].map(|bed| bed.reports.get(&key("r")).unwrap());
    assert_eq!((here.body.generation(), there.body.generation()), (0, 1));
    assert_eq!(brief(&here), brief(&there));
    assert_eq!(here.json().unwrap(), there.json().unwrap());
    first.close().await;
    second.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_servers_tell_the_same_history() {
    const WRITES: usize = 40;
    let cluster = Cluster::direct();
    let (first, second) = pair(&cluster).await;
    let third = Bed::open(&cluster).await;
    let beds = [&first, &second, &third];
    let start = first.reports.current_rv();
    let writers = beds.iter().enumerate().flat_map(|(n, bed)| {
        (0..WRITES).map(move |i| async move {
            let name = format!("r{n}-{i}");
            let rv = bed.create(&name, "u").await.unwrap().rv();
            bed.update(&name, "u", "b", Some(rv)).await.unwrap();
        })
    });
    join_all(writers).await;
    let last = start + 2 * 3 * WRITES as u64;
    let mut histories: Vec<Vec<Seen>> = Vec::new();
    for bed in beds {
        settled(bed).await;
        assert_eq!(bed.store.counter(), last);
        let events = bed.events(start, last).await;
        histories.push(events.iter().map(|e| seen(e)).collect());
        assert_eq!(bed.reports.snapshot().len(), 3 * WRITES);
    }
    let versions: Vec<u64> = histories[0].iter().map(|e| e.1).collect();
    assert_eq!(versions, (start + 1..=last).collect::<Vec<_>>());
    assert_eq!(histories[0], histories[1]);
    assert_eq!(histories[0], histories[2]);
    for bed in [first, second, third] {
        bed.close().await;
    }
}

/// Asking for the newest seq overlaps with commits of the same server's own, which are answered
/// while the question is under way: the database is not behind then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consistent_reads_go_on_beside_own_commits() {
    const WRITES: usize = 200;
    let cluster = Cluster::direct();
    let bed = Bed::serving(&cluster).await;
    let writing = async {
        for i in 0..WRITES {
            bed.create(&format!("r{i}"), "u").await.unwrap();
        }
    };
    let reading = async {
        for _ in 0..WRITES {
            bed.store.consistent().await.unwrap();
        }
    };
    let asking = async {
        let engine = bed.store.engine();
        for _ in 0..WRITES {
            engine.newest_seq().await.unwrap();
        }
    };
    futures::join!(writing, reading, asking);
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_to_one_server_are_in_force_on_the_other() {
    let cluster = Cluster::direct();
    let first = Bed::open(&cluster).await;
    let second = Bed::open(&cluster).await;
    let imported = vec![item(ImportType::Object, "r", "u", "a", 10)];
    first.import(ImportMode::Mirror, imported).await.unwrap();
    settled(&second).await;
    assert_eq!(second.reports.snapshot().len(), 1);
    assert_eq!(second.reports.record().newest_imported, 10);

    first.import(ImportMode::Reset, vec![]).await.unwrap();
    settled(&second).await;
    assert_eq!(second.reports.snapshot().len(), 0);
    assert_eq!(second.reports.record().id, first.reports.record().id);

    // Gate and write without asking the second first: the database decides.
    let mut gate = second.reports.gate();
    first.gate(GateState::Open).await;
    let rv = second.create("s", "v").await.unwrap().rv();
    gate.wait_for(|gate| gate.state == GateState::Open)
        .await
        .unwrap();
    first.gate(GateState::Held).await;
    let refused = second.update("s", "v", "b", Some(rv)).await;
    assert!(matches!(refused, Err(WriteError::Gate(GateState::Held))));
    gate.wait_for(|gate| gate.state == GateState::Held)
        .await
        .unwrap();

    let floor = rv + 1000;
    first.store.raise_floor(floor).await.unwrap();
    settled(&second).await;
    assert_eq!(second.store.counter(), floor);

    let mut def = first.reports.def().clone();
    def.resource = GroupResource::new("example.io", "others");
    first.store.ensure_resource(def.clone()).await.unwrap();
    settled(&second).await;
    assert!(second.store.resource(&def.resource).is_some());
    first.close().await;
    second.close().await;
}

/// A commit of a server's own that has nothing to do with the reports.
#[derive(Clone, Copy, Debug)]
enum Own {
    Floor,
    Definition,
}

impl Own {
    async fn commit(self, bed: &Bed) {
        match self {
            Self::Floor => drop(bed.store.raise_floor(100).await.unwrap()),
            Self::Definition => {
                let mut def = bed.reports.def().clone();
                def.resource = GroupResource::new("example.io", "others");
                bed.store.ensure_resource(def).await.unwrap();
            }
        }
    }
}

/// Another server has reset the resource and imported since, and a commit of one's own is the first
/// to learn of both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_behind_the_reset_of_another_server_loses_no_import() {
    for own in [Own::Floor, Own::Definition] {
        let cluster = Cluster::direct();
        let first = Bed::open(&cluster).await;
        let second = Bed::open(&cluster).await;
        second.store.rest();
        first.import(ImportMode::Reset, vec![]).await.unwrap();
        let imported = vec![item(ImportType::Added, "r", "u", "a", 10)];
        first.import(ImportMode::Mirror, imported).await.unwrap();
        own.commit(&second).await;
        let imported = vec![item(ImportType::Added, "s", "v", "a", 11)];
        first.import(ImportMode::Mirror, imported).await.unwrap();
        second.store.raise_floor(200).await.unwrap();
        let known = second.reports.snapshot();
        let names: Vec<_> = known.range(None, None).map(|o| o.key.name()).collect();
        assert_eq!(names, ["r", "s"], "{own:?}");
        first.close().await;
        second.close().await;
    }
}

/// However a server comes to know of a raised counter: alone, or together with writes behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_on_every_server_are_told_of_a_raised_counter() {
    const ROUNDS: usize = 40;
    let cluster = Cluster::direct();
    let (first, second) = pair(&cluster).await;
    let mut def = first.reports.def().clone();
    def.resource = GroupResource::new("example.io", "idle");
    first.store.ensure_resource(def.clone()).await.unwrap();
    let open = GateSpec {
        state: GateState::Open,
        ..GateSpec::default()
    };
    let opened = first.store.set_gate(&def.resource, open, None).await;
    opened.unwrap();
    settled(&second).await;
    let idle = second.store.resource(&def.resource).unwrap();
    let mut watch = idle.events_from(idle.current_rv()).unwrap();
    for round in 0..ROUNDS {
        let goal = first.store.counter() + 100;
        first.store.raise_floor(goal).await.unwrap();
        first.create(&format!("r{round}"), "u").await.unwrap();
        let told = tokio::time::timeout(SOON, watch.next_or_milestone(10, true)).await;
        let told = told.unwrap_or_else(|_| panic!("not told of {goal} in round {round}"));
        assert!(told.unwrap().is_none(), "nothing happens to this resource");
        assert!(watch.position() >= goal);
    }
    first.close().await;
    second.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compaction_by_one_server_is_a_horizon_on_the_other() {
    let cluster = Cluster::direct();
    let (first, second) = pair(&cluster).await;
    let start = first.reports.current_rv();
    for i in 0..20 {
        first.create(&format!("r{i}"), "u").await.unwrap();
    }
    settled(&second).await;
    // So far back that it reads from the log, which the first server drops.
    let mut behind = second.reports.events_from(start).unwrap();
    first.compact(Duration::ZERO).await;
    let lagged = behind.next(3).await.unwrap_err();
    assert!(
        matches!(lagged, crate::cache::CursorError::Lagged { .. }),
        "{lagged}"
    );
    settled(&second).await;
    assert_eq!(second.reports.horizon(), first.reports.horizon());
    first.close().await;
    second.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_was_put_back_makes_clients_list_again() {
    put_back(Fault::None).await;
}

/// Connections are lost when a database is put back, and that may be while the cache is loaded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recovery_that_fails_is_carried_on() {
    put_back(Fault::Objects).await;
}

/// Returns a server of its own, which can be put back, a cluster on it, and the directory that names
/// it.
async fn restorable() -> (pgtest::Postgres, Cluster, TempDir) {
    let postgres = pgtest::Postgres::start(pgtest::PostgresOptions::quick())
        .await
        .unwrap();
    let directory = tempfile::tempdir().unwrap();
    postgres.params().write(directory.path()).unwrap();
    let cluster = Cluster {
        options: PostgresOptions::new(directory.path(), "restored"),
    };
    (postgres, cluster, directory)
}

/// No server has gone on across the restore, to know what is missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_was_put_back_while_no_server_looked_begins_above_etcd() {
    let (postgres, cluster, _dir) = restorable().await;
    let bed = Bed::serving(&cluster).await;
    bed.create("kept", "u").await.unwrap();
    let backup = postgres.backup().await.unwrap();
    bed.create("lost", "u").await.unwrap();
    bed.close().await;
    postgres.restore(&backup, Timeline::New).await.unwrap();
    begins_above_etcd(&cluster).await;
}

async fn put_back(fault: Fault) {
    let (postgres, cluster, _dir) = restorable().await;
    let trigger = Trigger::default();
    let faulty = FaultyFixture {
        inner: &cluster,
        trigger: trigger.clone(),
    };
    let first = Bed::serving(&faulty).await;
    let second = Bed::open(&faulty).await;
    first.create("kept", "u").await.unwrap();
    let backup = postgres.backup().await.unwrap();
    for i in 0..5 {
        first.create(&format!("lost{i}"), "u").await.unwrap();
    }
    settled(&second).await;
    let served = first.store.counter();
    postgres.restore(&backup, Timeline::Same).await.unwrap();
    trigger.arm(fault);

    // Whoever comes with a version that is gone is told so, and no version is given twice.
    for bed in [&first, &second] {
        let mut position = bed.store.position();
        let recovered = position.wait_for(|position| position.counter > served);
        tokio::time::timeout(Duration::from_secs(30), recovered)
            .await
            .unwrap()
            .unwrap();
        assert!(bed.reports.horizon() > served);
        assert!(bed.reports.events_from(served).is_err());
        assert_eq!(bed.reports.snapshot().len(), 1);
    }
    let event = second.create("new", "v").await.unwrap();
    assert_eq!(event.type_, EventType::Added);
    assert!(event.rv() > served);
    settled(&first).await;
    assert_eq!(first.reports.snapshot().len(), 2);
    first.close().await;
    second.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_opens_by_its_options() {
    let cluster = Cluster::direct();
    let options = StoreOptions::on(crate::store::Database::Postgres(cluster.options.clone()));
    let store = Store::open(options).await.unwrap();
    assert!(store.resource(&reports()).is_none());
    store.close().await;
}

/// The schema that a server of the previous release would find: with migrations that it does not
/// know.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_schema_is_accepted_unless_it_says_otherwise() {
    let postgres = pgtest::Postgres::start(pgtest::PostgresOptions::quick())
        .await
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    postgres.params().write(dir.path()).unwrap();
    let options = PostgresOptions::new(dir.path(), "newer");
    let open = async || Postgres::open(&options).await;
    open().await.unwrap().close().await;
    let later = "INSERT INTO reports_server.migrations (version, description, checksum)
                 VALUES (9999, 'later', '')";
    postgres
        .client()
        .await
        .unwrap()
        .batch_execute(later)
        .await
        .unwrap();
    let engine: Arc<dyn Engine> = Arc::new(open().await.unwrap());
    engine.close().await;
    let raise = "UPDATE reports_server.meta SET min_reader = 9999";
    postgres
        .client()
        .await
        .unwrap()
        .batch_execute(raise)
        .await
        .unwrap();
    let error = open().await.err().unwrap();
    assert!(
        matches!(error, crate::store::OpenError::Newer(_)),
        "{error}"
    );
}
