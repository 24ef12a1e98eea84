//! The content of the database, read past the servers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pgtest::Postgres;
use tokio::sync::watch;
use tokio_postgres::Client;

use super::watcher::{End, Seen};

const PAUSE: Duration = Duration::from_millis(1);
const PAGE: i64 = 5000;
/// Changes behind a place. The order is that of the log itself; a reader that has seen a place
/// never looks before it again.
const TAIL: &str =
    "SELECT seq, rv, replace(text, E'\\x01', '0')::json #>> '{metadata,labels,id}' AS id
    FROM reports_server.changes JOIN reports_server.frames USING (cluster)
    WHERE cluster = 1 AND id = frame AND seq > $1 ORDER BY seq LIMIT $2";

/// The newest commit.
pub async fn newest_seq(server: &Postgres) -> i64 {
    let sql = "SELECT max(seq) FROM reports_server.commits";
    let client = server.superuser().await.unwrap();
    client.query_one(sql, &[]).await.unwrap().get(0)
}

/// Reads the log as it grows behind `seq`, until the end.
pub async fn read(
    server: watch::Receiver<Arc<Postgres>>,
    end: End,
    mut seq: i64,
    mut seen: Seen,
) -> Seen {
    while !end.is_reached(&seen) {
        let current = Arc::clone(&server.borrow());
        if let Ok(client) = current.superuser().await {
            // Fails when the database restarts.
            let _ = follow(&client, &end, &mut seen, &mut seq).await;
            seen.resumed += 1;
        }
        tokio::time::sleep(PAUSE).await;
    }
    seen
}

async fn follow(
    client: &Client,
    end: &End,
    seen: &mut Seen,
    place: &mut i64,
) -> Result<(), tokio_postgres::Error> {
    while !end.is_reached(seen) {
        let rows = client.query(TAIL, &[place, &PAGE]).await?;
        for row in &rows {
            let id: &str = row.get("id");
            *place = row.get("seq");
            seen.note(id.parse().unwrap(), row.get::<_, i64>("rv").cast_unsigned());
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// The version of the newest change.
pub async fn newest_version(server: &Postgres) -> u64 {
    let sql = "SELECT max(rv) FROM reports_server.changes";
    let client = server.superuser().await.unwrap();
    let rv: i64 = client.query_one(sql, &[]).await.unwrap().get(0);
    rv.cast_unsigned()
}

/// Name and version of each object.
pub async fn objects(server: &Postgres) -> BTreeSet<(String, u64)> {
    let sql = "SELECT name, rv FROM reports_server.objects";
    let client = server.superuser().await.unwrap();
    let rows = client.query(sql, &[]).await.unwrap();
    rows.iter()
        .map(|row| (row.get(0), row.get::<_, i64>(1).cast_unsigned()))
        .collect()
}
