//! The database's disk is full.

use pgtest::{Disk, PostgresOptions};

use super::{all_is_well, scene};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full() {
    let options = PostgresOptions::default()
        .with("max_wal_size", "64MB")
        .on(Disk::Limited { megabytes: 300 });
    let scene = scene(options).await;
    scene.server.fill_disk().unwrap();
    // The last file of the log and the last pages of tables take some more.
    let filling = scene.server.clone();
    let load = tokio::spawn(async move {
        let more = "CREATE TABLE public.filler AS SELECT repeat('x', 1000) FROM generate_series(1, 300000)";
        filling.sql(more).await
    });
    load.await.unwrap().unwrap_err();
    scene.refusals(50).await;
    scene.server.free_disk().unwrap();
    // A log that cannot be written ends the database, and Kubernetes starts it again.
    if scene.server.superuser().await.is_err() {
        scene.server.wait_end().await.unwrap();
        scene.server.start_again().await.unwrap();
    }
    all_is_well(scene).await;
}
