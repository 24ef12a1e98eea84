//! The `ClusterServiceVersion`: everything that OLM and consoles know of a release.

use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::descriptors::{Side, descriptors};
use super::examples;
use super::parts::Parts;
use super::release;
use crate::manifests::error::Error;
use crate::manifests::place::Place;
use crate::manifests::render::{Document, rules_to_yaml};
use crate::manifests::rules::Reasoned;
use crate::names::OPERATOR;

/// Stands for the operator's rules, which are written with their reasons.
const RULES: &str = "RULES-OF-THE-OPERATOR";

/// A `ClusterServiceVersion`.
pub(super) struct Csv {
    /// The object with a mark in place of the operator's rules.
    pub object: Value,
    /// The same as YAML, whole.
    pub text: String,
}

/// Returns the `ClusterServiceVersion` of an installation.
///
/// # Errors
/// If something cannot be rendered.
pub(super) fn csv(place: &Place, parts: &Parts, examples: &[Value]) -> Result<Csv, Error> {
    let object = json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": release::bundle_name(),
            "labels": {
                "operatorframework.io/arch.amd64": "supported",
                "operatorframework.io/arch.arm64": "supported",
                "operatorframework.io/os.linux": "supported",
            },
            "annotations": annotations(place, examples)?,
        },
        "spec": spec(place, parts),
    });
    let text = Document::plain(object.clone()).to_yaml()?;
    Ok(Csv {
        text: with_rules(&text, &parts.granted)?,
        object,
    })
}

fn annotations(place: &Place, examples: &[Value]) -> Result<Value, Error> {
    let first = examples
        .iter()
        .find(|example| example["metadata"]["name"] == examples::FIRST)
        .ok_or(Error::Missing("example to begin with"))?;
    let mut annotations = json!({
        "alm-examples": serde_json::to_string_pretty(examples)?,
        "capabilities": release::CAPABILITIES,
        "categories": "Database,Monitoring,Security",
        "certified": "false",
        "containerImage": place.operator_image,
        "description": release::SUMMARY,
        "operatorframework.io/initialization-resource": serde_json::to_string_pretty(first)?,
        "operatorframework.io/suggested-namespace": place.namespace,
        "support": release::maintainers().0,
    });
    if let Some(created) = release::created_at() {
        annotations["createdAt"] = json!(created);
    }
    if let Some(edge) = release::edge() {
        annotations["olm.skipRange"] = json!(edge.skip_range);
    }
    for (feature, has) in FEATURES {
        annotations[format!("features.operators.openshift.io/{feature}")] = json!(has.to_string());
    }
    Ok(annotations)
}

/// The features of an operator that consoles show. None is claimed: `disconnected` would say that
/// all images are named by their digests.
const FEATURES: [(&str, bool); 10] = [
    ("cnf", false),
    ("cni", false),
    ("csi", false),
    ("disconnected", false),
    ("fips-compliant", false),
    ("proxy-aware", false),
    ("tls-profiles", false),
    ("token-auth-aws", false),
    ("token-auth-azure", false),
    ("token-auth-gcp", false),
];

fn spec(place: &Place, parts: &Parts) -> Value {
    let (maintainers, address) = release::maintainers();
    let mut spec = json!({
        "displayName": release::DISPLAY_NAME,
        "description": include_str!("files/description.md"),
        "version": release::VERSION,
        "maturity": "alpha",
        "minKubeVersion": release::MIN_KUBERNETES,
        "keywords": ["policy-reports", "kyverno", "etcd", "operator"],
        "provider": {"name": release::DISPLAY_NAME, "url": release::HOME},
        "maintainers": [{"name": maintainers, "email": address}],
        "links": [{"name": release::DISPLAY_NAME, "url": release::HOME}],
        "icon": [icon()],
        "installModes": install_modes(),
        "customresourcedefinitions": {"owned": owned(&parts.crd.object)},
        "relatedImages": related_images(place),
        "install": install(parts),
    });
    if let Some(edge) = release::edge() {
        spec["replaces"] = json!(edge.replaces);
    }
    spec
}

/// Returns the icon as a `ClusterServiceVersion` and a package have it.
pub(super) fn icon() -> Value {
    let data = ByteString(release::ICON.as_bytes().to_vec());
    json!({"base64data": data, "mediatype": release::ICON_TYPE})
}

/// Returns the modes: a `ReportsServer` is of the whole cluster, and so are the APIs that it moves.
fn install_modes() -> Vec<Value> {
    let modes = [
        ("OwnNamespace", false),
        ("SingleNamespace", false),
        ("MultiNamespace", false),
        ("AllNamespaces", true),
    ];
    let modes = modes.iter();
    modes
        .map(|(mode, supported)| json!({"type": mode, "supported": supported}))
        .collect()
}

/// Returns the versions of the CRD, each with a descriptor for every field.
fn owned(crd: &Value) -> Vec<Value> {
    let spec = &crd["spec"];
    let versions = spec["versions"].as_array().into_iter().flatten();
    let of_version = |version: &Value| {
        let schema = &version["schema"]["openAPIV3Schema"];
        json!({
            "name": crd["metadata"]["name"],
            "version": version["name"],
            "kind": spec["names"]["kind"],
            "displayName": release::DISPLAY_NAME,
            "description": schema["description"],
            "resources": resources(),
            "specDescriptors": descriptors(schema, Side::Spec),
            "statusDescriptors": descriptors(schema, Side::Status),
        })
    };
    versions.map(of_version).collect()
}

/// The kinds of a `ReportsServer`'s children that consoles show beside it.
pub(super) const CHILDREN: [(&str, &str); 16] = [
    ("APIService", "apiregistration.k8s.io/v1"),
    ("ConfigMap", "v1"),
    ("CronJob", "batch/v1"),
    ("Deployment", "apps/v1"),
    ("HorizontalPodAutoscaler", "autoscaling/v2"),
    ("Job", "batch/v1"),
    ("NetworkPolicy", "networking.k8s.io/v1"),
    ("PersistentVolumeClaim", "v1"),
    ("Pod", "v1"),
    ("PodDisruptionBudget", "policy/v1"),
    ("Role", "rbac.authorization.k8s.io/v1"),
    ("RoleBinding", "rbac.authorization.k8s.io/v1"),
    ("Secret", "v1"),
    ("Service", "v1"),
    ("ServiceAccount", "v1"),
    ("StatefulSet", "apps/v1"),
];

fn resources() -> Vec<Value> {
    let children = CHILDREN.iter();
    children
        .map(|(kind, version)| json!({"kind": kind, "name": "", "version": version}))
        .collect()
}

/// Returns every image that an installation starts, so that mirrors have them all.
pub(super) fn related_images(place: &Place) -> Vec<Value> {
    let images = [
        ("operator", &place.operator_image),
        ("server", &place.server_image),
        ("postgres", &place.postgres_image),
    ];
    let images = images.into_iter();
    images
        .map(|(name, image)| json!({"name": name, "image": image}))
        .collect()
}

/// Returns what OLM makes: account, rights and Deployment.
fn install(parts: &Parts) -> Value {
    let deployment = &parts.deployment.object;
    json!({
        "strategy": "deployment",
        "spec": {
            "clusterPermissions": [{
                "rules": RULES,
                "serviceAccountName": OPERATOR,
            }],
            "deployments": [{
                "name": deployment["metadata"]["name"],
                "label": deployment["metadata"]["labels"],
                "spec": deployment["spec"],
            }],
        },
    })
}

/// Returns the text with the rules in place of their mark, each below its reason.
fn with_rules(text: &str, rules: &[Reasoned]) -> Result<String, Error> {
    let (before, after) = text
        .split_once(&format!("rules: {RULES}\n"))
        .ok_or(Error::Missing("mark for the rules of the operator"))?;
    let columns = before.len() - before.rfind('\n').map_or(0, |end| end + 1);
    let separator = format!("\n{}", " ".repeat(columns));
    let rules = rules_to_yaml(rules)?;
    let rules: Vec<&str> = rules.lines().collect();
    Ok(format!("{before}{}\n{after}", rules.join(&separator)))
}
