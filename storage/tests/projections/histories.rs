//! Whatever happens to reports, the projections say what a full computation from their bodies says.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crds::control::{ImportMode, ImportType};
use pgtest::{Postgres, PostgresOptions};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use super::bed::{Bed, KINDS};
use super::generated::report;

#[derive(Clone, Debug)]
enum Step {
    Put(usize, u8, Vec<(u8, u8)>, i64),
    /// Several at once, so that they share a batch.
    Burst(usize, Vec<(u8, u8)>),
    Delete(usize, u8),
}

fn results() -> impl Strategy<Value = Vec<(u8, u8)>> {
    prop::collection::vec((0..9_u8, 0..5_u8), 0..7)
}

fn step() -> impl Strategy<Value = Step> {
    let kind = 0..KINDS.len();
    prop_oneof![
        6 => (kind.clone(), 0..8_u8, results(), 0..1000_i64)
            .prop_map(|(kind, name, results, at)| Step::Put(kind, name, results, at)),
        2 => (kind.clone(), results()).prop_map(|(kind, results)| Step::Burst(kind, results)),
        3 => (kind, 0..8_u8).prop_map(|(kind, name)| Step::Delete(kind, name)),
    ]
}

fn named(kind: usize, name: u8, results: &[(u8, u8)], at: i64) -> Value {
    report(kind, &format!("r{name}"), results, at)
}

#[test]
fn projections_follow_the_reports() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime
        .block_on(Postgres::start(PostgresOptions::quick()))
        .unwrap();
    let server = Arc::new(server);
    let clusters = AtomicU32::new(0);
    let config = Config {
        cases: 12,
        failure_persistence: None,
        ..Config::default()
    };
    let import = || prop::collection::vec((any::<bool>(), 0..8_u8, results()), 0..12);
    let steps = prop::collection::vec(step(), 1..30);
    TestRunner::new(config)
        .run(&(import(), any::<bool>(), import(), steps), |case| {
            let identity = format!("cluster {}", clusters.fetch_add(1, Ordering::Relaxed));
            runtime.block_on(run(Arc::clone(&server), &identity, case));
            Ok(())
        })
        .unwrap();
}

type Import = Vec<(bool, u8, Vec<(u8, u8)>)>;

async fn run(
    server: Arc<Postgres>,
    identity: &str,
    (first, reset, second, steps): (Import, bool, Import, Vec<Step>),
) {
    let bed = Bed::on(server, identity).await;
    let mut rv = 1000;
    import(&bed, ImportMode::Mirror, first, &mut rv).await;
    check(&bed, identity).await;
    let mode = if reset {
        ImportMode::Reset
    } else {
        ImportMode::Mirror
    };
    import(&bed, mode, second, &mut rv).await;
    check(&bed, identity).await;
    bed.open_gates().await;
    for step in steps {
        match step {
            Step::Put(kind, name, results, at) => {
                bed.put(kind, named(kind, name, &results, at)).await;
            }
            Step::Burst(kind, results) => {
                let puts = (0..8).map(|name| bed.put(kind, named(kind, name, &results, 5)));
                futures::future::join_all(puts).await;
            }
            Step::Delete(kind, name) => bed.delete(kind, &named(kind, name, &[], 0)).await,
        }
    }
    check(&bed, identity).await;
    for (kind, name) in (0..KINDS.len()).flat_map(|kind| (0..8).map(move |name| (kind, name))) {
        bed.delete(kind, &named(kind, name, &[], 0)).await;
    }
    check(&bed, identity).await;
    nothing_is_left(&bed, identity).await;
    bed.store.close().await;
}

/// Mirrors some objects and deletions into the first kind.
async fn import(bed: &Bed, mode: ImportMode, items: Import, rv: &mut u32) {
    let items = items
        .into_iter()
        .map(|(deleted, name, results)| {
            *rv += 1;
            let mut object = named(0, name, &results, 7);
            object["metadata"]["resourceVersion"] = json!(rv.to_string());
            let type_ = if deleted {
                ImportType::Deleted
            } else {
                ImportType::Modified
            };
            (type_, object)
        })
        .collect();
    bed.import(0, mode, items).await;
}

/// Compares the views with what the reports say.
async fn check(bed: &Bed, identity: &str) {
    let mut want = Expected::default();
    let client = bed.server.client().await.unwrap();
    let rows = client
        .query(
            "SELECT r.kind, reports_server.report_text_v1(f.text, o.leaves)
             FROM reports_server.objects o
             JOIN reports_server.frames f ON f.cluster = o.cluster AND f.id = o.frame
             JOIN reports_server.resources r ON r.id = o.resource_id
             JOIN reports_server.clusters c ON c.cluster = o.cluster
             WHERE c.identity = $1 AND r.api_group NOT IN ('example.io', 'reports.kyverno.io')",
            &[&identity],
        )
        .await
        .unwrap();
    for row in &rows {
        want.add(row.get(0), &serde_json::from_str(row.get(1)).unwrap());
    }
    want.findings.sort();
    let rows = client
        .query(
            "SELECT to_jsonb(x)::text FROM (SELECT kind, namespace, name, source, policy, rule, category,
                 severity, result, subject_kind, subject_namespace, subject_name, message
             FROM reports.findings WHERE cluster = $1) x",
            &[&identity],
        )
        .await
        .unwrap();
    let mut found: Vec<String> = rows.iter().map(|r| spaced(r.get(0))).collect();
    found.sort();
    assert_eq!(found, want.findings);

    let rows = client
        .query(
            "SELECT jsonb_build_array(kind, namespace, policy, severity, result)::text, results
             FROM reports.summary WHERE cluster = $1",
            &[&identity],
        )
        .await
        .unwrap();
    let counts: BTreeMap<String, i64> = rows.iter().map(|r| (spaced(r.get(0)), r.get(1))).collect();
    assert_eq!(counts, want.counts);

    let rows = client
        .query(
            "SELECT jsonb_build_array(kind, namespace)::text,
                 ARRAY[reports, pass, fail, warn, error, skip]
             FROM reports.summary_by_namespace WHERE cluster = $1",
            &[&identity],
        )
        .await
        .unwrap();
    let totals: BTreeMap<String, Vec<i64>> =
        rows.iter().map(|r| (spaced(r.get(0)), r.get(1))).collect();
    assert_eq!(totals, want.totals);
}

/// PostgreSQL's JSON text as `serde_json` writes it.
fn spaced(text: &str) -> String {
    serde_json::from_str::<Value>(text).unwrap().to_string()
}

#[derive(Default)]
struct Expected {
    findings: Vec<String>,
    counts: BTreeMap<String, i64>,
    /// Reports, then results by outcome.
    totals: BTreeMap<String, Vec<i64>>,
}

impl Expected {
    fn add(&mut self, kind: &str, report: &Value) {
        let metadata = &report["metadata"];
        let scope = report.get("scope").unwrap_or(&report["spec"]["owner"]);
        let results = report.get("results").unwrap_or(&report["spec"]["results"]);
        let namespace = &metadata["namespace"];
        let totals = self.totals.entry(json!([kind, namespace]).to_string());
        let totals = totals.or_insert_with(|| vec![0; 6]);
        totals[0] += 1;
        for result in results.as_array().unwrap() {
            let outcome = result["result"].as_str().unwrap();
            let outcomes = ["pass", "fail", "warn", "error", "skip"];
            totals[1 + outcomes.iter().position(|o| *o == outcome).unwrap()] += 1;
            let count = json!([
                kind,
                namespace,
                result["policy"],
                result["severity"],
                outcome
            ]);
            *self.counts.entry(count.to_string()).or_default() += 1;
            if outcome == "pass" {
                continue;
            }
            let subject = result
                .get("resources")
                .map_or(scope, |subjects| &subjects[0]);
            let message = result["message"]
                .as_str()
                .unwrap()
                .replace('\0', "\u{fffd}");
            let finding = json!({"kind": kind, "namespace": namespace, "name": metadata["name"],
                "source": result["source"], "policy": result["policy"], "rule": result["rule"],
                "category": result["category"], "severity": result["severity"],
                "result": outcome, "subject_kind": subject["kind"],
                "subject_namespace": subject["namespace"], "subject_name": subject["name"],
                "message": message});
            self.findings.push(finding.to_string());
        }
    }
}

/// No row of the tables is left of reports that are gone.
async fn nothing_is_left(bed: &Bed, identity: &str) {
    let client = bed.server.client().await.unwrap();
    for table in ["findings", "reported", "summaries"] {
        let row = client
            .query_one(
                &format!(
                    "SELECT count(*) FROM reports_server.{table} t
                     JOIN reports_server.clusters c USING (cluster)
                     LEFT JOIN reports_server.dropped_resources d
                         ON to_jsonb(t) ->> 'resource_id' = d.id::text
                     LEFT JOIN reports_server.objects o ON o.cluster = t.cluster
                         AND to_jsonb(t) ->> 'report' = o.report::text
                     WHERE c.identity = $1 AND d.id IS NULL AND o.report IS NULL"
                ),
                &[&identity],
            )
            .await
            .unwrap();
        assert_eq!(row.get::<_, i64>(0), 0, "{table}");
    }
}
