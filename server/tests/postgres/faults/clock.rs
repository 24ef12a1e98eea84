//! The database's clock is set back.

use std::sync::Arc;
use std::time::Duration;

use pgtest::{Postgres, PostgresOptions};

use super::{CREW, WITHOUT_END, all_is_well};
use crate::support::eventually;
use crate::support::replica::Place;
use crate::support::scene::Scene;

const AN_HOUR: i64 = 3600;
/// Time for which changes are kept; old ones are looked for every second.
const HISTORY: Duration = Duration::from_secs(10);

/// New changes stay new: history is as long as before, and order does not come from clocks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn set_back() {
    let options = PostgresOptions::default().with_own_clock();
    let server = Arc::new(Postgres::start(options).await.unwrap());
    let places = [Place::at(&server), Place::at(&server)].map(|place| place.keeping(HISTORY));
    let scene = Scene::begin(&server, places.into(), CREW, WITHOUT_END).await;
    scene.progress(20).await;
    let now = "SELECT extract(epoch FROM clock_timestamp())::float8";
    let client = server.superuser().await.unwrap();
    let before: f64 = client.query_one(now, &[]).await.unwrap().get(0);
    server.step_clock(-AN_HOUR).unwrap();
    eventually("the clock is set back", async || {
        let after: f64 = client.query_one(now, &[]).await.unwrap().get(0);
        after < before - 3000.0
    })
    .await;
    scene.progress(20).await;
    let resource = scene.slots[0].read().await.as_ref().unwrap().resource();
    let position = resource.current_rv();
    // Several rounds of compaction.
    tokio::time::sleep(HISTORY / 2).await;
    let mut cursor = resource.events_from(position).unwrap();
    assert!(!cursor.next(10).await.unwrap().is_empty());
    all_is_well(scene).await;
}
