//! Objects for a monitoring stack: what finds the server's metrics, alerts on them, and shows them.
//! `docs/monitoring.md` explains each alert and each metric.

use std::collections::BTreeMap;

use crds::v1alpha1::defaults::MAX_BACKUP_AGE;
use crds::v1alpha1::spec::MonitoringSpec;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use super::Validated;
use super::metadata::namespaced;
use crate::certs::CA_CRT;
use crate::names::PORT_NAME;

/// The alerts, with what differs from one `ReportsServer` to another left open.
pub(super) const ALERTS: &str = include_str!("alerts.yaml");
/// The dashboard, which is the same for every `ReportsServer`.
pub(super) const DASHBOARD: &str = include_str!("dashboard.json");
/// API group of the Prometheus operator.
const GROUP: &str = "monitoring.coreos.com";
/// Label by which Grafana's sidecar finds dashboards.
const DASHBOARD_LABEL: &str = "grafana_dashboard";
/// Key of the `ConfigMap` with the dashboard.
const DASHBOARD_KEY: &str = "reports-server.json";
/// File with the token by which Prometheus shows who it is.
const TOKEN_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
/// Part of the time before a certificate's end in which it should have been renewed; nothing is
/// wrong before.
const RENEWAL_PART: u32 = 4;

/// A kind of the Prometheus operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The way by which Prometheus finds the server.
    ServiceMonitor,
    /// Alerts.
    PrometheusRule,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::ServiceMonitor, Self::PrometheusRule];

    /// Returns the kind's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ServiceMonitor => "ServiceMonitor",
            Self::PrometheusRule => "PrometheusRule",
        }
    }

    const fn plural(self) -> &'static str {
        match self {
            Self::ServiceMonitor => "servicemonitors",
            Self::PrometheusRule => "prometheusrules",
        }
    }

    /// Returns the name of the kind's CRD.
    #[must_use]
    pub fn crd(self) -> String {
        format!("{}.{GROUP}", self.plural())
    }

    /// Returns the kind, for a client.
    #[must_use]
    pub fn resource(self) -> ApiResource {
        let kind = GroupVersionKind::gvk(GROUP, "v1", self.name());
        ApiResource::from_gvk_with_plural(&kind, self.plural())
    }
}

/// An object of a kind of the Prometheus operator.
#[derive(Clone, Debug)]
pub struct Monitored {
    /// The kind.
    pub kind: Kind,
    /// The object.
    pub object: DynamicObject,
}

fn wanted(spec: &Validated) -> MonitoringSpec {
    spec.source.monitoring.clone().unwrap_or_default()
}

/// Returns the objects of the Prometheus operator that are asked for.
pub(super) fn objects(spec: &Validated) -> Vec<Monitored> {
    let wanted = wanted(spec);
    let kinds = Kind::ALL.into_iter().filter(|kind| {
        let asked = match kind {
            Kind::ServiceMonitor => wanted.service_monitor,
            Kind::PrometheusRule => wanted.prometheus_rule,
        };
        asked == Some(true)
    });
    let object = |kind: Kind| {
        let content = match kind {
            Kind::ServiceMonitor => service_monitor(spec),
            Kind::PrometheusRule => prometheus_rule(spec, &wanted),
        };
        let object = DynamicObject {
            metadata: labelled(spec, wanted.labels.clone().unwrap_or_default()),
            data: json!({ "spec": content }),
            ..DynamicObject::new("", &kind.resource())
        };
        Monitored { kind, object }
    };
    kinds.map(object).collect()
}

/// Returns the metadata of a child with labels of the user's; ours win.
fn labelled(spec: &Validated, mut labels: BTreeMap<String, String>) -> ObjectMeta {
    labels.extend(spec.names.labels());
    ObjectMeta {
        labels: Some(labels),
        ..namespaced(spec, spec.names.server())
    }
}

fn service_monitor(spec: &Validated) -> Value {
    json!({
        "selector": {"matchLabels": spec.names.selector()},
        "namespaceSelector": {"matchNames": [spec.namespace]},
        "endpoints": [{
            "port": PORT_NAME,
            "scheme": "https",
            "path": "/metrics",
            "interval": "30s",
            "bearerTokenFile": TOKEN_FILE,
            "tlsConfig": {
                "ca": {"secret": {"name": spec.names.serving_cert(), "key": CA_CRT}},
                "serverName": spec.certs.dns_names.first(),
            },
        }],
    })
}

fn prometheus_rule(spec: &Validated, wanted: &MonitoringSpec) -> Value {
    let age = wanted.max_backup_age.map_or(MAX_BACKUP_AGE, Into::into);
    let late = spec.certs.renewal() / RENEWAL_PART;
    let text = ALERTS
        .replace("@NAME@", spec.names.instance())
        .replace("@NAMESPACE@", &spec.namespace)
        .replace("@SERVER@", &spec.names.server())
        .replace("@CERTIFICATE_SECONDS@", &late.as_secs().to_string())
        .replace("@BACKUP_SECONDS@", &age.as_secs().to_string());
    // A test reads it with every name that there can be.
    serde_yaml::from_str(&text).unwrap_or_default()
}

/// Returns the dashboard, where it is asked for.
pub(super) fn dashboard(spec: &Validated) -> Option<ConfigMap> {
    if wanted(spec).grafana_dashboard != Some(true) {
        return None;
    }
    let mut metadata = namespaced(spec, spec.names.dashboard());
    let labels = metadata.labels.get_or_insert_default();
    labels.insert(DASHBOARD_LABEL.to_owned(), "1".to_owned());
    Some(ConfigMap {
        metadata,
        data: Some([(DASHBOARD_KEY.to_owned(), DASHBOARD.to_owned())].into()),
        ..ConfigMap::default()
    })
}
