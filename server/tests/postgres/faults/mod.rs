//! Faults of a database and its servers, one after the other.
//!
//! In each case: no write that was acknowledged is lost, clients that watch see every change once
//! and in order, everybody is answered in time, and all is well again without anybody's hands.

mod analyst;
mod answers;
mod clock;
mod database;
mod disk;
mod failover;
mod network;
mod past;
mod replica;

use std::sync::Arc;
use std::time::Duration;

use pgtest::{Postgres, PostgresOptions};

use crate::support::replica::Place;
use crate::support::scene::Scene;
use crate::support::writers::Crew;

/// Clients that write all the time, and leave the machine to others.
pub const CREW: Crew = Crew {
    clients: 8,
    keys: 3,
    pace: Duration::from_millis(20),
};

/// No client waits longer than this for an answer. Those of the API wait half a minute.
pub const DEADLINE: Duration = Duration::from_secs(25);

/// More than a test writes.
pub const WITHOUT_END: u64 = 400_000;

/// Two servers at work on a database.
pub async fn scene(options: PostgresOptions) -> Scene {
    let server = Arc::new(Postgres::start(options).await.unwrap());
    let places = vec![Place::at(&server), Place::at(&server)];
    let scene = Scene::begin(&server, places, CREW, WITHOUT_END).await;
    scene.progress(20).await;
    scene
}

/// Everybody goes on, and nothing is missing.
pub async fn all_is_well(scene: Scene) {
    scene.progress(20).await;
    let slowest = scene.desk.take_slowest();
    assert!(slowest < DEADLINE, "an answer took {slowest:?}");
    let verdict = scene.end(crate::support::PATIENCE).await;
    verdict.assert_clean();
}
