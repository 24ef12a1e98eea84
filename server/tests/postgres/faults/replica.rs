//! A server dies with a write that is committed, and not answered.

use std::time::Duration;

use pgtest::{Direction, PostgresOptions};

use super::scene;
use crate::support::scene::Scene;
use crate::support::{PATIENCE, log};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_between_commit_and_answer() {
    let scene = scene(PostgresOptions::default()).await;
    for _ in 0..5 {
        // The other one does not write meanwhile, so that what is new is this one's.
        scene.kill(1).await;
        // The answer to a read may be held back before a write is sent; then once more.
        while !commits_unheard(&scene).await {
            scene.places[0].proxy.release();
            scene.progress_at(&[0], 1).await;
        }
        scene.kill(0).await;
        scene.places[0].proxy.cut();
        scene.places[0].proxy.release();
        scene.start(1).await;
        scene.start(0).await;
        scene.progress(10).await;
    }
    let verdict = scene.end(PATIENCE).await;
    verdict.assert_clean();
    for (comparison, _) in &verdict.readers {
        assert!(comparison.made_unheard >= 5, "{verdict:#?}");
    }
}

/// Withholds the answers of the first server; tells whether it has committed something since.
async fn commits_unheard(scene: &Scene) -> bool {
    scene.places[0].proxy.hold(Direction::ToClient);
    for _ in 0..30 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        if log::newest_version(&scene.server).await > scene.desk.ledger.newest() {
            return true;
        }
    }
    false
}
