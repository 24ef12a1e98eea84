//! Objects of the Prometheus operator, whose CRDs may be missing.

use kube::api::{DeleteParams, DynamicObject, PatchParams, Preconditions};
use kube::{Api, Client, ResourceExt};

use super::error::Error;
use super::untyped;
use crate::controller::build::{Monitored, MonitoringKind};
use crate::controller::validate::Validated;

/// Applies the objects. Returns the kinds that the cluster does not have.
///
/// # Errors
/// At the first object that is refused.
pub(super) async fn apply(
    client: &Client,
    objects: &[Monitored],
    params: &PatchParams,
) -> Result<Vec<MonitoringKind>, Error> {
    let mut missing = Vec::new();
    for Monitored { kind, object } in objects {
        match untyped::apply(client, &kind.resource(), object, params).await {
            Err(Error::Apply {
                source: kube::Error::Api(status),
                ..
            }) if status.code == 404 => missing.push(*kind),
            applied => applied?,
        }
    }
    Ok(missing)
}

/// Deletes the objects of the kinds that are not to be kept. Returns what is gone.
///
/// # Errors
/// If one cannot be read or deleted.
pub(super) async fn remove_others(
    client: &Client,
    spec: &Validated,
    kept: &[MonitoringKind],
) -> Result<Vec<String>, Error> {
    let mut gone = Vec::new();
    for kind in MonitoringKind::ALL {
        if !kept.contains(&kind) && remove(client, spec, kind).await? {
            gone.push(format!("{} {}", kind.name(), spec.names.server()));
        }
    }
    Ok(gone)
}

/// Returns whether there was one of ours.
async fn remove(client: &Client, spec: &Validated, kind: MonitoringKind) -> Result<bool, Error> {
    let resource = kind.resource();
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), &spec.namespace, &resource);
    let name = spec.names.server();
    let failed = |source| Error::Orphans {
        kind: kind.name().to_owned(),
        source,
    };
    let found = match api.get_metadata(&name).await {
        // Without the CRD or the right there is none of ours.
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => return Ok(false),
        found => found.map_err(failed)?,
    };
    let owners = found.owner_references();
    if owners.iter().all(|owner| owner.uid != spec.uid) {
        return Ok(false);
    }
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: found.uid(),
            resource_version: None,
        }),
        ..DeleteParams::background()
    };
    match api.delete(&name, &params).await {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(false),
        deleted => deleted.map(|_| true).map_err(failed),
    }
}
