//! The objects of the installation.

use std::collections::BTreeMap;

use crds::names as crd_names;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, Container, ContainerPort, EnvVar, EnvVarSource, HTTPGetAction,
    KeyToPath, Namespace, ObjectFieldSelector, PodSpec, PodTemplateSpec, Probe,
    ResourceRequirements, SecretVolumeSource, Service, ServiceAccount, ServicePort, ServiceSpec,
    Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use super::availability;
use super::place::Place;
use super::render::Document;
use super::rules::Reasoned;
use crate::names::{
    LOG_LEVEL_KEY, METRICS_CERT, METRICS_CERT_DIR, METRICS_SERVICE, OPERATOR, OPERATOR_CONFIG,
    OPERATOR_CONFIG_DIR, POSTGRES_IMAGE_ENV, SERVER_IMAGE_ENV, TRACING_CA, TRACING_CA_DIR,
};
use crate::security;

const RBAC: &str = "rbac.authorization.k8s.io";
/// Port of the metrics, and its name.
const METRICS: (&str, i32) = ("metrics", 8443);
/// Port of the probes, and its name.
const HEALTH: (&str, i32) = ("health", 8081);
const CONFIG_VOLUME: &str = "config";
const METRICS_VOLUME: &str = "metrics-cert";
const TRACING_VOLUME: &str = "tracing-ca";
/// Key of a Secret with authorities.
const CA_KEY: &str = "ca.crt";
/// The token of the account under which a Prometheus runs, in its own pod.
const PROMETHEUS_TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

fn labels() -> BTreeMap<String, String> {
    let mut labels = selector();
    labels.insert(
        crd_names::LABEL_APP_PART_OF.to_owned(),
        crd_names::APP_NAME.to_owned(),
    );
    labels
}

/// Returns the labels that select the operator's pods; never changed after the Deployment exists.
pub(super) fn selector() -> BTreeMap<String, String> {
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
pub(super) fn namespace(place: &Place) -> Namespace {
    let mut metadata = meta(&place.namespace, None);
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

/// Returns the operator's account; its pods alone mount the token.
pub(super) fn service_account(place: &Place) -> ServiceAccount {
    ServiceAccount {
        metadata: meta(&place.account, Some(&place.namespace)),
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    }
}

/// Returns the operator as the subject of a binding.
pub(super) fn subject(place: &Place) -> Value {
    json!({"kind": "ServiceAccount", "name": place.account, "namespace": place.namespace})
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

/// Returns the Deployment of the operator.
pub(super) fn deployment(place: &Place) -> Deployment {
    Deployment {
        metadata: meta(OPERATOR, Some(&place.namespace)),
        spec: Some(DeploymentSpec {
            replicas: Some(availability::REPLICAS),
            selector: LabelSelector {
                match_labels: Some(selector()),
                ..LabelSelector::default()
            },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels()),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod(place)),
            },
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}

fn pod(place: &Place) -> PodSpec {
    PodSpec {
        affinity: Some(availability::affinity()),
        priority_class_name: Some(availability::PRIORITY_CLASS.to_owned()),
        service_account_name: Some(place.account.clone()),
        automount_service_account_token: Some(true),
        enable_service_links: Some(false),
        security_context: Some(security::pod()),
        containers: vec![Container {
            name: "operator".to_owned(),
            image: Some(place.operator_image.clone()),
            image_pull_policy: Some("IfNotPresent".to_owned()),
            args: Some(vec![
                "run".to_owned(),
                format!("--log-level-file={OPERATOR_CONFIG_DIR}/{LOG_LEVEL_KEY}"),
                format!("--metrics-cert-dir={METRICS_CERT_DIR}"),
            ]),
            env: Some(environment(place)),
            ports: Some(vec![port(METRICS), port(HEALTH)]),
            liveness_probe: Some(probe("/healthz")),
            readiness_probe: Some(Probe {
                period_seconds: Some(2),
                ..probe("/readyz")
            }),
            resources: Some(resources()),
            security_context: Some(security::container()),
            termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
            volume_mounts: Some(vec![
                mount(CONFIG_VOLUME, OPERATOR_CONFIG_DIR),
                mount(METRICS_VOLUME, METRICS_CERT_DIR),
                mount(TRACING_VOLUME, TRACING_CA_DIR),
            ]),
            ..Container::default()
        }],
        volumes: Some(volumes()),
        ..PodSpec::default()
    }
}

fn port((name, number): (&str, i32)) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: number,
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    }
}

fn mount(volume: &str, path: &str) -> VolumeMount {
    VolumeMount {
        name: volume.to_owned(),
        mount_path: path.to_owned(),
        read_only: Some(true),
        ..VolumeMount::default()
    }
}

/// Returns the volumes. None of the objects has to exist: nothing is in the first that has to be said,
/// without the second the operator signs a certificate itself, and the third is for a collector of
/// traces, where its certificate is not signed by a public authority.
fn volumes() -> Vec<Volume> {
    vec![
        Volume {
            name: CONFIG_VOLUME.to_owned(),
            config_map: Some(ConfigMapVolumeSource {
                name: OPERATOR_CONFIG.to_owned(),
                optional: Some(true),
                ..ConfigMapVolumeSource::default()
            }),
            ..Volume::default()
        },
        Volume {
            name: METRICS_VOLUME.to_owned(),
            secret: Some(SecretVolumeSource {
                secret_name: Some(METRICS_CERT.to_owned()),
                optional: Some(true),
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        },
        Volume {
            name: TRACING_VOLUME.to_owned(),
            secret: Some(SecretVolumeSource {
                secret_name: Some(TRACING_CA.to_owned()),
                items: Some(vec![KeyToPath {
                    key: CA_KEY.to_owned(),
                    path: CA_KEY.to_owned(),
                    ..KeyToPath::default()
                }]),
                optional: Some(true),
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        },
    ]
}

fn environment(place: &Place) -> Vec<EnvVar> {
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
            value: Some(place.server_image.clone()),
            ..EnvVar::default()
        },
        EnvVar {
            name: POSTGRES_IMAGE_ENV.to_owned(),
            value: Some(place.postgres_image.clone()),
            ..EnvVar::default()
        },
    ]
}

fn probe(path: &str) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::String(HEALTH.0.to_owned()),
            ..HTTPGetAction::default()
        }),
        ..Probe::default()
    }
}

/// Returns the Service by which Prometheus finds the metrics of the operators, one by one.
pub(super) fn metrics_service(place: &Place) -> Service {
    Service {
        metadata: meta(METRICS_SERVICE, Some(&place.namespace)),
        spec: Some(ServiceSpec {
            selector: Some(selector()),
            ports: Some(vec![ServicePort {
                name: Some(METRICS.0.to_owned()),
                port: METRICS.1,
                target_port: Some(IntOrString::String(METRICS.0.to_owned())),
                protocol: Some("TCP".to_owned()),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

/// Returns the `ServiceMonitor` that has Prometheus scrape the operator. Its certificate is one that
/// nobody else signed, so it is not verified; a `PodMonitor` could not send the token of the account.
pub(super) fn monitor(place: &Place) -> Value {
    json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": meta(OPERATOR, Some(&place.namespace)),
        "spec": {
            "selector": {"matchLabels": selector()},
            "endpoints": [{
                "port": METRICS.0,
                "scheme": "https",
                "path": "/metrics",
                "interval": "30s",
                "bearerTokenFile": PROMETHEUS_TOKEN,
                "tlsConfig": {"insecureSkipVerify": true},
            }],
        },
    })
}

/// Returns the operator's resources. A mirror holds a page of reports at a time; the rest is the
/// cache of APIServices.
pub(super) fn resources() -> ResourceRequirements {
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
