//! Objects without a type of ours, and whether an object is somebody else's.

use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use kube::{Api, Client, ResourceExt};

use super::error::Error;
use crate::controller::ownership;
use crate::controller::validate::Validated;

/// Applies an object of a kind that not every cluster has, unless it is somebody else's.
///
/// # Errors
/// If it is, or the kube-apiserver refuses it.
pub(super) async fn apply(
    client: &Client,
    resource: &ApiResource,
    object: &DynamicObject,
    params: &PatchParams,
) -> Result<(), Error> {
    let namespace = object.namespace().unwrap_or_default();
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), &namespace, resource);
    let name = object.name_any();
    let failed = |source| Error::Apply {
        kind: resource.kind.clone(),
        name: full_name(object),
        source,
    };
    let found = api.get_metadata_opt(&name).await.map_err(failed)?;
    check_own(&resource.kind, object, found.as_ref())?;
    let patched = api.patch(&name, params, &Patch::Apply(object)).await;
    patched.map(drop).map_err(failed)
}

/// Returns what the cluster has by the name of an object, where there is something.
///
/// # Errors
/// If it cannot be read.
pub(super) async fn find(
    client: &Client,
    resource: &ApiResource,
    object: &DynamicObject,
) -> Result<Option<DynamicObject>, Error> {
    let namespace = object.namespace().unwrap_or_default();
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), &namespace, resource);
    let found = api.get_opt(&object.name_any()).await;
    found.map_err(|source| Error::Apply {
        kind: resource.kind.clone(),
        name: full_name(object),
        source,
    })
}

/// Deletes an object of such a kind, unless it is somebody else's. Returns whether there was one.
///
/// # Errors
/// If it cannot be read or deleted.
pub(super) async fn remove(
    client: &Client,
    spec: &Validated,
    resource: &ApiResource,
    name: &str,
) -> Result<bool, Error> {
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), &spec.namespace, resource);
    let failed = |source| Error::Orphans {
        kind: resource.kind.clone(),
        source,
    };
    let found = match api.get_metadata(name).await {
        // Without the CRD or the right there is none of ours.
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => return Ok(false),
        found => found.map_err(failed)?,
    };
    if !ownership::is_child(&found.metadata, &spec.uid, spec.names.instance()) {
        return Ok(false);
    }
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: found.uid(),
            resource_version: None,
        }),
        ..DeleteParams::background()
    };
    match api.delete(name, &params).await {
        // Somebody else was faster, or it is a new object of that name.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(false),
        deleted => deleted.map(|_| true).map_err(failed),
    }
}

/// Makes sure that what was found by the name of a child is none of somebody else.
///
/// # Errors
/// [`Error::Foreign`].
pub(super) fn check_own(
    kind: &str,
    object: &impl ResourceExt,
    found: Option<&impl ResourceExt>,
) -> Result<(), Error> {
    let Some(found) = found.filter(|found| !ownership::is_shared(found.meta(), object.meta()))
    else {
        return Ok(());
    };
    Err(Error::Foreign {
        kind: kind.to_owned(),
        name: full_name(object),
        manager: found
            .managed_fields()
            .iter()
            .find_map(|entry| entry.manager.clone()),
    })
}

/// Returns `namespace/name`, or the name of what is in no namespace.
pub(super) fn full_name<K: ResourceExt>(object: &K) -> String {
    let name = object.name_any();
    object
        .namespace()
        .map_or_else(|| name.clone(), |namespace| format!("{namespace}/{name}"))
}
