//! One server is cut off from the database.

use std::time::Duration;

use pgtest::PostgresOptions;

use super::{all_is_well, scene};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_of_one_server() {
    let scene = scene(PostgresOptions::default()).await;
    scene.places[0].proxy.black_hole();
    scene.refusals(5).await;
    // The others go on meanwhile, and do not wait for what the lost one has begun.
    scene.desk.take_slowest();
    scene.progress_at(&[1], 200).await;
    // What the partition held back arrives late, when its connections have been given up.
    tokio::time::sleep(Duration::from_secs(4)).await;
    scene.places[0].proxy.release();
    scene.progress(20).await;
    // And once more, with an end of all connections on one side only.
    scene.places[0].proxy.black_hole();
    scene.refusals(5).await;
    scene.places[0].proxy.cut();
    scene.places[0].proxy.release();
    all_is_well(scene).await;
}
