//! Another database takes over that has everything.

use std::sync::Arc;

use pgtest::{Postgres, PostgresOptions, Shutdown};

use super::{CREW, WITHOUT_END, all_is_well};
use crate::support::eventually;
use crate::support::replica::Place;
use crate::support::scene::Scene;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn to_a_synchronous_standby() {
    let primary = Arc::new(Postgres::start(PostgresOptions::default()).await.unwrap());
    let standby = Arc::new(Postgres::standby_of(&primary).await.unwrap());
    primary.set("synchronous_standby_names", "*").await.unwrap();
    eventually("the standby is synchronous", async || {
        let client = primary.superuser().await.unwrap();
        let sync = "SELECT FROM pg_stat_replication WHERE sync_state = 'sync'";
        !client.query(sync, &[]).await.unwrap().is_empty()
    })
    .await;
    let places = vec![Place::at(&primary), Place::at(&primary)];
    let mut scene = Scene::begin(&primary, places, CREW, WITHOUT_END).await;
    scene.progress(50).await;
    primary.stop(Shutdown::Immediate).await.unwrap();
    // The address leads to the standby before it has taken over.
    for place in &scene.places {
        place.proxy.retarget(standby.port());
        place.proxy.cut();
    }
    scene.refusals(20).await;
    standby.set("synchronous_standby_names", "").await.unwrap();
    standby.promote().await.unwrap();
    scene.moved_to(&standby);
    scene.progress(50).await;
    // The next one to start finds another timeline than the one that was noted before. The other
    // server has gone on across the failover, and notes that nothing is missing.
    scene.replace(0).await;
    all_is_well(scene).await;
}
