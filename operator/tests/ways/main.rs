//! Every way of installing, rendered by its own tool: the same objects as in `manifests/install.yaml`,
//! in any namespace and with the images of any registry.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "as in unit tests; helpers too"
)]

mod objects;
mod olm;
mod overlays;
mod tools;
mod values;

use reports_server_operator::manifests;
use reports_server_operator::names::OPERATOR_NAMESPACE;
use serde_json::{Value, json};

use self::objects::{Objects, images, of_kind, parse, replaced};
use self::tools::Tools;

/// Namespace of the overlay that has another one.
const NAMESPACE: &str = "policy-operator";
/// Registry of the overlay for mirrors.
const MIRROR: &str = "mirror.example";

/// Returns the objects of `manifests/install.yaml`.
fn installed() -> Vec<Value> {
    parse(&manifests::install().unwrap())
}

/// Returns the same with all images from a mirror.
fn mirrored() -> Vec<Value> {
    let mut objects = installed();
    for image in images(&objects) {
        let (_, repository) = image.split_once('/').unwrap();
        objects = replaced(&objects, &image, &format!("{MIRROR}/{repository}"));
    }
    objects
}

/// Helm makes the namespace itself.
fn without_namespace(objects: Vec<Value>) -> Vec<Value> {
    let rest = objects.into_iter();
    rest.filter(|object| object["kind"] != "Namespace")
        .collect()
}

#[test]
fn the_chart_installs_what_the_manifest_does() {
    let Some(tools) = Tools::find() else { return };
    let chart = tools.helm(OPERATOR_NAMESPACE, &[]);
    assert_eq!(
        Objects::of(&chart),
        Objects::of(&without_namespace(installed()))
    );
    let elsewhere = tools.helm(NAMESPACE, &[]);
    let expected = replaced(&installed(), OPERATOR_NAMESPACE, NAMESPACE);
    assert_eq!(
        Objects::of(&elsewhere),
        Objects::of(&without_namespace(expected))
    );
    let registry = format!("images.registry={MIRROR}");
    let mirror = tools.helm(OPERATOR_NAMESPACE, &["--set", &registry]);
    assert_eq!(
        Objects::of(&mirror),
        Objects::of(&without_namespace(mirrored()))
    );
}

#[test]
fn kustomize_installs_what_the_manifest_does() {
    let Some(tools) = Tools::find() else { return };
    assert_eq!(
        Objects::of(&tools.kustomize("base")),
        Objects::of(&installed())
    );
    let expected = replaced(&installed(), OPERATOR_NAMESPACE, NAMESPACE);
    assert_eq!(
        Objects::of(&tools.kustomize("overlays/another-namespace")),
        Objects::of(&expected)
    );
    assert_eq!(
        Objects::of(&tools.kustomize("overlays/mirror")),
        Objects::of(&mirrored())
    );
}

/// Whatever is turned on, no image is pulled from elsewhere than the mirror.
#[test]
fn a_mirror_is_the_only_registry() {
    let Some(tools) = Tools::find() else { return };
    let full = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ways/full.yaml");
    let chart = tools.helm_with_hooks(NAMESPACE, &["--values", full]);
    for objects in [chart, tools.kustomize("overlays/mirror")] {
        let images = images(&objects);
        assert!(images.len() >= 3, "{images:?}");
        for image in images {
            assert!(image.starts_with(MIRROR), "{image}");
        }
    }
}

#[test]
fn overlays_add_what_they_say() {
    let Some(tools) = Tools::find() else { return };
    let mut single = installed();
    let deployment = single.iter_mut().find(|one| one["kind"] == "Deployment");
    let replicas = &mut deployment.unwrap()["spec"]["replicas"];
    assert_eq!(*replicas, 2);
    *replicas = json!(1);
    let overlay = tools.kustomize("overlays/single-operator");
    assert_eq!(Objects::of(&overlay), Objects::of(&single));
    let monitoring = tools.kustomize("overlays/monitoring");
    assert_eq!(of_kind(&monitoring, "ServiceMonitor").len(), 1);
    let policies = parse(&manifests::admission_policies().unwrap());
    let mut expected = installed();
    expected.extend(policies);
    let restricted = tools.kustomize("overlays/restricted");
    assert_eq!(Objects::of(&restricted), Objects::of(&expected));
}

/// Everything that the chart can add, and what its hooks are allowed.
#[test]
fn the_chart_adds_what_its_values_say() {
    let Some(tools) = Tools::find() else { return };
    let full = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ways/full.yaml");
    let objects = tools.helm_with_hooks(NAMESPACE, &["--values", full]);
    for (kind, count) in [
        ("PodDisruptionBudget", 1),
        ("ResourceQuota", 1),
        ("NetworkPolicy", 2),
        ("Service", 1),
        ("ServiceMonitor", 1),
        ("Job", 2),
        ("Pod", 1),
        ("Namespace", 1),
    ] {
        assert_eq!(of_kind(&objects, kind).len(), count, "{kind}");
    }
    let crd = &of_kind(&objects, "CustomResourceDefinition")[0]["metadata"];
    assert_eq!(crd.pointer("/annotations/helm.sh~1resource-policy"), None);
    let jobs = serde_json::to_string(&of_kind(&objects, "Job")).unwrap();
    assert!(jobs.contains("--crd-goes"), "{jobs}");
    let deployment = of_kind(&objects, "Deployment")[0];
    let account = deployment.pointer("/spec/template/spec/serviceAccountName");
    assert_eq!(account, Some(&json!("policy-operator")));
    let policies = of_kind(&objects, "ValidatingAdmissionPolicy");
    assert_eq!(policies.len(), 3);
    let text = serde_json::to_string(&policies).unwrap();
    assert!(text.contains(":policy-operator'"), "{text}");
    let kept = tools.helm(NAMESPACE, &[]);
    let crd = &of_kind(&kept, "CustomResourceDefinition")[0]["metadata"];
    let policy = crd.pointer("/annotations/helm.sh~1resource-policy");
    assert_eq!(policy, Some(&json!("keep")));
}

/// Helm keeps what an upgrade no longer renders by the annotation; `e2e/tests/clusters/install_ways.rs`
/// has the chart refuse where the CRD lacks it.
#[test]
fn the_chart_leaves_the_crd_to_another_way() {
    let Some(tools) = Tools::find() else { return };
    let arguments = ["--is-upgrade", "--set", "crds.install=false"];
    let objects = tools.helm(NAMESPACE, &arguments);
    assert!(of_kind(&objects, "CustomResourceDefinition").is_empty());
    assert_eq!(of_kind(&objects, "Deployment").len(), 1);
}

/// Returns the template of the operator's pods, as the chart renders it.
fn template(objects: &[Value]) -> &Value {
    &of_kind(objects, "Deployment")[0]["spec"]["template"]["spec"]
}

/// Each part that the chart has for two operators can be left out by itself.
#[test]
fn the_chart_installs_one_operator_where_that_is_asked_for() {
    let Some(tools) = Tools::find() else { return };
    let single = tools.helm(NAMESPACE, &["--set", "replicas=1"]);
    assert_eq!(of_kind(&single, "Deployment")[0]["spec"]["replicas"], 1);
    let without = ["priorityClassName=", "affinity.podAntiAffinity=null"];
    let without: Vec<&str> = without.iter().flat_map(|value| ["--set", value]).collect();
    let without = tools.helm(NAMESPACE, &without);
    assert_eq!(of_kind(&without, "ResourceQuota").len(), 0);
    for field in ["affinity", "priorityClassName"] {
        assert_eq!(template(&without).get(field), None, "{field}");
    }
}

/// A budget keeps the last of several operators on the only node, so there is one only on request. One
/// operator alone may be away, and its budget holds up nobody.
#[test]
fn the_chart_has_a_budget_where_that_is_asked_for() {
    let Some(tools) = Tools::find() else { return };
    let unasked = tools.helm(NAMESPACE, &[]);
    assert_eq!(of_kind(&unasked, "PodDisruptionBudget").len(), 0);
    let asked = tools.helm(NAMESPACE, &["--set", "podDisruptionBudget.enabled=true"]);
    let budget = &of_kind(&asked, "PodDisruptionBudget")[0]["spec"];
    let selector = &of_kind(&asked, "Deployment")[0]["spec"]["selector"];
    assert_eq!(budget["selector"], *selector);
    assert_eq!(budget["maxUnavailable"], 1);
    assert_eq!(budget["unhealthyPodEvictionPolicy"], "AlwaysAllow");
}

/// A cluster that restricts priority classes finds a quota for the one of the values. An own class needs
/// none.
#[test]
fn the_chart_has_a_quota_for_classes_of_the_system() {
    let Some(tools) = Tools::find() else { return };
    for (class, quotas) in [("system-node-critical", 1), ("own", 0)] {
        let value = format!("priorityClassName={class}");
        let objects = tools.helm(NAMESPACE, &["--set", &value]);
        assert_eq!(template(&objects)["priorityClassName"], class);
        let found = of_kind(&objects, "ResourceQuota");
        assert_eq!(found.len(), quotas, "{class}");
        for quota in found {
            let admitted = quota.pointer("/spec/scopeSelector/matchExpressions/0/values");
            assert_eq!(admitted, Some(&json!([class])));
        }
    }
    let none = tools.helm(NAMESPACE, &["--set", "priorityClassQuota=false"]);
    assert_eq!(of_kind(&none, "ResourceQuota").len(), 0);
}

/// Returns what the chart's monitor says of its endpoint.
fn endpoint(objects: &[Value]) -> &Value {
    &of_kind(objects, "ServiceMonitor")[0]["spec"]["endpoints"][0]
}

/// The monitor of the chart reads the metrics as they are served.
#[test]
fn the_chart_has_prometheus_read_what_is_served() {
    let Some(tools) = Tools::find() else { return };
    let monitor = ["--set", "monitoring.serviceMonitor.enabled=true"];
    let own = tools.helm(NAMESPACE, &monitor);
    let expected = serde_json::to_value(parse(&manifests::monitor().unwrap())).unwrap();
    assert_eq!(*endpoint(&own), expected[0]["spec"]["endpoints"][0]);
    let named = ["--set", "metrics.certSecret=given"];
    let named = tools.helm(NAMESPACE, &[monitor, named].concat());
    let tls = json!({
        "ca": {"secret": {"name": "given", "key": "ca.crt"}},
        "serverName": format!("reports-server-operator-metrics.{NAMESPACE}.svc"),
    });
    assert_eq!(endpoint(&named)["tlsConfig"], tls);
    let volumes = &of_kind(&named, "Deployment")[0]["spec"]["template"]["spec"]["volumes"];
    assert_eq!(volumes[1]["secret"]["secretName"], "given");
    let plain = ["--set", "metrics.secure=false"];
    let plain = tools.helm(NAMESPACE, &[monitor, plain].concat());
    let said = endpoint(&plain);
    assert_eq!(said["scheme"], "http");
    for secret in ["bearerTokenFile", "tlsConfig"] {
        assert_eq!(said.get(secret), None, "{secret}");
    }
    let container = &of_kind(&plain, "Deployment")[0]["spec"]["template"]["spec"]["containers"][0];
    let args = container["args"].as_array().unwrap();
    assert!(args.contains(&json!("--metrics-secure=false")), "{args:?}");
    // Nobody is asked about, so the operator needs no right to ask.
    let text = serde_json::to_string(&plain).unwrap();
    assert!(!text.contains("tokenreviews"), "{text}");
}

/// The operator's traces: where they go, by which authorities, and through the policy.
#[test]
fn the_chart_has_the_operator_send_traces() {
    let Some(tools) = Tools::find() else { return };
    let names = |objects: &[Value]| {
        let pod = &of_kind(objects, "Deployment")[0]["spec"]["template"]["spec"];
        let variables = pod["containers"][0]["env"].as_array().unwrap().iter();
        let named = variables.map(|variable| {
            let text = |key: &str| variable[key].as_str().unwrap_or_default().to_owned();
            (text("name"), text("value"))
        });
        let named = named.filter(|(name, _)| name.starts_with("TRACING_"));
        named.collect::<Vec<_>>()
    };
    assert!(names(&tools.helm(NAMESPACE, &[])).is_empty());
    let full = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ways/full.yaml");
    let full = tools.helm(NAMESPACE, &["--values", full]);
    let expected = [
        ("TRACING_ENDPOINT", "https://otel-collector.monitoring:4318"),
        ("TRACING_SAMPLING_RATE_PER_MILLION", "250000"),
        (
            "TRACING_CA_FILE",
            "/etc/reports-server-operator-tracing-ca/ca.crt",
        ),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(names(&full), expected);
    let volumes = &of_kind(&full, "Deployment")[0]["spec"]["template"]["spec"]["volumes"];
    assert_eq!(volumes[2]["secret"]["secretName"], "collector-ca");
    for (endpoint, port) in [
        ("http://collector:4318", 4318),
        ("http://collector/otlp", 80),
        ("https://collector", 443),
    ] {
        let endpoint = format!("tracing.endpoint={endpoint}");
        let policy = ["--set", "networkPolicy.enabled=true", "--set", &endpoint];
        let objects = tools.helm(NAMESPACE, &policy);
        let egress = &of_kind(&objects, "NetworkPolicy")[0]["spec"]["egress"];
        let ports = egress.as_array().unwrap().last().unwrap()["ports"].clone();
        assert_eq!(ports, json!([{"port": port, "protocol": "TCP"}]));
    }
}

/// A value that contradicts another is refused, and the refusal names the field.
#[test]
fn values_that_contradict_each_other_are_refused() {
    let Some(tools) = Tools::find() else { return };
    let digest = format!("images.server.digest=sha256:{}", "a".repeat(64));
    let postgres = digest.replace("server", "postgres");
    let refused: [(&[&str], &str); 12] = [
        (&["podDisruptionBudget.minAvailable=1"], "minAvailable"),
        (&["images.server.tag=v1", &digest], "/images/server/tag"),
        (&["serviceAccount.create=false"], "/serviceAccount/name"),
        (&["reportsServer.enabled=true"], "targetNamespace"),
        (
            &["crds.keep=false", "uninstall.guard=false"],
            "/uninstall/guard",
        ),
        (&["images.postgres.tag="], "/images/postgres"),
        (&["images.postgres.tag=", &postgres], "/images/postgres"),
        (&["extraEnv[0].name=POD_NAME"], "/extraEnv/0/name"),
        (&["replica=2"], "replica"),
        (
            &["metrics.secure=false", "metrics.certSecret=given"],
            "/metrics/certSecret",
        ),
        (&["tracing.endpoint=collector:4317"], "/tracing/endpoint"),
        (
            &["tracing.endpoint=http://c", "tracing.caSecret=given"],
            "/tracing/endpoint",
        ),
    ];
    for (values, named) in refused {
        let arguments: Vec<&str> = values.iter().flat_map(|value| ["--set", value]).collect();
        let said = tools.helm_refuses(&arguments);
        assert!(said.contains(named), "{values:?}: {said}");
    }
}

/// Objects of the cluster have the same names in each namespace. So what is applied for a second namespace
/// moves the bindings of the first one, whose operator loses its rights.
#[test]
fn another_namespace_has_the_bindings_of_the_first() {
    let Some(tools) = Tools::find() else { return };
    let subjects = |folder: &str| {
        let objects = tools.kustomize(folder);
        let bindings = of_kind(&objects, "ClusterRoleBinding").into_iter();
        let pairs = bindings.flat_map(|binding| {
            let subjects = binding["subjects"].as_array().unwrap().iter();
            let name = binding["metadata"]["name"].clone();
            subjects.map(move |one| (name.clone(), one["namespace"].clone()))
        });
        pairs.collect::<Vec<_>>()
    };
    let (first, second) = (subjects("base"), subjects("overlays/another-namespace"));
    assert!(!first.is_empty());
    assert_eq!(first.len(), second.len());
    for ((name, namespace), (same, other)) in first.iter().zip(&second) {
        assert_eq!(name, same);
        assert_eq!(
            (namespace, other),
            (&json!(OPERATOR_NAMESPACE), &json!(NAMESPACE))
        );
    }
}

/// Otherwise the installation fails by the policies of the same chart.
#[test]
fn the_account_that_applies_has_what_the_policies_demand() {
    let Some(tools) = Tools::find() else { return };
    let rules = |more: &[&str]| {
        let values = [
            "reportsServer.enabled=true",
            "reportsServer.spec.targetNamespace=reports",
            "reportsServer.spec.apis[0].group=wgpolicyk8s.io",
        ];
        let values = values.iter().chain(more);
        let arguments: Vec<&str> = values.flat_map(|value| ["--set", value]).collect();
        let objects = tools.helm_with_hooks(OPERATOR_NAMESPACE, &arguments);
        let roles = of_kind(&objects, "Role").into_iter();
        let mut own = roles.filter(|role| role["metadata"]["namespace"] == "reports");
        own.next().map(|role| role["rules"].clone())
    };
    assert_eq!(rules(&[]), None);
    let policies = "policies.enabled=true";
    let few = rules(&[policies]).unwrap();
    let pairs = |rules: &Value| {
        let rules = rules.as_array().unwrap().iter();
        let pair = |rule: &Value| (rule["resources"][0].clone(), rule["verbs"][0].clone());
        rules.map(pair).collect::<Vec<_>>()
    };
    let always = [
        ("deployments", "create"),
        ("secrets", "get"),
        ("certificates", "create"),
    ];
    let always: Vec<_> = always.map(|(of, verb)| (json!(of), json!(verb))).into();
    assert_eq!(pairs(&few), always);
    let account = "reportsServer.spec.server.serviceAccount.name=given";
    let all = rules(&[policies, account]).unwrap();
    let right = (json!("serviceaccounts"), json!("impersonate"));
    assert_eq!(pairs(&all)[3], right);
    assert_eq!(all[3]["resourceNames"], json!(["given"]));
}

/// Rules that keep operators apart would leave a hook no node, and the namespace may keep everything from
/// everywhere.
#[test]
fn hooks_find_a_node_and_reach_the_kube_apiserver() {
    let Some(tools) = Tools::find() else { return };
    let name = "kubernetes.io/hostname";
    let spread = format!("topologySpreadConstraints[0].topologyKey={name}");
    let node = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.\
                nodeSelectorTerms[0].matchFields[0].key=metadata.name";
    let arguments = ["networkPolicy.enabled=true", &spread, node];
    let arguments: Vec<&str> = arguments
        .iter()
        .flat_map(|value| ["--set", value])
        .collect();
    let objects = tools.helm_with_hooks(OPERATOR_NAMESPACE, &arguments);
    let operator = of_kind(&objects, "Deployment")[0]["spec"]["template"]["spec"].clone();
    assert!(operator["affinity"]["podAntiAffinity"].is_object());
    assert!(operator["topologySpreadConstraints"].is_array());
    let policies = of_kind(&objects, "NetworkPolicy");
    let policy = policies
        .iter()
        .find(|p| p["metadata"]["name"] == "reports-server-operator-hooks");
    let policy = &policy.unwrap()["spec"];
    let selected = policy["podSelector"]["matchLabels"].as_object().unwrap();
    let ports = policy["egress"].to_string();
    for port in [53, 5353, 443, 6443] {
        assert!(
            ports.contains(&format!("{{\"port\":{port},")),
            "{port}: {ports}"
        );
    }
    let jobs = of_kind(&objects, "Job")
        .into_iter()
        .map(|job| job["spec"]["template"].clone());
    let tests = of_kind(&objects, "Pod").into_iter().cloned();
    let pods: Vec<Value> = jobs.chain(tests).collect();
    assert_eq!(pods.len(), 2);
    for pod in pods {
        let labels = &pod["metadata"]["labels"];
        assert!(
            selected.iter().all(|(key, value)| labels[key] == *value),
            "{labels}"
        );
        let affinity = pod["spec"]["affinity"].as_object().unwrap();
        assert_eq!(affinity.keys().collect::<Vec<_>>(), ["nodeAffinity"]);
        assert!(pod["spec"]["topologySpreadConstraints"].is_null());
    }
}

/// The operator has to know the major version, which a digest does not say.
#[test]
fn postgresql_by_its_digest_keeps_the_tag() {
    let Some(tools) = Tools::find() else { return };
    let digest = format!("sha256:{}", "a".repeat(64));
    let by_digest = format!("images.postgres.digest={digest}");
    let objects = tools.helm(OPERATOR_NAMESPACE, &["--set", &by_digest]);
    let operator = of_kind(&objects, "Deployment")[0].to_string();
    let expected = format!(":17.11-bookworm@{digest}");
    assert!(operator.contains(&expected), "{operator}");
}

/// A reader of the page copies them.
#[test]
fn the_values_of_the_quickstart_apply_a_reports_server() {
    let Some(tools) = Tools::find() else { return };
    let page = include_str!("../../../docs/quickstart.md");
    let (_, rest) = page.split_once("```yaml\n").unwrap();
    let (values, _) = rest.split_once("```").unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), values).unwrap();
    let path = file.path().to_str().unwrap();
    let objects = tools.helm_with_hooks(OPERATOR_NAMESPACE, &["--values", path]);
    // That of the uninstallation, and that which applies it.
    assert_eq!(of_kind(&objects, "Job").len(), 2);
    let namespace = &of_kind(&objects, "Namespace")[0]["metadata"]["name"];
    assert_eq!(*namespace, "policy-reports");
}
