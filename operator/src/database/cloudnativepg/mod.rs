//! PostgreSQL by `CloudNativePG`: a `Cluster` that is made or used, its Secrets and its primary.
//!
//! The `Cluster` is read and written as an untyped object, so that any version of `CloudNativePG`
//! with `postgresql.cnpg.io/v1` will do.

mod build;
mod observe;
#[cfg(test)]
mod tests;

use crds::names::FIELD_MANAGER;
use crds::v1alpha1::spec::{CloudNativePgCreate, CloudNativePgSpec};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};

use super::files::Problem;
use super::place::Connection;
use crate::said::said;

pub use build::{DATABASE, OWNER};
pub use observe::Observed;

/// Name of the CRD of `Cluster`.
pub const CRD: &str = "clusters.postgresql.cnpg.io";

/// What is wanted of `CloudNativePG`.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Name of the `Cluster` in the target namespace.
    pub name: String,
    /// How it is made; without it, it is somebody else's.
    pub create: Option<CloudNativePgCreate>,
}

impl Plan {
    /// Returns what the specification wants. `own` is the name of a `Cluster` of ours.
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

/// How the database is reached, who its primary is, and what keeps it from being used.
#[derive(Clone, Debug, PartialEq)]
pub struct Reconciled {
    /// How it is reached.
    pub connection: Connection,
    /// The instance that takes writes.
    pub primary: Option<String>,
    /// What keeps it from being used, and whether there is something to connect to nevertheless.
    pub problem: Option<Problem>,
}

/// The `Cluster` could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} Cluster {namespace}/{name} of CloudNativePG: {}", said(.source))]
pub struct Error {
    doing: &'static str,
    namespace: String,
    name: String,
    /// What the kube-apiserver said.
    pub source: kube::Error,
}

/// Returns the kind `Cluster`.
#[must_use]
pub fn resource() -> ApiResource {
    let kind = GroupVersionKind::gvk("postgresql.cnpg.io", "v1", "Cluster");
    ApiResource::from_gvk_with_plural(&kind, "clusters")
}

/// Makes the `Cluster` with `metadata` where it is to be made, and looks how it is.
///
/// # Errors
/// If the kube-apiserver refuses something.
pub async fn reconcile(
    client: &Client,
    metadata: &ObjectMeta,
    plan: &Plan,
) -> Result<Reconciled, Error> {
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let failed = |doing| {
        let (namespace, name) = (namespace.to_owned(), plan.name.clone());
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
        return Ok(observe::without_crd(namespace, plan));
    }
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource());
    let found = match &plan.create {
        Some(create) => {
            let object = build::cluster(metadata, create);
            let params = PatchParams::apply(FIELD_MANAGER).force();
            let applied = api.patch(&plan.name, &params, &Patch::Apply(&object)).await;
            Some(applied.map_err(failed("apply"))?)
        }
        None => api.get_opt(&plan.name).await.map_err(failed("read"))?,
    };
    let observed = found.as_ref().map(Observed::of);
    Ok(observe::reconciled(namespace, plan, observed.as_ref()))
}
