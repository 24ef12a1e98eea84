//! Objects of kinds that others define.

use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use kube::{Api, Client, ResourceExt};

use super::error::Error;
use super::{check_own, full_name};
use crate::cert_manager;
use crate::controller::ownership::is_child;
use crate::controller::validate::Validated;
use crate::database::cloudnativepg;

/// Applies a `Cluster` of `CloudNativePG`, unless it is somebody else's.
///
/// # Errors
/// If it is somebody else's, or is refused.
pub async fn cloud_native_pg(
    client: &Client,
    cluster: &DynamicObject,
    params: &PatchParams,
) -> Result<(), Error> {
    untyped(client, cluster, &cloudnativepg::resource(), params).await
}

/// Applies an object of a kind that others define, unless it is somebody else's.
///
/// # Errors
/// If it is somebody else's, or is refused.
pub async fn untyped(
    client: &Client,
    object: &DynamicObject,
    resource: &ApiResource,
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

/// Deletes the `Certificate`, where there is one of ours. Its Secret is cert-manager's.
///
/// # Errors
/// If it cannot be read or deleted. That the operator may not read it is none: there is no
/// cert-manager in reach then.
pub async fn remove_certificate(
    client: &Client,
    spec: &Validated,
) -> Result<Option<String>, Error> {
    let resource = cert_manager::resource();
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), &spec.namespace, &resource);
    let failed = |source| Error::Orphans {
        kind: resource.kind.clone(),
        source,
    };
    let name = spec.names.certificate();
    let found = match api.get_metadata_opt(&name).await {
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => None,
        found => found.map_err(failed)?,
    };
    let own = |meta: &_| is_child(meta, &spec.uid, spec.names.instance());
    let Some(found) = found.filter(|found| own(&found.metadata)) else {
        return Ok(None);
    };
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: found.uid(),
            resource_version: None,
        }),
        ..DeleteParams::background()
    };
    match api.delete(&name, &params).await {
        Ok(_) => Ok(Some(format!("{} {name}", resource.kind))),
        // Somebody else was faster, or it is a new object of that name.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}
