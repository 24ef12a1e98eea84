//! The number of writes that share a transaction.

use std::sync::Arc;
use std::time::Duration;

use pgtest::{Postgres, PostgresOptions};

use crate::faults::{WITHOUT_END, all_is_well};
use crate::support::replica::Place;
use crate::support::scene::Scene;
use crate::support::writers::Crew;

const CLIENTS: usize = 16;

/// Batches, and writes in them, of the one server.
async fn batches(scene: &Scene) -> (u64, u64) {
    let slot = scene.slots[0].read().await;
    let stats = slot.as_ref().unwrap().store.stats();
    (stats.batches, stats.batched_writes)
}

/// Clients that write again as soon as they are answered do not fall into two halves, of which one
/// waits while the other is committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_a_slow_database_share_every_transaction() {
    let server = Arc::new(Postgres::start(PostgresOptions::quick()).await.unwrap());
    let crew = Crew {
        clients: CLIENTS,
        keys: 2,
        pace: Duration::ZERO,
    };
    let scene = Scene::begin(&server, vec![Place::at(&server)], crew, WITHOUT_END).await;
    // Each way: a commit takes ten milliseconds at least.
    scene.places[0].proxy.delay(Duration::from_millis(5));
    scene.progress(200).await;
    let before = batches(&scene).await;
    scene.progress(2000).await;
    let after = batches(&scene).await;
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    let mean = (after.1 - before.1) as f64 / (after.0 - before.0) as f64;
    println!("{mean:.1} writes of {CLIENTS} clients in a transaction");
    assert!(mean > 11.0, "{mean}");
    all_is_well(scene).await;
}
