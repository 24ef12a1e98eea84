//! Ephemeral reports, which are gone before anybody asks for them in SQL.

use tokio_postgres::Client;

use super::bed::{Bed, EPHEMERAL};
use super::generated::report;

/// The tables of projections.
const TABLES: [&str; 6] = [
    "checks",
    "tallies",
    "summaries",
    "reported",
    "findings",
    "messages",
];

/// The views that name reports.
const VIEWS: [&str; 3] = ["findings", "policy_reports", "results"];

async fn count(client: &Client, query: &str) -> i64 {
    client.query_one(query, &[]).await.unwrap().get(0)
}

/// The ephemeral reports that a view has.
async fn names(client: &Client, view: &str) -> Vec<String> {
    let query = format!(
        "SELECT DISTINCT name FROM reports.{view} WHERE kind = 'EphemeralReport' ORDER BY name"
    );
    let rows = client.query(&query, &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// The number of ephemeral reports in the summaries.
async fn summarized(client: &Client) -> i64 {
    let query = "SELECT coalesce(sum(reports), 0)::bigint FROM reports.summary_by_namespace
        WHERE kind = 'EphemeralReport'";
    count(client, query).await
}

#[tokio::test]
async fn nothing_is_written_beside_an_ephemeral_report() {
    let bed = Bed::open().await;
    let client = bed.server.client().await.unwrap();
    for outcome in 0..5 {
        bed.put(EPHEMERAL, report(EPHEMERAL, "r", &[(1, outcome)], 5))
            .await;
    }
    for table in TABLES {
        let query = format!("SELECT count(*) FROM reports_server.{table}");
        assert_eq!(count(&client, &query).await, 0, "{table}");
    }
    for view in VIEWS {
        assert!(names(&client, view).await.is_empty(), "{view}");
    }
    bed.store.close().await;
}

/// Such rows remain true as long as the report stays as it was, and go with it.
#[tokio::test]
async fn what_an_earlier_release_has_written_goes_with_the_report() {
    let bed = Bed::open().await;
    let client = bed.server.client().await.unwrap();
    for name in ["changed", "deleted", "stays"] {
        // Of a kind that is projected, in the place of an ephemeral report, as it was then.
        bed.put(EPHEMERAL, report(0, name, &[(1, 1), (3, 0)], 5))
            .await;
    }
    for view in VIEWS {
        assert_eq!(
            names(&client, view).await,
            ["changed", "deleted", "stays"],
            "{view}"
        );
    }
    assert_eq!(summarized(&client).await, 3);
    let changed = report(EPHEMERAL, "changed", &[(1, 1), (3, 0)], 6);
    bed.put(EPHEMERAL, changed).await;
    bed.delete(EPHEMERAL, &report(EPHEMERAL, "deleted", &[], 6))
        .await;
    for view in VIEWS {
        assert_eq!(names(&client, view).await, ["stays"], "{view}");
    }
    assert_eq!(summarized(&client).await, 1);
    bed.delete(EPHEMERAL, &report(EPHEMERAL, "stays", &[], 6))
        .await;
    for table in ["summaries", "reported", "findings"] {
        let query = format!("SELECT count(*) FROM reports_server.{table}");
        assert_eq!(count(&client, &query).await, 0, "{table}");
    }
    bed.store.close().await;
}
