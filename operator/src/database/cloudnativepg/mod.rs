//! PostgreSQL by `CloudNativePG`: a `Cluster` that is made or used, its Secrets and its primary.
//!
//! The `Cluster` is read and written as an untyped object, so that any version of `CloudNativePG`
//! with `postgresql.cnpg.io/v1` will do.

mod build;
mod observe;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crds::v1alpha1::spec::{CloudNativePgCreate, CloudNativePgSpec};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::{Api, Client};

use super::files::Problem;
use super::place::Connection;
use crate::said::said;

pub use build::{DATABASE, OWNER, cluster, is_as_wanted};
pub use observe::Observed;

/// Name of the CRD of `Cluster`.
pub const CRD: &str = "clusters.postgresql.cnpg.io";

/// Label of the pods of a `Cluster`, its value the name.
const POD_LABEL: &str = "cnpg.io/cluster";

/// Returns the labels of the pods of the `Cluster` called `name`.
#[must_use]
pub fn pod_labels(name: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(POD_LABEL.to_owned(), name.to_owned())])
}

/// The wanted use of `CloudNativePG`.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Name of the `Cluster` in the target namespace.
    pub name: String,
    /// The specification by which it is made; without one, it is somebody else's.
    pub create: Option<CloudNativePgCreate>,
}

impl Plan {
    /// Returns the plan of a specification. `own` is the name of a `Cluster` of ours.
    #[must_use]
    pub fn of(spec: &CloudNativePgSpec, own: String) -> Self {
        match (&spec.create, &spec.cluster_ref) {
            (None, Some(reference)) => Self {
                name: reference.name.clone(),
                create: None,
            },
            (create, _) => Self {
                name: own,
                create: Some(create.clone().unwrap_or_default()),
            },
        }
    }
}

/// A PostgreSQL that `CloudNativePG` runs, as it was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// True when the cluster has the CRD of `Cluster`.
    pub crd: bool,
    /// The `Cluster`.
    pub cluster: Option<Observed>,
}

/// The way to a PostgreSQL that `CloudNativePG` runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Reached {
    /// The connection.
    pub connection: Connection,
    /// The instance that takes writes.
    pub primary: Option<String>,
    /// The reason why it cannot be used. There may be something to connect to nevertheless.
    pub problem: Option<Problem>,
}

/// The `Cluster` could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} Cluster {namespace}/{name} of CloudNativePG: {}", said(.source))]
pub struct Error {
    doing: &'static str,
    namespace: String,
    name: String,
    /// The error of the kube-apiserver.
    pub source: kube::Error,
}

/// Returns the kind `Cluster`.
#[must_use]
pub fn resource() -> ApiResource {
    let kind = GroupVersionKind::gvk("postgresql.cnpg.io", "v1", "Cluster");
    ApiResource::from_gvk_with_plural(&kind, "clusters")
}

/// Reads the `Cluster` of this name, where the cluster has the CRD.
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
    let crd = crds.get_metadata_opt(CRD).await.map_err(failed("find"))?;
    if crd.is_none() {
        return Ok(Found::default());
    }
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource());
    let found = api.get_opt(name).await.map_err(failed("read"))?;
    Ok(Found {
        crd: true,
        cluster: found.as_ref().map(Observed::of),
    })
}

/// Returns the way to the database of `plan`, with what was found of it.
#[must_use]
pub fn reached(namespace: &str, plan: &Plan, found: Option<&Found>) -> Reached {
    match found.filter(|found| found.crd) {
        Some(found) => observe::reached(namespace, plan, found.cluster.as_ref()),
        None => observe::without_crd(namespace, plan),
    }
}
