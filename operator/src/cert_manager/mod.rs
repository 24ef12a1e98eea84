//! The server's certificate by cert-manager: the `Certificate` that asks for it, and what
//! cert-manager tells of it.
//!
//! It is read and written as an untyped object, so that any version of cert-manager with
//! `cert-manager.io/v1` will do.

#[cfg(test)]
mod tests;

use std::time::Duration;

use crds::v1alpha1::spec::IssuerReference;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::said::said;

/// Name of the CRD of `Certificate`.
pub const CRD: &str = "certificates.cert-manager.io";
/// The API group of cert-manager, and of its own issuers.
pub const GROUP: &str = "cert-manager.io";
/// The kind of an issuer where nothing is said.
const ISSUER: &str = "Issuer";

/// The wanted `Certificate`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The name of the `Certificate`.
    pub name: String,
    /// The Secret that cert-manager writes.
    pub secret: String,
    /// The DNS names that it is for.
    pub dns_names: Vec<String>,
    /// The issuer that signs.
    pub issuer: IssuerReference,
    /// The lifetime of the certificate, where that is said.
    pub validity: Option<Duration>,
    /// The time before its end at which it is replaced, where that is said.
    pub renew_before: Option<Duration>,
}

/// The state of a `Certificate`, as cert-manager tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// True when there is a certificate that is as it is asked for.
    pub ready: bool,
    /// The words of cert-manager about it.
    pub words: String,
}

/// cert-manager, as it was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// True when the cluster has the CRD of `Certificate`.
    pub crd: bool,
    /// The `Certificate`.
    pub certificate: Option<Observed>,
}

/// The `Certificate` could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} Certificate {namespace}/{name} of cert-manager: {}", said(.source))]
pub struct Error {
    doing: &'static str,
    namespace: String,
    name: String,
    /// The error of the kube-apiserver.
    pub source: kube::Error,
}

/// Returns the kind `Certificate`.
#[must_use]
pub fn resource() -> ApiResource {
    let kind = GroupVersionKind::gvk(GROUP, "v1", "Certificate");
    ApiResource::from_gvk_with_plural(&kind, "certificates")
}

/// Returns the object for server-side apply. What is not said is cert-manager's to decide.
#[must_use]
pub fn certificate(metadata: ObjectMeta, plan: &Plan) -> DynamicObject {
    let issuer = &plan.issuer;
    let mut spec = json!({
        "secretName": plan.secret,
        "dnsNames": plan.dns_names,
        "issuerRef": {
            "name": issuer.name,
            "kind": issuer.kind.as_deref().unwrap_or(ISSUER),
            "group": issuer.group.as_deref().unwrap_or(GROUP),
        },
        "usages": ["digital signature", "server auth"],
        "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
    });
    if let Some(validity) = plan.validity {
        spec["duration"] = json!(seconds(validity));
    }
    if let Some(renew_before) = plan.renew_before {
        spec["renewBefore"] = json!(seconds(renew_before));
    }
    DynamicObject {
        metadata,
        data: json!({ "spec": spec }),
        ..DynamicObject::new("", &resource())
    }
}

/// Returns a duration as Go reads it.
fn seconds(duration: Duration) -> String {
    format!("{}s", duration.as_secs())
}

/// Reads the `Certificate` of this name, where the cluster has the CRD.
///
/// # Errors
/// If the kube-apiserver refuses it. A missing object is an answer.
pub async fn find(client: &Client, namespace: &str, name: &str) -> Result<Found, Error> {
    let failed = |doing| {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        move |source| Error {
            doing,
            namespace,
            name,
            source,
        }
    };
    let crds = Api::<CustomResourceDefinition>::all(client.clone());
    let crd = crds.get_metadata_opt(CRD).await;
    if crd.map_err(failed("find the CRD of"))?.is_none() {
        return Ok(Found::default());
    }
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource());
    let found = api.get_opt(name).await.map_err(failed("read"))?;
    Ok(Found {
        crd: true,
        certificate: found.as_ref().map(Observed::of),
    })
}

impl Observed {
    /// Reads an object.
    #[must_use]
    pub fn of(object: &DynamicObject) -> Self {
        let conditions = object.data.pointer("/status/conditions");
        let conditions = conditions.and_then(Value::as_array);
        let find = |type_: &str, status: &str| {
            let mut all = conditions.into_iter().flatten();
            all.find(|found| found["type"] == type_ && found["status"] == status)
        };
        // An issue that has failed is told by a condition of its own; it is tried again.
        let told = [find("Ready", "False"), find("Issuing", "False")];
        let told = told.into_iter().flatten();
        let words: Vec<&str> = told
            .filter_map(|condition| condition["message"].as_str())
            .filter(|message| !message.is_empty())
            .collect();
        Self {
            ready: find("Ready", "True").is_some(),
            words: if words.is_empty() {
                "cert-manager has told nothing yet: does it run?".to_owned()
            } else {
                words.join("; ")
            },
        }
    }
}
