//! The Secrets with the certificates.

use k8s_openapi::api::core::v1::Secret;

use super::Validated;
use super::metadata::namespaced;
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

/// Returns where an embedded server is to move its reports, while there is something to tell it.
pub(super) fn database_move(spec: &Validated) -> Option<Secret> {
    let told = spec.moving.as_ref()?.secret.as_ref()?;
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
