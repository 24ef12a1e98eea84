//! The Helm chart: the objects of the installation, with marks that become values, and what only a
//! chart has.

mod edits;
mod readme;

use crds::v1alpha1::ReportsServer;
use kube::CustomResourceExt as _;
use serde::Serialize;
use serde_json::json;

use self::edits::{Edit, edited};
use super::availability;
use super::error::Error;
use super::fill::{Mark, filled, indented};
use super::installation::{Files, budget_document, documents, monitor_document, policy_documents};
use super::objects;
use super::place::Place;
use super::render::{Document, rules_to_yaml};
use super::rules;
use crate::images::split;
use crate::names::{
    DNS_PORTS, IMAGE_REGISTRY, METRICS_ACCESS_CLUSTER_ROLE, METRICS_CERT, METRICS_SERVICE,
    OPERATOR, TRACING_CA,
};
use crate::security;

/// Files that are copied, with their marks filled in.
const FILES: [(&str, &str); 11] = [
    (".helmignore", include_str!("files/helmignore")),
    ("Chart.yaml", include_str!("files/Chart.yaml")),
    ("values.yaml", include_str!("files/values.yaml")),
    (
        "values.schema.json",
        include_str!("files/values.schema.json"),
    ),
    (
        "templates/_helpers.tpl",
        include_str!("files/templates/_helpers.tpl"),
    ),
    (
        "templates/NOTES.txt",
        include_str!("files/templates/NOTES.txt"),
    ),
    (
        "templates/crd-refusal.yaml",
        include_str!("files/templates/crd-refusal.yaml"),
    ),
    (
        "templates/networkpolicy.yaml",
        include_str!("files/templates/networkpolicy.yaml"),
    ),
    (
        "templates/reportsserver.yaml",
        include_str!("files/templates/reportsserver.yaml"),
    ),
    (
        "templates/uninstall.yaml",
        include_str!("files/templates/uninstall.yaml"),
    ),
    (
        "templates/tests/operator.yaml",
        include_str!("files/templates/tests/operator.yaml"),
    ),
];

/// Returns the files of the chart.
///
/// # Errors
/// If an object cannot be rendered, or lacks what the chart replaces.
pub fn chart() -> Result<Files, Error> {
    let marks = marks()?;
    let mut files = Files::new();
    for (path, text) in FILES {
        files.insert(path.to_owned(), filled(text, &marks));
    }
    let readme = readme::readme(files.get("values.yaml").map_or("", String::as_str));
    files.insert("README.md".to_owned(), filled(&readme, &marks));
    files.extend(templates()?);
    Ok(files)
}

fn marks() -> Result<Vec<Mark>, Error> {
    let images = Place::default();
    let mut marks = vec![
        ("@VERSION@", env!("CARGO_PKG_VERSION").to_owned()),
        ("@REGISTRY@", IMAGE_REGISTRY.to_owned()),
        ("@ACCOUNT_NAME@", OPERATOR.to_owned()),
        ("@CRD@", ReportsServer::crd_name().to_owned()),
        ("@TARGET_LABEL@", crds::names::LABEL_TARGET.to_owned()),
        ("@METRICS_CERT@", METRICS_CERT.to_owned()),
        ("@METRICS_SERVICE@", METRICS_SERVICE.to_owned()),
        ("@TRACING_CA@", TRACING_CA.to_owned()),
        ("@OPERATOR_IMAGE@", images.operator_image.clone()),
        ("@SERVER_IMAGE@", images.server_image.clone()),
        ("@POSTGRES_IMAGE@", images.postgres_image.clone()),
    ];
    let (registry, repository, _) = split(&images.operator_image);
    marks.push(("@OPERATOR_REGISTRY@", registry.to_owned()));
    marks.push(("@OPERATOR_REPOSITORY@", repository.to_owned()));
    let (registry, repository, _) = split(&images.server_image);
    marks.push(("@SERVER_REGISTRY@", registry.to_owned()));
    marks.push(("@SERVER_REPOSITORY@", repository.to_owned()));
    let (registry, repository, version) = split(&images.postgres_image);
    let tag = version.trim_start_matches(':').to_owned();
    marks.push(("@POSTGRES_REGISTRY@", registry.to_owned()));
    marks.push(("@POSTGRES_REPOSITORY@", repository.to_owned()));
    marks.push(("@POSTGRES_TAG@", tag));
    marks.push(("@REPLICAS@", availability::REPLICAS.to_string()));
    let class = availability::PRIORITY_CLASS;
    marks.push(("@PRIORITY_CLASS@", class.to_owned()));
    let affinity = indented_yaml(&availability::affinity(), 2)?;
    marks.push(("@AFFINITY@", affinity));
    marks.push(("@RESOURCES@", indented_yaml(&objects::resources(), 2)?));
    marks.push(("@POD_SECURITY@", indented_yaml(&security::pod(), 2)?));
    marks.push((
        "@CONTAINER_SECURITY@",
        indented_yaml(&security::container(), 2)?,
    ));
    marks.push((
        "@SELECTOR@",
        indented_yaml(&objects::selector(), 6)?
            .trim_end()
            .to_owned(),
    ));
    let dns = DNS_PORTS.map(|(port, protocol)| json!({"port": port, "protocol": protocol}));
    let dns = indented_yaml(&dns, 2)?.trim_end().to_owned();
    marks.push(("@DNS_PORTS@", dns));
    for (mark, rules) in [
        ("@APPLIER_RULES@", rules::applier()),
        ("@APPLIER_TARGET_RULES@", rules::applier_in_target()),
    ] {
        marks.push((mark, rules_to_yaml(&rules)?.trim_end().to_owned()));
    }
    let as_account = rules_to_yaml(&rules::applier_as_account())?;
    let one_more = as_account.trim_start_matches("rules:\n").trim_end();
    marks.push(("@APPLIER_ACCOUNT_RULE@", one_more.to_owned()));
    Ok(marks)
}

/// Returns a value as YAML whose lines begin with `spaces` spaces.
fn indented_yaml<T: Serialize>(value: &T, spaces: usize) -> Result<String, Error> {
    // By way of JSON, so that fields are in the order of all other files.
    let text = serde_yaml::to_string(&serde_json::to_value(value)?)?;
    Ok(indented(&text, spaces))
}

/// Returns the templates of the installation's objects.
fn templates() -> Result<Files, Error> {
    let place = Place {
        namespace: "@NAMESPACE@".to_owned(),
        account: "@ACCOUNT@".to_owned(),
        operator_image: "@OPERATOR@".to_owned(),
        server_image: "@SERVER@".to_owned(),
        postgres_image: "@POSTGRES@".to_owned(),
    };
    let mut files = Files::new();
    for document in documents(&place)? {
        let kind = document.object["kind"].as_str().unwrap_or_default();
        match kind.to_owned().as_str() {
            // Helm makes it, by --create-namespace.
            "Namespace" => {}
            "CustomResourceDefinition" => {
                let text = template(&document, &edits::CRD)?;
                add(&mut files, "crd", &when("crds.install", &text));
            }
            "ServiceAccount" => {
                let text = template(&document, &edits::SERVICE_ACCOUNT)?;
                add(
                    &mut files,
                    "serviceaccount",
                    &when("serviceAccount.create", &text),
                );
            }
            "Deployment" => {
                let text = template(&edits::marked(document), &edits::DEPLOYMENT)?;
                add(&mut files, "deployment", &text);
            }
            "Service" => add(&mut files, "service", &template(&document, &[])?),
            "ResourceQuota" => {
                let text = template(&document, &edits::PRIORITY_QUOTA)?;
                add(&mut files, "resourcequota", &for_system_classes(&text));
            }
            "ClusterRole" | "ClusterRoleBinding" if asks_for_readers(&document) => {
                let text = template(&document, &[])?;
                add(&mut files, "metricsaccess", &when("metrics.secure", &text));
            }
            "ValidatingAdmissionPolicy" | "ValidatingAdmissionPolicyBinding" => {
                add(&mut files, "guard", &template(&document, &[])?);
            }
            _ => add(&mut files, "rbac", &template(&document, &[])?),
        }
    }
    let mut policies = String::new();
    for document in policy_documents(&place.account) {
        policies.push_str("---\n");
        policies.push_str(&template(&document, &[])?);
    }
    add(&mut files, "policies", &when("policies.enabled", &policies));
    let monitor = template(&monitor_document(&place), &edits::MONITOR)?;
    add(
        &mut files,
        "servicemonitor",
        &when("monitoring.serviceMonitor.enabled", &monitor),
    );
    let budget = template(&budget_document(&place)?, &[])?;
    add(
        &mut files,
        "poddisruptionbudget",
        &when("podDisruptionBudget.enabled", &budget),
    );
    Ok(files)
}

/// Returns whether an object gives the rights that metrics without authorization do not need.
fn asks_for_readers(document: &Document) -> bool {
    document.object["metadata"]["name"] == METRICS_ACCESS_CLUSTER_ROLE
}

/// Adds a document to a template of the chart.
fn add(files: &mut Files, name: &str, text: &str) {
    let path = format!("templates/{name}.yaml");
    let file = files.entry(path).or_default();
    if !file.is_empty() {
        file.push_str("---\n");
    }
    file.push_str(text);
}

fn when(value: &str, text: &str) -> String {
    format!("{{{{- if .Values.{value} }}}}\n{text}{{{{- end }}}}\n")
}

/// Returns a template for priority classes of the system alone: those are the ones that clusters
/// restrict.
fn for_system_classes(text: &str) -> String {
    let is_system = r#"hasPrefix "system-" (.Values.priorityClassName | default "")"#;
    let condition = format!("and .Values.priorityClassQuota ({is_system})");
    format!("{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n")
}

/// Returns the template of one object: with the labels of the chart, its edits, and values in place
/// of all marks.
fn template(document: &Document, edits: &[Edit]) -> Result<String, Error> {
    let text = edited(labelled(&document.to_yaml()?), edits)?;
    Ok(text
        .replace("@NAMESPACE@", "{{ .Release.Namespace }}")
        .replace("@ACCOUNT@", edits::ACCOUNT))
}

/// Returns the object with the labels of the chart beside its own.
fn labelled(yaml: &str) -> String {
    const LABELS: &str = "\n  labels:\n";
    const METADATA: &str = "\nmetadata:\n";
    let with = "    {{- include \"reports-server-operator.labels\" . | nindent 4 }}\n";
    if yaml.contains(LABELS) {
        return yaml.replacen(LABELS, &format!("{LABELS}{with}"), 1);
    }
    yaml.replacen(METADATA, &format!("{METADATA}  labels:\n{with}"), 1)
}
