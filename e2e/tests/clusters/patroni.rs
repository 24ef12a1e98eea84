//! The pair of PostgreSQL servers that other tests use does what a pair of Patroni does.

use e2e::patroni::Patroni;
use testcluster::{Cluster, ClusterOptions};

use crate::common::full;

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_primary_is_followed_by_its_standby() {
    let cluster = Cluster::start(ClusterOptions::default()).await.unwrap();
    let started = std::time::Instant::now();
    let mut pair = Patroni::start(&cluster).await.unwrap();
    println!("started after {:?}", started.elapsed());
    let first = pair.primary().await.unwrap();
    let write = async |statement: &str| {
        let mut command = cluster.command("psql");
        command.args(["-XAt", &pair.uri(), "-c", statement]);
        let output = command.output().await.unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    write("CREATE TABLE t AS SELECT 1 AS i").await;
    let began = std::time::Instant::now();
    pair.crash_primary().await.unwrap();
    println!("followed after {:?}", began.elapsed());
    assert_ne!(pair.primary().await.unwrap(), first);
    assert_eq!(
        write("INSERT INTO t VALUES (2); SELECT count(*) FROM t").await,
        "INSERT 0 1\n2"
    );
    pair.restored().await.unwrap();
    println!("whole after {:?}", began.elapsed());

    pair.switch_over().await.unwrap();
    pair.restored().await.unwrap();
    assert_eq!(pair.primary().await.unwrap(), first);
    if full() {
        let lost = pair.lose_primary().await.unwrap();
        assert_eq!(lost, first);
        pair.start_again(lost).await.unwrap();
        assert_ne!(pair.primary().await.unwrap(), first);
    }
}
