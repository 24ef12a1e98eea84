//! Objects for a monitoring stack: they find what there is, and name no metric that is not in
//! `docs/monitoring.md`, whose tables other tests hold to the metrics of server and operator.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::monitoring::{ALERTS, DASHBOARD};
use super::{build, children, material, operator, validated, value, yaml};
use crate::certs::{Given, Pair};
use crate::controller::build::{Children, MonitoringKind};
use crate::names::Names;

const DOCS: &str = include_str!("../../../../../docs/monitoring.md");
/// The metric that Prometheus makes itself.
const PROMETHEUS_OWN: &str = "up";

fn everything() -> Children {
    children(
        json!({"monitoring": {"serviceMonitor": true, "prometheusRule": true,
        "grafanaDashboard": true, "labels": {"release": "prometheus",
            "app.kubernetes.io/managed-by": "me"}}}),
    )
}

fn object(children: &Children, kind: MonitoringKind) -> Value {
    let found = children.monitored.iter().find(|object| object.kind == kind);
    value(&found.unwrap().object)
}

/// Returns the names that the tables of metrics in the docs begin with.
fn documented() -> BTreeSet<String> {
    let rows = DOCS.lines().filter_map(|line| line.strip_prefix("| `"));
    let names = rows.filter_map(|row| row.split(['`', '{']).next());
    let metrics = names.filter(|name| name.starts_with("reports_server_"));
    metrics.map(str::to_owned).collect()
}

/// Returns every name of a metric of ours in an expression, without the suffixes of histograms.
fn metrics(expression: &str) -> BTreeSet<String> {
    let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    let words = expression.split(word);
    let ours = words.filter(|word| word.starts_with("reports_server_"));
    let ours = ours.map(|word| word.strip_suffix("_bucket").unwrap_or(word).to_owned());
    ours.collect()
}

#[test]
fn prometheus_finds_the_server_and_trusts_it() {
    let children = everything();
    let monitor = object(&children, MonitoringKind::ServiceMonitor);
    let labels = children.service.metadata.labels.clone().unwrap();
    let selector = monitor["spec"]["selector"]["matchLabels"].clone();
    for (key, wanted) in selector.as_object().unwrap() {
        assert_eq!(labels[key].as_str(), wanted.as_str().unwrap());
    }
    let endpoint = &monitor["spec"]["endpoints"][0];
    let ports = children.service.spec.clone().unwrap().ports.unwrap();
    assert_eq!(endpoint["port"], json!(ports[0].name));
    let authority = &endpoint["tlsConfig"]["ca"]["secret"];
    let secret = &children.serving_cert;
    assert_eq!(authority["name"], json!(secret.metadata.name));
    let key = authority["key"].as_str().unwrap();
    assert!(secret.data.as_ref().unwrap().contains_key(key), "{key}");
    assert_eq!(
        endpoint["tlsConfig"]["serverName"],
        "simple-server.target.svc"
    );
}

#[test]
fn a_monitor_of_the_server() {
    let monitor = object(&everything(), MonitoringKind::ServiceMonitor);
    insta::assert_snapshot!(yaml(&[("service_monitor", monitor)]));
}

#[test]
fn labels_of_the_user_are_added_and_ours_stay() {
    let children = everything();
    for kind in MonitoringKind::ALL {
        let labels = object(&children, kind)["metadata"]["labels"].clone();
        assert_eq!(labels["release"], "prometheus");
        assert_eq!(
            labels["app.kubernetes.io/managed-by"],
            "reports-server-operator"
        );
    }
}

#[test]
fn alerts_are_whole_and_explained() {
    let longest = "a".repeat(40);
    let mut spec = validated(json!({"monitoring": {"prometheusRule": true}}));
    spec.names = Names::new(&longest);
    let children = build(&spec, &material(), &operator());
    let rule = object(&children, MonitoringKind::PrometheusRule);
    let text = rule.to_string();
    assert!(!text.contains('@'), "something is not filled in: {text}");
    let rules = rule["spec"]["groups"][0]["rules"].as_array().unwrap();
    assert_eq!(rules.len(), ALERTS.matches("- alert: ").count());
    assert!(rules.len() > 10, "{text}");
    let known = documented();
    for rule in rules {
        let alert = rule["alert"].as_str().unwrap();
        let row = format!(
            "| `{alert}` | {}",
            rule["labels"]["severity"].as_str().unwrap()
        );
        assert!(DOCS.contains(&row), "docs/monitoring.md lacks: {row}");
        let expression = rule["expr"].as_str().unwrap();
        let named = metrics(expression);
        assert!(
            !named.is_empty() || expression.contains(PROMETHEUS_OWN),
            "{alert}"
        );
        let unknown: Vec<_> = named.difference(&known).collect();
        assert!(unknown.is_empty(), "{alert}: {unknown:?}");
    }
}

/// Returns the expression of an alert.
fn expression(children: &Children, alert: &str) -> String {
    let rule = object(children, MonitoringKind::PrometheusRule);
    let rules = rule["spec"]["groups"][0]["rules"].as_array().unwrap();
    let found = rules.iter().find(|rule| rule["alert"] == alert).unwrap();
    found["expr"].as_str().unwrap().to_owned()
}

#[test]
fn times_of_alerts_follow_the_specification() {
    let expression = |spec: Value, alert: &str| expression(&children(spec), alert);
    let short = json!({"tls": {"operator": {"certValidity": "90m", "renewBefore": "40m"}},
        "monitoring": {"prometheusRule": true, "maxBackupAge": "192h"}});
    let certificate = expression(short.clone(), "ReportsCertificateNotRenewed");
    assert!(certificate.ends_with("< 600"), "{certificate}");
    let backup = expression(short, "ReportsBackupTooOld");
    assert!(backup.ends_with("> 691200"), "{backup}");
    let usual = json!({"monitoring": {"prometheusRule": true}});
    let backup = expression(usual, "ReportsBackupTooOld");
    assert!(backup.ends_with("> 93600"), "{backup}");
}

/// A day's certificate is not late all its life because that of the operator would be.
#[test]
fn a_certificate_of_somebody_else_is_late_by_its_own_times() {
    let mut spec = validated(json!({"monitoring": {"prometheusRule": true}}));
    let at = |hour: i64| Timestamp::from_second(hour * 3600).unwrap();
    spec.certs.serving = Some(Ok(Given {
        pair: Pair {
            cert: "theirs".to_owned(),
            key: "theirs".to_owned(),
        },
        cas: Vec::new(),
        not_before: at(0),
        not_after: at(24),
        due: at(16),
        note: None,
    }));
    let children = build(&spec, &material(), &operator());
    let certificate = expression(&children, "ReportsCertificateNotRenewed");
    assert!(certificate.ends_with("< 7200"), "{certificate}");
}

#[test]
fn the_dashboard_shows_metrics_that_there_are() {
    let children = everything();
    let map = children.dashboard.clone().unwrap();
    assert_eq!(map.metadata.labels.unwrap()["grafana_dashboard"], "1");
    assert_eq!(map.data.unwrap()["reports-server.json"], DASHBOARD);
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let known = documented();
    for panel in panels {
        for target in panel["targets"].as_array().unwrap() {
            let named = metrics(target["expr"].as_str().unwrap());
            assert!(!named.is_empty(), "{panel}");
            let unknown: Vec<_> = named.difference(&known).collect();
            assert!(unknown.is_empty(), "{panel}: {unknown:?}");
        }
    }
}

#[test]
fn nothing_is_made_unless_it_is_asked_for() {
    let none = children(json!({"monitoring": {"serviceMonitor": false}}));
    assert!(none.monitored.is_empty() && none.dashboard.is_none());
    assert_eq!(none.kept().monitored, []);
    let one = children(json!({"monitoring": {"serviceMonitor": true}}));
    assert_eq!(one.kept().monitored, [MonitoringKind::ServiceMonitor]);
    let kept = everything().kept();
    assert_eq!(kept.monitored, MonitoringKind::ALL);
    assert!(
        kept.config_maps
            .contains(&"simple-server-dashboard".to_owned())
    );
}
