//! The objects of the installation.

use std::collections::BTreeMap;

use crds::names as crd_names;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EnvVar, EnvVarSource, HTTPGetAction, Namespace, ObjectFieldSelector,
    PodSpec, PodTemplateSpec, Probe, ResourceRequirements, ServiceAccount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use super::render::Document;
use super::rules::Reasoned;
use crate::database::managed;
use crate::names::{
    OPERATOR, OPERATOR_NAMESPACE, POSTGRES_IMAGE_ENV, SERVER_IMAGE_ENV, operator_image,
    server_image,
};
use crate::security;

const RBAC: &str = "rbac.authorization.k8s.io";
const METRICS_PORT: i32 = 8080;

fn labels() -> BTreeMap<String, String> {
    let mut labels = selector();
    labels.insert(
        crd_names::LABEL_APP_PART_OF.to_owned(),
        crd_names::APP_NAME.to_owned(),
    );
    labels
}

fn selector() -> BTreeMap<String, String> {
    BTreeMap::from([
        (crd_names::LABEL_APP_NAME.to_owned(), OPERATOR.to_owned()),
        (
            crd_names::LABEL_APP_COMPONENT.to_owned(),
            "operator".to_owned(),
        ),
    ])
}

/// Returns the metadata of an object of the installation.
pub(super) fn meta(name: &str, namespace: Option<&str>) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: namespace.map(str::to_owned),
        labels: Some(labels()),
        ..ObjectMeta::default()
    }
}

/// Returns the operator's namespace, closed to pods that break the `restricted` standard.
pub(super) fn namespace() -> Namespace {
    let mut metadata = meta(OPERATOR_NAMESPACE, None);
    let standard = ["enforce", "audit", "warn"].map(|mode| {
        (
            format!("pod-security.kubernetes.io/{mode}"),
            "restricted".to_owned(),
        )
    });
    metadata.labels.get_or_insert_default().extend(standard);
    Namespace {
        metadata,
        ..Namespace::default()
    }
}

pub(super) fn service_account() -> ServiceAccount {
    ServiceAccount {
        metadata: meta(OPERATOR, Some(OPERATOR_NAMESPACE)),
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    }
}

/// Returns the operator as the subject of a binding.
pub(super) fn subject() -> Value {
    json!({"kind": "ServiceAccount", "name": OPERATOR, "namespace": OPERATOR_NAMESPACE})
}

/// Returns a Role or `ClusterRole`.
pub(super) fn role(
    kind: &str,
    name: &str,
    namespace: Option<&str>,
    extra_labels: &[(&str, &str)],
    rules: &[Reasoned],
) -> Document {
    let mut metadata = meta(name, namespace);
    let extra = extra_labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    metadata.labels.get_or_insert_default().extend(extra);
    Document {
        object: json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata}),
        rules: rules.to_vec(),
    }
}

/// Returns a `ClusterRole` whose rules are gathered from every `ClusterRole` with a label.
pub(super) fn aggregated(name: &str, label: &str) -> Document {
    Document::plain(json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "ClusterRole",
        "metadata": meta(name, None),
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]},
    }))
}

/// Returns the binding of `subject` to a role: for the cluster, or in `namespace`.
pub(super) fn binding(
    role_kind: &str,
    role: &str,
    namespace: Option<&str>,
    name: &str,
    subject: &Value,
) -> Document {
    let kind = if namespace.is_some() {
        "RoleBinding"
    } else {
        "ClusterRoleBinding"
    };
    Document::plain(json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": kind,
        "metadata": meta(name, namespace),
        "roleRef": {"apiGroup": RBAC, "kind": role_kind, "name": role},
        "subjects": [subject],
    }))
}

pub(super) fn deployment() -> Deployment {
    Deployment {
        metadata: meta(OPERATOR, Some(OPERATOR_NAMESPACE)),
        spec: Some(DeploymentSpec {
            replicas: Some(1),
            selector: LabelSelector {
                match_labels: Some(selector()),
                ..LabelSelector::default()
            },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels()),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod()),
            },
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}

fn pod() -> PodSpec {
    PodSpec {
        service_account_name: Some(OPERATOR.to_owned()),
        automount_service_account_token: Some(true),
        enable_service_links: Some(false),
        security_context: Some(security::pod()),
        containers: vec![Container {
            name: "operator".to_owned(),
            image: Some(operator_image()),
            image_pull_policy: Some("IfNotPresent".to_owned()),
            args: Some(vec!["run".to_owned()]),
            env: Some(environment()),
            ports: Some(vec![ContainerPort {
                name: Some("metrics".to_owned()),
                container_port: METRICS_PORT,
                protocol: Some("TCP".to_owned()),
                ..ContainerPort::default()
            }]),
            liveness_probe: Some(probe("/healthz")),
            readiness_probe: Some(Probe {
                period_seconds: Some(2),
                ..probe("/readyz")
            }),
            resources: Some(resources()),
            security_context: Some(security::container()),
            termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
            ..Container::default()
        }],
        ..PodSpec::default()
    }
}

fn environment() -> Vec<EnvVar> {
    let field = |name: &str, path: &str| EnvVar {
        name: name.to_owned(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                field_path: path.to_owned(),
                ..ObjectFieldSelector::default()
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    };
    vec![
        field("POD_NAME", "metadata.name"),
        field("POD_NAMESPACE", "metadata.namespace"),
        EnvVar {
            name: SERVER_IMAGE_ENV.to_owned(),
            value: Some(server_image()),
            ..EnvVar::default()
        },
        EnvVar {
            name: POSTGRES_IMAGE_ENV.to_owned(),
            value: Some(managed::DEFAULT_IMAGE.to_owned()),
            ..EnvVar::default()
        },
    ]
}

fn probe(path: &str) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::String("metrics".to_owned()),
            ..HTTPGetAction::default()
        }),
        ..Probe::default()
    }
}

/// Returns the operator's resources. A mirror holds a page of reports at a time; the rest is the
/// cache of APIServices.
fn resources() -> ResourceRequirements {
    let quantities = |pairs: &[(&str, &str)]| -> BTreeMap<String, Quantity> {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), Quantity((*v).to_owned())))
            .collect()
    };
    ResourceRequirements {
        requests: Some(quantities(&[("cpu", "50m"), ("memory", "64Mi")])),
        limits: Some(quantities(&[("memory", "512Mi")])),
        ..ResourceRequirements::default()
    }
}
