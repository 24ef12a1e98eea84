//! Objects without a type of ours, and whether an object is somebody else's.

use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};

use super::error::Error;
use crate::controller::ownership;

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
