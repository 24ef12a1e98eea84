//! Somebody keeps a transaction open for long.

use std::time::{Duration, Instant};

use pgtest::PostgresOptions;

use super::{all_is_well, scene};

/// Time for which the analyst thinks.
const FOR: Duration = Duration::from_secs(12);

/// Neither writes nor the log's compaction wait for a transaction that reads everything and does
/// not end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_transaction() {
    let scene = scene(PostgresOptions::default()).await;
    let rate = async || {
        let began = (Instant::now(), scene.desk.ledger.acknowledged());
        tokio::time::sleep(FOR / 4).await;
        let writes = scene.desk.ledger.acknowledged() - began.1;
        f64::from(u32::try_from(writes).unwrap()) / began.0.elapsed().as_secs_f64()
    };
    let before = rate().await;
    let analyst = scene.server.superuser().await.unwrap();
    analyst
        .batch_execute(
            "BEGIN ISOLATION LEVEL REPEATABLE READ;
             SELECT count(*) FROM reports_server.objects;
             SELECT count(*) FROM reports_server.changes",
        )
        .await
        .unwrap();
    scene.desk.take_slowest();
    tokio::time::sleep(FOR / 2).await;
    let during = rate().await;
    let slowest = scene.desk.take_slowest();
    println!("{before:.0} writes a second before, {during:.0} during; slowest {slowest:?}");
    assert!(during > before / 3.0, "{before} {during}");
    assert_eq!(scene.desk.refused(), 0);
    // What was seen at the beginning is still what is seen.
    analyst.batch_execute("COMMIT").await.unwrap();
    all_is_well(scene).await;
}
