//! The queries and the figures of `docs/sql.md`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crds::control::{MovePhase, move_file};
use futures::{StreamExt as _, stream};
use pgtest::{Postgres, PostgresOptions};
use serde_json::{Value, json};
use storage::store::{Database, MoveOptions};
use tokio_postgres::{Client, SimpleQueryMessage};

use super::bed::{Bed, on_database};
use super::generated::report;
use super::readers::reader;

/// The page, as it is in the repository.
pub struct Manual(String);

impl Manual {
    fn path() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/sql.md")
    }

    pub fn read() -> Self {
        Self(fs::read_to_string(Self::path()).unwrap())
    }

    /// The code blocks in a language.
    pub fn blocks(&self, language: &str) -> Vec<String> {
        let begin = format!("```{language}\n");
        let blocks = self.0.split(&begin).skip(1);
        blocks
            .map(|rest| rest.split("```").next().unwrap().to_owned())
            .collect()
    }
}

/// Rows as texts, NULL as `-`.
async fn rows(client: &Client, query: &str) -> Vec<Vec<String>> {
    let messages = client
        .simple_query(query)
        .await
        .unwrap_or_else(|error| panic!("{query}: {error:?}"));
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    rows.map(|row| {
        (0..row.len())
            .map(|i| row.get(i).unwrap_or("-").to_owned())
            .collect()
    })
    .collect()
}

/// Policies 1 (low) and 3 (high) for 20 reports of 5 namespaces: every report fails 3, and every
/// other one 1 as well. Some were made two days ago.
async fn fill(bed: &Bed) {
    let now = jiff::Timestamp::now().as_second();
    for i in 0..20_u8 {
        let seconds = if i < 5 { now - 2 * 86_400 } else { now };
        let object = report(0, &format!("r{i:02}"), &[(1, i % 2), (3, 1)], seconds);
        bed.put(0, object).await;
    }
    bed.put(1, report(1, "node", &[(4, 1)], now)).await;
}

/// Those that were moved into the database have numbers below all others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_begin_with_reports_that_have_moved() {
    let server = Arc::new(Postgres::start(PostgresOptions::quick()).await.unwrap());
    let directory = tempfile::tempdir().unwrap();
    let orders = directory.path().join("orders");
    let options = MoveOptions {
        interval: Duration::from_millis(10),
        ..MoveOptions::new(directory.path().join("reports.db"), &orders)
    };
    let store = on_database(Database::Movable(options)).await;
    let bed = Bed { server, store };
    bed.open_gates().await;
    fill(&bed).await;
    bed.server.params().write(&orders).unwrap();
    fs::write(orders.join(move_file::CLUSTER_IDENTITY), "kind").unwrap();
    let moved = async {
        let phase = || bed.store.database().move_.map(|state| state.phase);
        while phase() != Some(MovePhase::Moved) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let moved = tokio::time::timeout(Duration::from_mins(1), moved).await;
    assert!(moved.is_ok(), "{:?}", bed.store.database());
    let manual = Manual::read();
    for statements in manual.blocks("sql administrator") {
        bed.server.sql(&statements).await.unwrap();
    }
    let queries = manual.blocks("sql");
    let page = queries.iter().find(|query| query.contains("> ("));
    let client = reader(&bed.server).await;
    let first = rows(&client, page.unwrap()).await;
    assert_eq!(first.len(), 20);
    assert!(first.iter().all(|row| row[0].starts_with('-')), "{first:?}");
    bed.store.close().await;
}

#[tokio::test]
async fn the_queries_work() {
    let bed = Bed::open().await;
    let manual = Manual::read();
    for statements in manual.blocks("sql administrator") {
        bed.server.sql(&statements).await.unwrap();
    }
    fill(&bed).await;
    let client = reader(&bed.server).await;
    let queries = manual.blocks("sql");
    assert_eq!(queries.len(), 10);
    let mut answers = Vec::new();
    for query in &queries {
        let answer = rows(&client, query).await;
        assert!(!answer.is_empty(), "no row: {query}");
        answers.push(answer);
    }
    // 1: what fails with severity high or worse.
    assert_eq!(answers[0].len(), 21);
    assert!(
        answers[0]
            .iter()
            .all(|row| row.contains(&"kind-name".to_owned()))
    );
    // 2: policies by failures.
    assert_eq!(
        answers[1][0][1..],
        ["policy-03".to_owned(), "20".to_owned()]
    );
    assert_eq!(
        answers[1][1][1..],
        ["policy-01".to_owned(), "10".to_owned()]
    );
    // 3: namespaces by failures.
    let total: u32 = answers[2]
        .iter()
        .map(|row| row[2].parse::<u32>().unwrap())
        .sum();
    assert_eq!(total, 30);
    // 4: policies × namespaces.
    assert_eq!(answers[3].len(), 10);
    bed.store.close().await;
}

/// Reports in the measurement, unless `FIGURES_REPORTS` says otherwise.
const REPORTS: usize = 50_000;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes; writes the figures into docs/sql.md with UPDATE_FIGURES=1"]
async fn figures() {
    let count = std::env::var("FIGURES_REPORTS").map_or(REPORTS, |n| n.parse().unwrap());
    let bed = Bed::open().await;
    stream::iter(0..count)
        .for_each_concurrent(256, |i| bed.put(0, measured(i)))
        .await;
    let client = bed.server.superuser().await.unwrap();
    client
        .batch_execute(
            "CREATE TABLE peer AS
                 SELECT o.namespace, o.name, replace(reports_server.report_text_v1(f.text, o.leaves), '\\u0000', '')::jsonb
                     AS report
                 FROM reports_server.objects o
                 JOIN reports_server.frames f ON f.cluster = o.cluster AND f.id = o.frame;
             ANALYZE",
        )
        .await
        .unwrap();
    let mut table = String::from(
        "| Question | These views, ms | jsonb scan, ms | Ratio |\n|---|---|---|---|\n",
    );
    for (name, ours, peer) in QUESTIONS {
        let (ours, peer) = (median(&client, ours).await, median(&client, peer).await);
        writeln!(
            table,
            "| {name} | {ours:.1} | {peer:.0} | {:.0} |",
            peer / ours
        )
        .unwrap();
    }
    println!("{count} reports of 14 results\n{table}");
    if std::env::var_os("UPDATE_FIGURES").is_some() {
        let page = Manual::read().0;
        let (before, rest) = page.split_once("<!-- figures -->\n").unwrap();
        let (_, after) = rest.split_once("<!-- end of figures -->").unwrap();
        let page = format!(
            "{before}<!-- figures -->\n{count} reports of 14 results, median of 5.\n\n\
             {table}<!-- end of figures -->{after}"
        );
        fs::write(Manual::path(), page).unwrap();
    }
    bed.store.close().await;
}

/// Reports of 100 namespaces, each with about 40 kinds of workloads that differ in what they fail.
fn measured(i: usize) -> Value {
    let workload = i % 4000;
    let results: Vec<_> = (0..14_u8)
        .map(|policy| {
            let chance = (workload * 7919 + usize::from(policy) * 104_729) % 23;
            (policy, u8::from(chance < 4))
        })
        .collect();
    let mut object = report(0, &format!("report-{i:06}"), &results, 1_795_236_164);
    object["metadata"]["namespace"] = json!(format!("team-{:02}", i % 100));
    object
}

const QUESTIONS: [(&str, &str, &str); 5] = [
    (
        "A page of 500 failures of severity high, with messages",
        "SELECT cluster_name, namespace, name, policy, rule, subject_name, message
         FROM reports.findings WHERE result = 'fail' AND severity = 'high' LIMIT 500",
        "SELECT p.namespace, p.name, r ->> 'policy', r ->> 'rule', r ->> 'message'
         FROM peer p, jsonb_array_elements(p.report -> 'results') r
         WHERE r ->> 'result' = 'fail' AND r ->> 'severity' = 'high'
         ORDER BY 1, 2 LIMIT 500",
    ),
    (
        "Number of failures of severity high",
        "SELECT sum(results) FROM reports.summary WHERE result = 'fail' AND severity = 'high'",
        "SELECT count(*) FROM peer p, jsonb_array_elements(p.report -> 'results') r
         WHERE r ->> 'result' = 'fail' AND r ->> 'severity' = 'high'",
    ),
    (
        "Counts by policy and namespace",
        "SELECT namespace, policy, result, results FROM reports.summary",
        "SELECT p.namespace, r ->> 'policy', r ->> 'result', count(*)
         FROM peer p, jsonb_array_elements(p.report -> 'results') r GROUP BY 1, 2, 3",
    ),
    (
        "Counts by policy",
        "SELECT policy, pass, fail FROM reports.summary_by_policy",
        "SELECT r ->> 'policy', r ->> 'result', count(*)
         FROM peer p, jsonb_array_elements(p.report -> 'results') r GROUP BY 1, 2",
    ),
    (
        "Counts by namespace",
        "SELECT namespace, pass, fail FROM reports.summary_by_namespace",
        "SELECT p.namespace, r ->> 'result', count(*)
         FROM peer p, jsonb_array_elements(p.report -> 'results') r GROUP BY 1, 2",
    ),
];

/// Milliseconds that a query takes.
async fn median(client: &Client, query: &str) -> f64 {
    let mut times = Vec::new();
    for _ in 0..5 {
        let start = Instant::now();
        assert!(!rows(client, query).await.is_empty(), "no row: {query}");
        times.push(start.elapsed().as_secs_f64() * 1000.0);
    }
    times.sort_by(f64::total_cmp);
    times[2]
}
