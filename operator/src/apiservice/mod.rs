//! APIServices: the server that answers for a version of a group, and the one write that changes
//! it.
//!
//! The kube-apiserver keeps a Local APIService for every served version of a CRD and labels it
//! `automanaged`. While the label is there, any other edit is reverted within milliseconds; once it
//! is gone, the object is left alone for ever. So the label and the Service change in one patch,
//! and the way back is a DELETE: an edit in place leaves a ghost in aggregated discovery.

mod damage;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crds::names::{ANNOTATION_CLAIMED_BY, LABEL_AUTOMANAGED};
use json_patch::Patch;
use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::{
    APIService, APIServiceSpec, ServiceReference,
};
use serde_json::{Value, json};

pub use damage::{Damage, restored};

/// The Service that an APIService points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceRef {
    /// Namespace of the Service.
    pub namespace: String,
    /// Name of the Service.
    pub name: String,
    /// Port of the Service, 1 to 65535.
    pub port: u16,
}

/// Annotation: the time at which our server was put in charge (RFC 3339).
pub const SWITCHED_AT: &str = "reports-server.io/switched-at";
/// Annotation: the time at which the copies in etcd were deleted (RFC 3339).
pub const PRUNED_AT: &str = "reports-server.io/pruned-at";
/// Annotation: size of the objects in etcd at the switch, as JSON, in bytes.
pub const ETCD_BYTES: &str = "reports-server.io/etcd-bytes";
/// Annotation: the server that the group was taken over from, as `namespace/name` of its Service.
pub const TAKEN_FROM: &str = "reports-server.io/taken-from";
/// Annotation: the part of the APIService that led to that server, as JSON; there until nothing of
/// it is needed any more.
pub const TAKEN_SPEC: &str = "reports-server.io/taken-spec";

/// `spec.groupPriorityMinimum` of a CRD's APIService; kept so that discovery keeps its order.
const GROUP_PRIORITY: i32 = 1000;
/// `spec.versionPriority` of a CRD's APIService.
const VERSION_PRIORITY: i32 = 100;

/// The holder of a version, judged by its APIService.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// There is no APIService.
    Absent,
    /// The CRD: Local and owned by the kube-apiserver.
    Crd,
    /// Our server.
    Ours,
    /// Local, but not owned by the kube-apiserver: somebody took the label away.
    Unmanaged,
    /// Another Service, named `namespace/name`.
    Foreign(String),
}

/// Returns the holder that an APIService names; `service` is ours.
#[must_use]
pub fn holder(api_service: Option<&APIService>, service: &ServiceRef) -> Holder {
    let Some(api_service) = api_service else {
        return Holder::Absent;
    };
    let Some(target) = api_service.spec.as_ref().and_then(|s| s.service.as_ref()) else {
        let owned = api_service
            .metadata
            .labels
            .as_ref()
            .and_then(|l| l.get(LABEL_AUTOMANAGED))
            .is_some_and(|v| v == "true" || v == "onstart");
        return if owned {
            Holder::Crd
        } else {
            Holder::Unmanaged
        };
    };
    let namespace = target.namespace.as_deref().unwrap_or_default();
    let name = target.name.as_deref().unwrap_or_default();
    if namespace == service.namespace && name == service.name {
        Holder::Ours
    } else {
        Holder::Foreign(format!("{namespace}/{name}"))
    }
}

/// Returns whether an APIService of ours differs from what it should be: port, CA bundle, or a server
/// that is not verified. Without an authority there is nothing to bring it up to date with.
#[must_use]
pub fn is_outdated(api_service: &APIService, service: &ServiceRef, ca_bundle: &[u8]) -> bool {
    if ca_bundle.is_empty() {
        return false;
    }
    api_service.spec.as_ref().is_none_or(|spec| {
        spec.ca_bundle.as_ref().is_none_or(|b| b.0 != ca_bundle)
            || spec.insecure_skip_tls_verify == Some(true)
            || spec.service.as_ref().and_then(|s| s.port) != Some(i32::from(service.port))
    })
}

/// Returns the patch that puts our server in charge of an APIService of a CRD. Its first operation
/// refuses it when anybody has changed the object since `current` was read.
#[must_use]
pub fn takeover_patch(
    current: &APIService,
    service: &ServiceRef,
    ca_bundle: &[u8],
    annotations: &BTreeMap<String, String>,
) -> Patch {
    let mut operations = vec![test_version(&current.metadata)];
    let labels = current.metadata.labels.as_ref();
    if labels.is_some_and(|l| l.contains_key(LABEL_AUTOMANAGED)) {
        operations.push(json!({"op": "remove",
            "path": format!("/metadata/labels/{}", escape(LABEL_AUTOMANAGED))}));
    }
    let mut annotations = annotations.clone();
    if let Some(theirs) = foreign_service(current) {
        annotations.insert(TAKEN_FROM.to_owned(), theirs);
        annotations.insert(TAKEN_SPEC.to_owned(), taken(current).to_string());
        // Whoever removes the other server would have the garbage collector delete this one.
        if current.metadata.owner_references.is_some() {
            operations.push(json!({"op": "remove", "path": "/metadata/ownerReferences"}));
        }
    }
    operations.extend(annotate(&current.metadata, &annotations));
    operations.extend(verify(current));
    operations.extend(spec_operations(service, ca_bundle));
    patch(operations)
}

/// Returns `namespace/name` of the Service that an APIService points to, if it points to one.
fn foreign_service(api_service: &APIService) -> Option<String> {
    let target = api_service.spec.as_ref()?.service.as_ref()?;
    let namespace = target.namespace.as_deref().unwrap_or_default();
    let name = target.name.as_deref().unwrap_or_default();
    Some(format!("{namespace}/{name}"))
}

/// Returns what a take-over changes of an APIService that leads to another server.
fn taken(current: &APIService) -> Value {
    json!({"spec": current.spec, "ownerReferences": current.metadata.owner_references})
}

/// Returns the patch that leads an APIService back to the server that it was taken over from;
/// `None` where nothing tells how it was.
#[must_use]
pub fn return_patch(current: &APIService) -> Option<Patch> {
    let annotations = current.metadata.annotations.as_ref()?;
    let taken: Value = serde_json::from_str(annotations.get(TAKEN_SPEC)?).ok()?;
    let mut operations = vec![
        test_version(&current.metadata),
        json!({"op": "replace", "path": "/spec", "value": taken.get("spec")?}),
    ];
    if let Some(owners) = taken.get("ownerReferences").filter(|o| !o.is_null()) {
        operations.push(json!({"op": "add", "path": "/metadata/ownerReferences", "value": owners}));
    }
    let ours = [
        TAKEN_FROM,
        TAKEN_SPEC,
        SWITCHED_AT,
        ETCD_BYTES,
        ANNOTATION_CLAIMED_BY,
    ];
    let noted = ours.iter().filter(|key| annotations.contains_key(**key));
    operations.extend(noted.map(|key| remove_annotation(key)));
    Some(patch(operations))
}

/// Returns the patch that takes an annotation off; `None` where it is not there.
#[must_use]
pub fn forget_patch(current: &APIService, key: &str) -> Option<Patch> {
    let annotations = current.metadata.annotations.as_ref()?;
    annotations.contains_key(key).then(|| {
        patch(vec![
            test_version(&current.metadata),
            remove_annotation(key),
        ])
    })
}

fn remove_annotation(key: &str) -> Value {
    json!({"op": "remove", "path": format!("/metadata/annotations/{}", escape(key))})
}

/// Returns the patch that brings an APIService of ours up to date.
#[must_use]
pub fn refresh_patch(current: &APIService, service: &ServiceRef, ca_bundle: &[u8]) -> Patch {
    let mut operations = vec![test_version(&current.metadata)];
    operations.extend(verify(current));
    operations.extend(spec_operations(service, ca_bundle));
    patch(operations)
}

/// Returns the patch that adds annotations to an APIService.
#[must_use]
pub fn annotate_patch(current: &APIService, annotations: &BTreeMap<String, String>) -> Patch {
    let mut operations = vec![test_version(&current.metadata)];
    operations.extend(annotate(&current.metadata, annotations));
    patch(operations)
}

/// Returns the APIService of a version that no CRD serves.
#[must_use]
pub fn registration(
    group: &str,
    version: &str,
    service: &ServiceRef,
    ca_bundle: &[u8],
    annotations: &BTreeMap<String, String>,
) -> APIService {
    APIService {
        metadata: ObjectMeta {
            name: Some(name(group, version)),
            annotations: Some(annotations.clone()),
            ..ObjectMeta::default()
        },
        spec: Some(APIServiceSpec {
            group: Some(group.to_owned()),
            version: Some(version.to_owned()),
            group_priority_minimum: GROUP_PRIORITY,
            version_priority: VERSION_PRIORITY,
            service: Some(ServiceReference {
                namespace: Some(service.namespace.clone()),
                name: Some(service.name.clone()),
                port: Some(i32::from(service.port)),
            }),
            ca_bundle: Some(ByteString(ca_bundle.to_vec())),
            insecure_skip_tls_verify: None,
        }),
        status: None,
    }
}

/// Returns the name of the APIService of a version.
#[must_use]
pub fn name(group: &str, version: &str) -> String {
    format!("{version}.{group}")
}

/// Returns whether the kube-aggregator reports the APIService as Available.
#[must_use]
pub fn is_available(api_service: &APIService) -> bool {
    api_service
        .status
        .as_ref()
        .and_then(|s| s.conditions.as_ref())
        .is_some_and(|c| {
            c.iter()
                .any(|c| c.type_ == "Available" && c.status == "True")
        })
}

/// Returns the operation by which the server is verified, where it is not: the kube-apiserver takes
/// a CA bundle only then.
fn verify(current: &APIService) -> Option<Value> {
    let spec = current.spec.as_ref()?;
    spec.insecure_skip_tls_verify?;
    Some(json!({"op": "remove", "path": "/spec/insecureSkipTLSVerify"}))
}

fn spec_operations(service: &ServiceRef, ca_bundle: &[u8]) -> [Value; 2] {
    [
        json!({"op": "add", "path": "/spec/service", "value": {
            "namespace": service.namespace, "name": service.name, "port": service.port}}),
        json!({"op": "add", "path": "/spec/caBundle", "value": ByteString(ca_bundle.to_vec())}),
    ]
}

fn test_version(meta: &ObjectMeta) -> Value {
    json!({"op": "test", "path": "/metadata/resourceVersion", "value": meta.resource_version})
}

fn annotate(meta: &ObjectMeta, annotations: &BTreeMap<String, String>) -> Vec<Value> {
    if annotations.is_empty() {
        return Vec::new();
    }
    if meta.annotations.is_none() {
        return vec![json!({"op": "add", "path": "/metadata/annotations", "value": annotations})];
    }
    let one = |(key, value): (&String, &String)| {
        json!({"op": "add", "path": format!("/metadata/annotations/{}", escape(key)),
            "value": value})
    };
    annotations.iter().map(one).collect()
}

/// Escapes a JSON pointer segment (RFC 6901).
fn escape(segment: &str) -> String {
    segment.replace('~', "~0").replace('/', "~1")
}

/// Returns the patch of these operations. As built here, they always have the shape of a patch; one
/// that had not would leave an empty patch, which changes nothing.
fn patch(operations: Vec<Value>) -> Patch {
    serde_json::from_value(Value::Array(operations)).unwrap_or_default()
}
