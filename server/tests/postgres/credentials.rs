//! Encrypted connections, and passwords and certificates that change while servers work: no server
//! is restarted, and no write is refused.

use std::sync::Arc;
use std::time::Duration;

use pgtest::{Authority, Postgres, PostgresOptions, Tls};

use crate::faults::{CREW, WITHOUT_END, all_is_well};
use crate::support::eventually;
use crate::support::replica::Place;
use crate::support::scene::Scene;

/// With so little history, servers look at their parameters about every second.
const HISTORY: Duration = Duration::from_secs(10);

async fn scene(tls: Tls) -> Scene {
    let options = PostgresOptions::default().with_tls(tls);
    let server = Arc::new(Postgres::start(options).await.unwrap());
    let places = [Place::at(&server), Place::at(&server)].map(|place| place.keeping(HISTORY));
    let scene = Scene::begin(&server, places.into(), CREW, WITHOUT_END).await;
    scene.progress(20).await;
    assert!(
        count(&scene, "NOT ssl").await == 0,
        "a connection is not encrypted"
    );
    scene
}

/// Returns the number of connections over the network that `condition` holds for.
async fn count(scene: &Scene, condition: &str) -> i64 {
    let sql = format!(
        "SELECT count(*) FROM pg_stat_activity JOIN pg_stat_ssl USING (pid)
         WHERE usename = 'reports' AND client_addr IS NOT NULL AND {condition}"
    );
    let client = scene.server.superuser().await.unwrap();
    client.query_one(&sql, &[]).await.unwrap().get(0)
}

/// Returns the time of the database.
async fn now(scene: &Scene) -> String {
    let client = scene.server.superuser().await.unwrap();
    let now = client.query_one("SELECT now()::text", &[]).await.unwrap();
    now.get(0)
}

/// Gives all servers other parameters, as the kubelet does, and waits until they use no connection
/// that was opened with the old ones.
async fn rotate(scene: &Scene, change: impl Fn(pgtest::Params) -> pgtest::Params) {
    let then = now(scene).await;
    for place in &scene.places {
        place.write(&change(scene.server.params()));
    }
    replaced(scene, &then).await;
}

/// Waits until servers use no connection that was opened before `then`.
async fn replaced(scene: &Scene, then: &str) {
    let old = format!("backend_start < '{then}'");
    eventually("connections are replaced", async || {
        count(scene, &old).await == 0
    })
    .await;
    scene.progress(5).await;
    assert_eq!(scene.desk.refused(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_changes() {
    let scene = scene(Tls::Required).await;
    // The Secret follows later than the database; connections that are open are enough until then.
    scene.server.set_password("second").await.unwrap();
    scene.progress(5).await;
    rotate(&scene, |params| params).await;
    // Everybody knows the new one now, also while the Secret is incomplete for a moment.
    for place in &scene.places {
        place.lose("username");
    }
    scene.server.terminate_connections().await.unwrap();
    all_is_well(scene).await;
}

/// Gives all servers parameters that do not work, and waits until each has tried them.
async fn mislead(scene: &Scene, key: &str, value: &str) {
    for place in &scene.places {
        place.write(&scene.server.params().with(key, value));
        let before = place.proxy.accepted();
        eventually("they are tried", async || place.proxy.accepted() > before).await;
    }
    scene.progress(50).await;
    assert_eq!(scene.desk.refused(), 0, "another {key}");
}

/// The kubelet brings a Secret before the database knows what is in it, or brings the half of what
/// changes: the password, while the certificates are of another CA already. Or somebody mistypes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_that_do_not_work_end_no_connection() {
    let scene = scene(Tls::Required).await;
    mislead(&scene, "password", "another").await;
    // They work from now on, without any change of the Secret.
    let then = now(&scene).await;
    scene.server.set_password("another").await.unwrap();
    replaced(&scene, &then).await;
    let next = Authority::new("the next authority").unwrap();
    mislead(&scene, "ca.crt", next.pem()).await;
    rotate(&scene, |params| params).await;
    all_is_well(scene).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_change() {
    let scene = scene(Tls::ClientCertificate).await;
    let next = Authority::new("the next authority").unwrap();
    let old = scene.server.authority().unwrap();
    // Both sides trust both authorities, then certificates change, then one is enough.
    let authorities = [old, &next];
    scene
        .server
        .set_client_authorities(&authorities)
        .await
        .unwrap();
    let both = format!("{}{}", old.pem(), next.pem());
    rotate(&scene, |params| params.with("ca.crt", &both)).await;
    let own = next.server(&["127.0.0.1"]).unwrap();
    scene.server.set_certificate(&own).await.unwrap();
    let client = next.client("reports").unwrap();
    rotate(&scene, |params| {
        params
            .with("ca.crt", next.pem())
            .with("tls.crt", client.certificate.as_str())
            .with("tls.key", client.key.as_str())
    })
    .await;
    scene.server.set_client_authorities(&[&next]).await.unwrap();
    scene.server.terminate_connections().await.unwrap();
    all_is_well(scene).await;
}
