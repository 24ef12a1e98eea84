//! The operator's endpoints, as an installation has them read and probed.

use std::collections::BTreeSet;

use serde::Deserialize as _;
use serde_json::Value;

use crate::names::{METRICS_CERT, TRACING_CA, TRACING_CA_DIR};

/// Returns the only object of a kind.
fn only(kind: &str) -> Value {
    let text = super::install().unwrap();
    let documents = serde_yaml::Deserializer::from_str(&text);
    let objects = documents.map(|document| Value::deserialize(document).unwrap());
    let mut found: Vec<Value> = objects.filter(|object| object["kind"] == kind).collect();
    assert_eq!(found.len(), 1, "{kind}");
    found.remove(0)
}

/// The object that has Prometheus scrape the operator finds the Service, that the pods, and their port.
#[test]
fn the_monitor_of_the_operator_finds_its_pods() {
    let monitor: Value = serde_yaml::from_str(&super::monitor().unwrap()).unwrap();
    let (deployment, service) = (only("Deployment"), only("Service"));
    let template = &deployment["spec"]["template"];
    let namespace = &deployment["metadata"]["namespace"];
    for object in [&monitor, &service] {
        assert_eq!(object["metadata"]["namespace"], *namespace);
    }
    let by_monitor = monitor["spec"]["selector"]["matchLabels"].as_object();
    for (key, wanted) in by_monitor.unwrap() {
        assert_eq!(service["metadata"]["labels"][key], *wanted);
    }
    for (key, wanted) in service["spec"]["selector"].as_object().unwrap() {
        assert_eq!(template["metadata"]["labels"][key], *wanted);
    }
    let port = &service["spec"]["ports"][0];
    let endpoint = &monitor["spec"]["endpoints"][0];
    assert_eq!(endpoint["port"], port["name"]);
    assert_eq!(endpoint["scheme"], "https");
    let ports = template["spec"]["containers"][0]["ports"].as_array();
    let own = ports.unwrap().iter();
    let mut own = own.filter(|own| own["name"] == port["targetPort"]);
    assert_eq!(own.next().unwrap()["containerPort"], port["port"]);
}

/// The kubelet sends no token, so probes go to a port of their own.
#[test]
fn probes_do_not_go_where_the_metrics_are() {
    let deployment = only("Deployment");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let ports = container["ports"].as_array().unwrap();
    for (probe, path) in [("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
        let request = &container[probe]["httpGet"];
        assert_eq!(request["path"], path);
        assert_eq!(request["port"], "health");
        assert_eq!(request.get("scheme"), None, "{probe}: plain HTTP");
    }
    let numbers: BTreeSet<i64> = ports
        .iter()
        .map(|port| port["containerPort"].as_i64().unwrap())
        .collect();
    assert_eq!(numbers, BTreeSet::from([8081, 8443]), "as in main.rs");
}

/// A certificate is used as soon as the Secret is there, and nothing waits for it.
#[test]
fn the_certificate_of_the_metrics_is_a_secret_that_need_not_exist() {
    let deployment = only("Deployment");
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let mount = &container["volumeMounts"][1];
    let wanted = format!(
        "--metrics-cert-dir={}",
        mount["mountPath"].as_str().unwrap()
    );
    let args = container["args"].as_array().unwrap();
    assert!(args.iter().any(|arg| *arg == wanted.as_str()), "{args:?}");
    let volume = &pod["volumes"][1];
    assert_eq!(volume["name"], mount["name"]);
    assert_eq!(volume["secret"]["secretName"], METRICS_CERT);
    assert_eq!(volume["secret"]["optional"], true);
}

/// Traces are sent without it, where the collector's certificate is signed by a public authority or
/// there is none.
#[test]
fn the_authorities_of_a_collector_are_a_secret_that_need_not_exist() {
    let deployment = only("Deployment");
    let pod = &deployment["spec"]["template"]["spec"];
    let mount = &pod["containers"][0]["volumeMounts"][2];
    assert_eq!(mount["mountPath"], TRACING_CA_DIR);
    let volume = &pod["volumes"][2];
    assert_eq!(volume["name"], mount["name"]);
    assert_eq!(volume["secret"]["secretName"], TRACING_CA);
    assert_eq!(volume["secret"]["optional"], true);
    assert_eq!(volume["secret"]["items"][0]["path"], "ca.crt");
}
