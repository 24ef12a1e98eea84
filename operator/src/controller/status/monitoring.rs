//! `MonitoringReady`: whether the objects for a monitoring stack are there.

use crds::v1alpha1::{conditions as types, reasons};

use super::conditions::{Conditions, Finding};
use crate::controller::build::MonitoringKind;
use crate::controller::validate::Validated;

/// Sets the condition, or removes it where nothing is asked for. `missing` are the kinds that the
/// cluster does not have.
pub fn tell(conditions: &mut Conditions, spec: &Validated, missing: &[MonitoringKind]) {
    let wanted = spec.source.monitoring.clone().unwrap_or_default();
    let asked = [
        wanted.service_monitor,
        wanted.prometheus_rule,
        wanted.grafana_dashboard,
    ];
    if !asked.contains(&Some(true)) {
        conditions.remove(types::MONITORING_READY);
        return;
    }
    let crds: Vec<String> = missing.iter().map(|kind| kind.crd()).collect();
    let finding = if crds.is_empty() {
        Finding::yes(
            reasons::AS_EXPECTED,
            "what spec.monitoring asks for is there",
        )
    } else {
        let message = format!(
            "the cluster has no CRD {}: install the Prometheus operator, or take the field out of \
             spec.monitoring; it is looked for every five minutes",
            crds.join(" and no CRD ")
        );
        Finding::no(reasons::MONITORING_CRD_MISSING, message)
    };
    conditions.set(types::MONITORING_READY, finding);
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;
    use crate::controller::fixtures::validated;

    fn told(monitoring: Value, missing: &[MonitoringKind]) -> Option<(String, String)> {
        let mut spec = json!({});
        spec["monitoring"] = monitoring;
        let mut conditions = Conditions::new(&[], Some(1), Timestamp::UNIX_EPOCH);
        tell(&mut conditions, &validated(spec), missing);
        let condition = conditions.get(types::MONITORING_READY)?.clone();
        Some((condition.status, condition.message))
    }

    #[test]
    fn a_missing_crd_is_named() {
        let wanted = json!({"serviceMonitor": true, "prometheusRule": true});
        let (status, message) = told(wanted, &MonitoringKind::ALL).unwrap();
        assert_eq!(status, "False");
        for crd in [
            "servicemonitors.monitoring.coreos.com",
            "prometheusrules.monitoring.coreos.com",
        ] {
            assert!(message.contains(crd), "{message}");
        }
    }

    #[test]
    fn nothing_is_told_where_nothing_is_asked_for() {
        assert_eq!(told(json!({"serviceMonitor": false}), &[]), None);
        assert_eq!(told(Value::Null, &[]), None);
        let (status, _) = told(json!({"grafanaDashboard": true}), &[]).unwrap();
        assert_eq!(status, "True");
    }
}
