//! Version `v1alpha1` of [`ReportsServer`].

pub mod conditions;
pub mod defaults;
pub mod listed;
pub mod reasons;
mod rules;
mod schema;
pub mod spec;
pub mod status;
pub mod support;

pub use spec::{ReportsServer, ReportsServerSpec};
pub use status::ReportsServerStatus;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;

/// Returns the CRD of [`ReportsServer`] as it is published in `manifests/crd`.
///
/// # Errors
/// If the derived schema cannot be expressed as a CRD's schema; a test shows that it can.
pub fn reports_server_crd() -> Result<CustomResourceDefinition, serde_json::Error> {
    let mut crd = serde_json::to_value(ReportsServer::crd())?;
    if let Some(serde_json::Value::Array(versions)) = crd.pointer_mut("/spec/versions") {
        for schema in versions
            .iter_mut()
            .filter_map(|v| v.pointer_mut("/schema/openAPIV3Schema"))
        {
            schema::publish(schema);
        }
    }
    serde_json::from_value(crd)
}
