//! The database is stopped, killed, paused, slow, full of connections, or read-only.

use std::time::Duration;

use pgtest::{PostgresOptions, Shutdown};

use super::{all_is_well, scene};

/// Long enough for several attempts.
const A_WHILE: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_and_killed() {
    let scene = scene(PostgresOptions::default()).await;
    for how in [Some(Shutdown::Fast), Some(Shutdown::Immediate), None] {
        match how {
            Some(how) => scene.server.stop(how).await.unwrap(),
            None => scene.server.kill().await.unwrap(),
        }
        scene.refusals(50).await;
        scene.server.start_again().await.unwrap();
        scene.progress(20).await;
    }
    all_is_well(scene).await;
}

/// Statements that are under way go on when the database does, after everybody has given them up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paused() {
    let scene = scene(PostgresOptions::default()).await;
    // Shorter than servers wait.
    scene.server.pause().unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    scene.server.resume().unwrap();
    scene.progress(20).await;
    // Until they have given up.
    scene.server.pause().unwrap();
    scene.refusals(1).await;
    scene.server.resume().unwrap();
    all_is_well(scene).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow() {
    let scene = scene(PostgresOptions::default()).await;
    // Each way. Opening a connection takes six times both ways.
    for place in &scene.places {
        place.proxy.delay(Duration::from_millis(100));
    }
    scene.desk.take_slowest();
    scene.progress(50).await;
    let slowest = scene.desk.take_slowest();
    assert!(slowest > Duration::from_millis(200), "{slowest:?}");
    assert_eq!(scene.desk.refused(), 0);
    for place in &scene.places {
        place.proxy.delay(Duration::ZERO);
    }
    all_is_well(scene).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn out_of_connections() {
    let scene = scene(PostgresOptions::default().with("max_connections", 30)).await;
    let held = loop {
        let held = scene.server.exhaust_connections().await.unwrap();
        // Servers that lose theirs now do not get them again, unless they are quicker.
        for place in &scene.places {
            place.proxy.cut();
        }
        let more = scene.server.exhaust_connections().await.unwrap();
        if held.count() + more.count() >= 20 {
            break (held, more);
        }
    };
    let before = scene.desk.refused();
    tokio::time::sleep(A_WHILE).await;
    println!("{} writes were refused", scene.desk.refused() - before);
    drop(held);
    all_is_well(scene).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_only() {
    let scene = scene(PostgresOptions::default()).await;
    scene.server.set_read_only(true).await.unwrap();
    // Sessions that are open, and then new ones.
    scene.refusals(50).await;
    scene.server.terminate_connections().await.unwrap();
    scene.refusals(50).await;
    scene.server.set_read_only(false).await.unwrap();
    scene.progress(20).await;
    // As after a failover behind the same address, with connections that stay.
    scene.server.demote().await.unwrap();
    scene.refusals(50).await;
    scene.server.promote().await.unwrap();
    all_is_well(scene).await;
}
