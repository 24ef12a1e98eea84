//! The children as they stand in the cluster.

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;

use crate::certs;

/// The children as they were found.
#[derive(Debug)]
pub struct Found {
    /// The server, where it is there.
    pub deployment: Option<Deployment>,
    /// The server's pods, read only while the server is not ready.
    pub pods: Vec<Pod>,
    /// A PostgreSQL that the operator runs, where it is there.
    pub stateful_set: Option<StatefulSet>,
    /// The control API.
    pub control_api: APIService,
    /// The certificates.
    pub certs: certs::Outcome,
}
