use std::net::TcpListener;
use std::sync::Arc;

use pgtest::{Postgres, PostgresOptions, Proxy};

use super::{Connector, Readers};

#[tokio::test]
async fn one_in_use_is_waited_for_where_no_other_can_be_had() {
    let server = Postgres::start(PostgresOptions::quick()).await.unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let params = server.params().at_port(proxy.port());
    params.write(directory.path()).unwrap();
    let readers = Readers::new(Arc::new(Connector::new(directory.path(), "readers")), 2);

    let first = readers.get().await.unwrap();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
    proxy.retarget(nobody.unwrap().port());
    let (second, ()) = tokio::join!(readers.get(), async { first.keep() });
    let second = second.unwrap();
    second.query("SELECT 1", &[]).await.unwrap();

    let (third, ()) = tokio::join!(readers.get(), async { drop(second) });
    assert!(third.is_err(), "nobody has a connection any more");
    proxy.retarget(server.port());
    readers.get().await.unwrap();
}
