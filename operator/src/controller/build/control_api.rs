//! The APIService of the control API: the canary of every switch, and the operator's hand on the
//! server. It is there as soon as the server is, while report APIs are registered by the migration.

use crds::control;
use k8s_openapi::ByteString;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::{
    APIService, APIServiceSpec, ServiceReference,
};

use super::Validated;
use super::metadata::cluster;
use crate::certs::Material;
use crate::names::SERVICE_PORT;

/// Name of the APIService.
#[must_use]
pub fn name() -> String {
    format!("{}.{}", control::VERSION, control::GROUP)
}

pub(super) fn api_service(spec: &Validated, material: &Material) -> APIService {
    APIService {
        metadata: cluster(spec, name()),
        spec: Some(APIServiceSpec {
            group: Some(control::GROUP.to_owned()),
            version: Some(control::VERSION.to_owned()),
            service: Some(ServiceReference {
                namespace: Some(spec.namespace.clone()),
                name: Some(spec.names.server()),
                port: Some(SERVICE_PORT),
            }),
            ca_bundle: Some(ByteString(material.bundle().into_bytes())),
            // Behind every other group in discovery: nobody looks for it by a short name.
            group_priority_minimum: 100,
            version_priority: 10,
            ..APIServiceSpec::default()
        }),
        ..APIService::default()
    }
}
