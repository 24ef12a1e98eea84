//! Metrics as text.

use crds::v1alpha1::reasons::WRONG_PASSWORD;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use traces::ExportMetrics;

use super::*;
use crate::database::files::Problem;
use crate::database::known::Known;

fn ready(status: &str) -> Condition {
    Condition {
        type_: "Ready".into(),
        status: status.into(),
        reason: "Serving".into(),
        message: String::new(),
        observed_generation: None,
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
    }
}

/// An operator that waits for its turn contradicts none that leads.
#[test]
fn one_that_has_not_led_says_nothing_of_any_reports_server() {
    let text = Metrics::new().encode().unwrap();
    for label in ["name=", "group="] {
        assert!(!text.contains(label), "{text}");
    }
    assert!(text.contains("reports_server_operator_leading 0"), "{text}");
}

/// Every metric, by the line that explains it, is a row of the docs.
#[test]
fn every_metric_is_in_the_docs() {
    let docs = include_str!("../../../docs/monitoring.md");
    let table = docs.split("\n## Metrics of the operator\n").nth(1).unwrap();
    let table = table.split("\n## ").next().unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    let mut documented: Vec<&str> = rows
        .filter_map(|row| row.split(['`', '{']).next())
        .map(|name| name.strip_suffix("_total").unwrap_or(name))
        .map(|name| name.strip_suffix("_info").unwrap_or(name))
        .collect();
    let metrics = Metrics::new();
    metrics.failed("database");
    metrics.observe("a", &[ready("True")], Some(1));
    metrics.backed_up("a", 1);
    metrics.served_with(CertificateSource::Operator, Some((1, 2)));
    metrics.migration.set_all();
    let known = Known {
        bytes: Some(1),
        ..Known::problem(Problem::new(WRONG_PASSWORD, "m"), None)
    };
    metrics.database.observe("a", &known);
    metrics.database.examined("a", WRONG_PASSWORD);
    metrics.register(|registry| ExportMetrics::default().register(registry));
    let text = metrics.encode().unwrap();
    let mut registered: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# HELP "))
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert!(registered.len() > 10, "{text}");
    documented.sort_unstable();
    registered.sort_unstable();
    assert_eq!(documented, registered);
}

#[test]
fn text_has_conditions_until_they_are_forgotten() {
    let metrics = Metrics::new();
    drop(metrics.measure());
    metrics.failed("apply");
    metrics.observe("a", &[ready("True")], Some(1_800_000_000));
    metrics.backed_up("a", 1_700_000_000);
    let text = metrics.encode().unwrap();
    for line in [
        "reports_server_operator_reconciles_total 1",
        "reports_server_operator_reconcile_duration_seconds_count 1",
        "reports_server_operator_reconcile_errors_total{category=\"apply\"} 1",
        "reports_server_operator_condition{name=\"a\",condition=\"Ready\"} 1",
        "reports_server_operator_condition{name=\"a\",condition=\"Stalled\"} 0",
        "reports_server_operator_condition{name=\"a\",condition=\"AdmissionBypassed\"} 0",
        "reports_server_operator_certificate_expiry_timestamp_seconds{name=\"a\"} 1800000000",
        "reports_server_operator_last_backup_timestamp_seconds{name=\"a\"} 1700000000",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
    }
    assert!(
        !text.contains("LastBackupSucceeded"),
        "nobody asked for backups"
    );
    assert!(!text.contains("MonitoringReady"), "nor for monitors");
    metrics.not_backed_up("a");
    let text = metrics.encode().unwrap();
    assert!(!text.contains("last_backup_timestamp_seconds{"), "{text}");
    metrics.forget("a");
    assert!(!metrics.encode().unwrap().contains("name=\"a\""));
}

#[test]
fn one_certificate_of_the_metrics_is_shown_and_none_in_plain() {
    let metrics = Metrics::new();
    let shown = || {
        let text = metrics.encode().unwrap();
        let prefix = "reports_server_operator_metrics_certificate_";
        let lines = text.lines().filter_map(|line| line.strip_prefix(prefix));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(shown().is_empty());
    for (source, label) in [
        (CertificateSource::Operator, "operator"),
        (CertificateSource::Files, "files"),
    ] {
        metrics.served_with(source, Some((1, 2)));
        let begin = format!("not_before_timestamp_seconds{{source=\"{label}\"}} 1");
        let end = format!("expiry_timestamp_seconds{{source=\"{label}\"}} 2");
        assert_eq!(shown(), [begin, end]);
    }
    metrics.served_with(CertificateSource::Files, None);
    assert!(shown().is_empty());
}
