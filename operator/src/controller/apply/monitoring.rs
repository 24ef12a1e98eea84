//! Objects of the Prometheus operator, whose CRDs may be missing.

use kube::Client;
use kube::api::PatchParams;

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
    let name = spec.names.server();
    let mut gone = Vec::new();
    for kind in MonitoringKind::ALL {
        if !kept.contains(&kind) && untyped::remove(client, spec, &kind.resource(), &name).await? {
            gone.push(format!("{} {name}", kind.name()));
        }
    }
    Ok(gone)
}
