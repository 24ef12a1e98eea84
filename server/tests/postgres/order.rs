//! Servers commit side by side, and clients that watch them lose nothing: the property on which
//! everything else rests.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pgtest::{Pgbouncer, PgbouncerOptions, Postgres, PostgresOptions};
use rand::RngExt as _;

use crate::sabotage;
use crate::support::PATIENCE;
use crate::support::chaos::{self, Misfortune, Strikes};
use crate::support::replica::Place;
use crate::support::scene::{self, Scene, Verdict};
use crate::support::writers::Crew;

/// Servers on the one database.
const REPLICAS: usize = 3;

/// Everybody writes as fast as they can.
const CREW: Crew = Crew {
    clients: 600,
    keys: 2,
    pace: Duration::ZERO,
};

/// Runs servers, clients and, with a mean pause between them, misfortunes on `server`, until
/// `changes` writes are acknowledged.
async fn run(
    server: &Arc<Postgres>,
    places: Vec<Place>,
    changes: u64,
    misfortunes: Duration,
) -> (Verdict, Strikes) {
    let scene = Scene::begin(server, places, CREW, changes).await;
    let mut strikes = Strikes::new();
    while !scene.desk.is_over() {
        tokio::time::sleep(misfortunes.mul_f64(rand::rng().random_range(0.0..2.0))).await;
        let at = rand::rng().random_range(0..scene.places.len());
        let misfortune = chaos::choose();
        chaos::strike(misfortune, server, &scene.places[at]).await;
        if misfortune == Misfortune::Kill {
            scene.replace(at).await;
        }
        *strikes.entry(misfortune).or_default() += 1;
    }
    let verdict = scene.end(PATIENCE).await;
    println!("{strikes:?}\n{verdict:#?}");
    assert!(verdict.acknowledged >= changes, "too many were refused");
    (verdict, strikes)
}

/// Longer than any client is away: the log is tidied up while they work, and nobody notices.
const HISTORY: Duration = Duration::from_mins(5);

fn places(server: &Postgres) -> Vec<Place> {
    let place = || Place::at(server).keeping(HISTORY);
    (0..REPLICAS).map(|_| place()).collect()
}

/// A server as the tests of order need it. Its processes are killed, its machine is not: what it has
/// written is there afterwards, whether or not it waited for the disk.
async fn server() -> Arc<Postgres> {
    let options = PostgresOptions::default()
        .with("fsync", "off")
        .with("max_wal_size", "2GB");
    Arc::new(Postgres::start(options).await.unwrap())
}

/// Everything that goes wrong often, while three servers write as fast as they can.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_change_is_lost_or_out_of_order() {
    let changes = match std::env::var("ORDER_CHANGES") {
        Ok(changes) => changes.parse().unwrap(),
        Err(_) => 200_000,
    };
    let server = server().await;
    let (verdict, strikes) = run(&server, places(&server), changes, Duration::from_secs(1)).await;
    verdict.assert_clean();
    assert!(strikes.len() >= 5, "{strikes:?}");
    let memory = peak_memory();
    println!("{} MB of memory at most", memory >> 20);
    // What is noted of each write, and what three servers and four readers need besides.
    assert!(memory < (300 << 20) + 100 * changes, "{memory} bytes");
}

/// The most memory that this process had, in bytes.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kilobytes = line.unwrap().split_whitespace().nth(1).unwrap();
    kilobytes.parse::<u64>().unwrap() << 10
}

/// The same through a pooler that gives each transaction another connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_through_a_pooler() {
    let server = server().await;
    let options = PgbouncerOptions {
        // It waits for 15 s by default before it tries again to reach a server that was down.
        settings: vec![("server_login_retry".to_owned(), "1".to_owned())],
        ..PgbouncerOptions::default()
    };
    let pooler = Pgbouncer::start(&server, options).await.unwrap();
    let places: Vec<_> = (0..REPLICAS)
        .map(|_| Place::behind(&pooler.params()))
        .collect();
    let (verdict, _) = run(&server, places, 30_000, Duration::from_millis(300)).await;
    verdict.assert_clean();
}

/// The proof that the tests above can fail: with numbers from a sequence in place of those that
/// the lock keeps in order, clients lose changes at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_lock_changes_are_lost() {
    let server = server().await;
    let places = places(&server);
    let began = Instant::now();
    drop(scene::serve(&places[0]).await);
    sabotage::number_without_the_lock(&server).await;
    let scene = Scene::begin(&server, places, CREW, 20_000).await;
    let over = tokio::time::timeout(Duration::from_secs(30), async {
        while !scene.desk.is_over() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    // Where servers notice that something is wrong they stop, which is no loss yet.
    let _ = over.await;
    let verdict = scene.end(Duration::from_secs(3)).await;
    println!("{verdict:#?}");
    // A client may be lucky, all of them are not.
    let lost: u64 = verdict.readers.iter().map(|(c, _)| c.lost).sum();
    assert!(lost > 0, "nothing was lost in {:?}", began.elapsed());
}
