//! The Secrets with the certificates, and what asks for one.

use k8s_openapi::api::core::v1::Secret;
use kube::api::DynamicObject;

use super::Validated;
use super::metadata::namespaced;
use crate::cert_manager;
use crate::certs::Material;
use crate::database::moving;

/// Type of a Secret with `tls.crt` and `tls.key`.
const TLS: &str = "kubernetes.io/tls";

pub(super) fn ca(spec: &Validated, material: &Material) -> Secret {
    Secret {
        metadata: namespaced(spec, spec.names.ca()),
        type_: Some(TLS.to_owned()),
        data: Some(material.ca_data()),
        ..Secret::default()
    }
}

/// Returns where the server is to move the reports, while there is something to tell it.
#[must_use]
pub fn database_move(spec: &Validated) -> Option<Secret> {
    let embedded = spec.moving.as_ref().map(|moving| &moving.secret);
    let between = spec.between.as_ref().map(|between| &between.secret);
    let told = embedded.or(between)?.as_ref()?;
    Some(Secret {
        metadata: namespaced(spec, spec.names.database_move()),
        data: Some(moving::data(told)),
        ..Secret::default()
    })
}

pub(super) fn serving_cert(spec: &Validated, material: &Material) -> Secret {
    Secret {
        metadata: namespaced(spec, spec.names.serving_cert()),
        type_: Some(TLS.to_owned()),
        data: Some(material.serving_data()),
        ..Secret::default()
    }
}

/// Returns what asks cert-manager for the server's certificate.
pub(super) fn certificate(spec: &Validated) -> Option<DynamicObject> {
    let plan = spec.certificate.as_ref()?;
    let metadata = namespaced(spec, plan.name.clone());
    Some(cert_manager::certificate(metadata, plan))
}
