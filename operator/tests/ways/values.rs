//! Values of the chart: those that it refuses, and those that reach an object as they are.

use serde_json::{Value, json};

use super::objects::{images, of_kind};
use super::tools::{Tools, chart};
use super::{NAMESPACE, template};

/// A value that opens what it seems to close, or that cannot work, is refused, and the refusal names it.
#[test]
fn values_that_would_do_harm_are_refused() {
    let Some(tools) = Tools::find() else { return };
    let refused = [
        // A rule without ports allows all.
        (
            "networkPolicy.apiServerPorts=[]",
            "/networkPolicy/apiServerPorts",
        ),
        ("extraArgs=[\"--metrics-secure=false\"]", "/extraArgs/0"),
        ("extraArgs=[\"--metrics-cert-dir\",\"a\"]", "/extraArgs/0"),
        ("extraArgs=[\"--log-level-file=a\"]", "/extraArgs/0"),
        // The kubelet asks the ports that the chart names, and ends an operator that is not there.
        (
            "extraArgs=[\"--health-bind-address=0.0.0.0:9081\"]",
            "/extraArgs/0",
        ),
        (
            "extraArgs=[\"--metrics-bind-address\",\"0.0.0.0:9443\"]",
            "/extraArgs/0",
        ),
        (
            "images.registry=\"https://mirror.example\"",
            "/images/registry",
        ),
        (
            "images.registry=\"mirror.example//policy\"",
            "/images/registry",
        ),
        (
            "images.server.registry=\"mirror.example//\"",
            "/images/server/registry",
        ),
        (
            "images.server.repository=\"a/\"",
            "/images/server/repository",
        ),
        (
            "images.postgres.repository=\"a//b\"",
            "/images/postgres/repository",
        ),
        (
            "monitoring.serviceMonitor.labels={\"app.kubernetes.io/name\":\"a\"}",
            "/monitoring/serviceMonitor/labels",
        ),
        // A condition is the parent's; by itself the chart would be installed all the same.
        ("enabled=false", "/enabled"),
    ];
    for (value, named) in refused {
        let said = tools.helm_refuses(&["--set-json", value]);
        assert!(said.contains(named), "{value}: {said}");
    }
    let registries = [
        "mirror.example/policy/",
        "mirror.example:5000/a",
        "10.0.0.1",
    ];
    for registry in registries {
        let value = format!("images.registry={registry}");
        let objects = tools.helm(NAMESPACE, &["--set", &value]);
        for image in images(&objects) {
            let path = image.strip_prefix(registry.trim_end_matches('/'));
            assert!(path.is_some_and(|path| path.starts_with('/')), "{image}");
            assert!(!image.contains("//"), "{image}");
        }
    }
}

/// Helm takes a value that is null for one that is not there, and so for one that the templates lack. Each
/// such value says so in place of an error of a template, or of another meaning.
#[test]
fn values_that_are_taken_away_are_refused_or_have_no_effect() {
    let Some(tools) = Tools::find() else { return };
    let needed = [
        "tracing",
        "metrics",
        "hooks",
        "crds",
        "uninstall",
        "serviceAccount",
        "images",
        "policies",
        "monitoring",
        "networkPolicy",
        "reportsServer",
        "podDisruptionBudget",
        "replicas",
        "logLevel",
        "crds.keep",
        "metrics.secure",
        "uninstall.guard",
        "monitoring.serviceMonitor",
        "networkPolicy.databasePorts",
    ];
    for value in needed {
        let said = tools.helm_refuses(&["--set", &format!("{value}=null")]);
        let (_, key) = value.rsplit_once('.').unwrap_or(("", value));
        let named = format!("missing property '{key}'");
        assert!(said.contains(&named), "{value}: {said}");
    }
    let objects = tools.helm_with_hooks(NAMESPACE, &["--set", "affinity=null"]);
    assert_eq!(template(&objects).get("affinity"), None);
    for value in ["priorityClassName", "commonLabels", "nodeSelector"] {
        let value = format!("{value}=null");
        assert!(!tools.helm(NAMESPACE, &["--set", &value]).is_empty());
    }
}

/// No port of a database is open where none is named, and those of the kube-apiservers stay.
#[test]
fn a_policy_without_databases_has_the_ports_of_the_kube_apiservers() {
    let Some(tools) = Tools::find() else { return };
    let values = ["--set", "networkPolicy.enabled=true"];
    let none = ["--set-json", "networkPolicy.databasePorts=[]"];
    let objects = tools.helm(NAMESPACE, &[values, none].concat());
    let egress = of_kind(&objects, "NetworkPolicy")[0]["spec"]["egress"].clone();
    let ports = egress.as_array().unwrap().last().unwrap()["ports"].clone();
    let port = |port: u16| json!({"port": port, "protocol": "TCP"});
    assert_eq!(ports, json!([port(443), port(6443)]));
}

/// A policy that nobody passes shuts out the Prometheus that the monitor asks for.
#[test]
fn a_monitor_behind_a_policy_needs_readers() {
    let Some(tools) = Tools::find() else { return };
    let both = [
        "--set",
        "networkPolicy.enabled=true",
        "--set",
        "monitoring.serviceMonitor.enabled=true",
    ];
    let said = tools.helm_refuses(&both);
    assert!(said.contains("networkPolicy.metricsFrom"), "{said}");
    let readers = "networkPolicy.metricsFrom=[{\"namespaceSelector\":{}}]";
    let objects = tools.helm(NAMESPACE, &[&both[..], &["--set-json", readers]].concat());
    let policy = &of_kind(&objects, "NetworkPolicy")[0]["spec"];
    let from = json!([{"namespaceSelector": {}}]);
    assert_eq!(policy["ingress"][0]["from"], from);
    let alone = tools.helm(NAMESPACE, &both[..2]);
    let policy = &of_kind(&alone, "NetworkPolicy")[0]["spec"];
    assert_eq!(policy["ingress"], json!([]));
}

/// Returns the values by which the chart applies a `ReportsServer` for a namespace.
fn applying(namespace: &str) -> Vec<String> {
    let values = [
        "reportsServer.enabled=true".to_owned(),
        format!("reportsServer.spec.targetNamespace={namespace}"),
        "reportsServer.spec.apis[0].group=wgpolicyk8s.io".to_owned(),
    ];
    let arguments = values.into_iter();
    arguments
        .flat_map(|value| ["--set".to_owned(), value])
        .collect()
}

/// The operator would refuse the one, and nobody would carry out the other.
#[test]
fn a_reports_server_that_cannot_be_carried_out_is_refused() {
    let Some(tools) = Tools::find() else { return };
    let own = applying("default");
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let said = tools.helm_refuses(&own);
    assert!(said.contains("the operator's own namespace"), "{said}");
    // The chart would make a namespace of Kubernetes its own.
    let system = applying("kube-system");
    let system: Vec<&str> = system.iter().map(String::as_str).collect();
    let said = tools.helm_refuses(&system);
    assert!(said.contains("begins with kube-"), "{said}");
    let other = applying("policy-reports");
    let other: Vec<&str> = other.iter().map(String::as_str).collect();
    let none = ["--set", "replicas=0"];
    let said = tools.helm_refuses(&[&other[..], &none].concat());
    assert!(said.contains("/replicas"), "{said}");
    let paused = tools.helm(NAMESPACE, &none);
    assert_eq!(of_kind(&paused, "Deployment")[0]["spec"]["replicas"], 0);
}

/// The kubelet replaces `$(NAME)` in arguments by variables, and makes one of two dollars.
#[test]
fn the_applied_object_reaches_the_job_as_it_is() {
    let Some(tools) = Tools::find() else { return };
    let note = "$(POD_NAMESPACE) costs $5 or $$";
    let arguments = applying("policy-reports");
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let given = format!("reportsServer.spec.note={note}");
    arguments.extend(["--set-string", &given]);
    let objects = tools.helm_with_hooks(NAMESPACE, &arguments);
    let jobs = of_kind(&objects, "Job").into_iter();
    let name = "reports-server-operator-apply";
    let mut jobs = jobs.filter(|job| job["metadata"]["name"] == name);
    let pod = &jobs.next().unwrap()["spec"]["template"]["spec"];
    let text = pod["containers"][0]["args"][2].as_str().unwrap();
    assert!(!text.replace("$$", "").contains('$'), "{text}");
    let object: Value = serde_json::from_str(&text.replace("$$", "$")).unwrap();
    assert_eq!(object["spec"]["note"], note);
}

/// YAML takes a name of digits alone for a number, which the kube-apiserver refuses.
#[test]
fn names_of_digits_stay_texts() {
    let Some(tools) = Tools::find() else { return };
    let full = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ways/full.yaml");
    let names = [
        "serviceAccount.name=456",
        "priorityClassName=789",
        "metrics.certSecret=12",
        "tracing.caSecret=13",
    ];
    let names = names.iter().flat_map(|name| ["--set-string", name]);
    let arguments: Vec<&str> = ["--values", full].into_iter().chain(names).collect();
    let objects = tools.helm_as("123", &chart(), &arguments);
    for object in &objects {
        let labels = &object["metadata"]["labels"];
        assert_eq!(labels["app.kubernetes.io/instance"], "123", "{labels}");
    }
    let jobs = of_kind(&objects, "Job").into_iter();
    let pods = jobs.map(|job| &job["spec"]["template"]["spec"]);
    let operator = template(&objects);
    for pod in pods.chain([operator]) {
        assert_eq!(pod["priorityClassName"], "789");
        assert!(pod["serviceAccountName"].is_string(), "{pod}");
    }
    assert_eq!(operator["serviceAccountName"], "456");
    let secret = |at: usize| &operator["volumes"][at]["secret"]["secretName"];
    assert_eq!((secret(1), secret(2)), (&json!("12"), &json!("13")));
    let policies = serde_json::to_string(&of_kind(&objects, "NetworkPolicy")).unwrap();
    let selected = "\"app.kubernetes.io/instance\":\"123\"";
    assert!(policies.contains(selected), "{policies}");
}

/// A key that both have is there once.
#[test]
fn labels_of_the_monitor_win_over_those_of_all_objects() {
    let Some(tools) = Tools::find() else { return };
    let values = [
        "monitoring.serviceMonitor.enabled=true",
        "monitoring.serviceMonitor.labels.team=monitoring",
        "commonLabels.team=policy",
        "commonLabels.tier=control",
    ];
    let arguments: Vec<&str> = values.iter().flat_map(|value| ["--set", value]).collect();
    let objects = tools.helm(NAMESPACE, &arguments);
    let labels = &of_kind(&objects, "ServiceMonitor")[0]["metadata"]["labels"];
    assert_eq!(labels["team"], "monitoring");
    assert_eq!(labels["tier"], "control");
    let labels = &of_kind(&objects, "Deployment")[0]["metadata"]["labels"];
    assert_eq!(labels["team"], "policy");
}

/// A parent's condition is among the values of the chart itself.
#[test]
fn the_chart_is_a_part_of_another_one_by_a_condition() {
    let Some(tools) = Tools::find() else { return };
    let parent = tempfile::tempdir().unwrap();
    let charts = parent.path().join("charts");
    std::fs::create_dir(&charts).unwrap();
    std::os::unix::fs::symlink(chart(), charts.join("reports-server-operator")).unwrap();
    let text = format!(
        "apiVersion: v2\nname: parent\nversion: 1.0.0\ndependencies:\n  \
         - name: reports-server-operator\n    version: {}\n    \
         condition: reports-server-operator.enabled\n",
        env!("CARGO_PKG_VERSION")
    );
    std::fs::write(parent.path().join("Chart.yaml"), text).unwrap();
    let templates = parent.path().join("templates");
    std::fs::create_dir(&templates).unwrap();
    let own = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: own\n";
    std::fs::write(templates.join("own.yaml"), own).unwrap();
    let with = |enabled: bool| {
        let value = format!("reports-server-operator.enabled={enabled}");
        let objects = tools.helm_as("parent", parent.path(), &["--set", &value]);
        of_kind(&objects, "Deployment").len()
    };
    assert_eq!((with(true), with(false)), (1, 0));
}
