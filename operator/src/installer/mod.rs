//! The commands that the Helm chart runs out of the operator's image, beside the operator: they
//! apply the `ReportsServer` of the chart's values, refuse an uninstallation that would take APIs
//! away, and test an installation. Each ends with one line of text.

#[cfg(test)]
mod tests;

use std::time::Duration;

use crds::names::FINALIZER;
use crds::v1alpha1::ReportsServer;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::{ListParams, PartialObjectMeta, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;
use tokio::time::Instant;

use crate::names::OPERATOR;
use crate::said::said;

/// Field manager of the `ReportsServer` of the chart's values.
const FIELD_MANAGER: &str = "reports-server-installer";
/// Longest wait for a cluster that does not know the kind yet, or for an operator that leads.
const LIMIT: Duration = Duration::from_mins(1);
const PAUSE: Duration = Duration::from_secs(1);

/// The reason why an installer's wish was refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The object is not JSON.
    #[error("--object is not JSON: {0}")]
    Syntax(#[source] serde_json::Error),
    /// The object has no name.
    #[error("--object has no metadata.name")]
    Nameless,
    /// The object is refused.
    #[error("ReportsServer {name} is refused: {}", said(.source))]
    Refused {
        /// Name of the object.
        name: String,
        /// The answer of the kube-apiserver.
        source: Box<kube::Error>,
    },
    /// The `ReportsServer`s cannot be listed.
    #[error("cannot list the ReportsServers: {}", said(.0))]
    List(#[source] Box<kube::Error>),
    /// API groups depend on the operator.
    #[error(
        "not uninstalled: API groups depend on the servers of ReportsServer {names}. Give them back \
         first, and wait until that has ended: kubectl delete reportsserver {names} --wait. Then \
         uninstall again"
    )]
    InUse {
        /// Names of the objects, separated by spaces.
        names: String,
    },
    /// The CRD would take objects with it.
    #[error(
        "not uninstalled: crds.keep is false, and with the CRD ReportsServer {names} would go. Delete \
         each first: kubectl delete reportsserver {names} --wait. Or keep the CRD: helm upgrade with \
         --set crds.keep=true"
    )]
    WithCrd {
        /// Names of the objects, separated by spaces.
        names: String,
    },
    /// The Lease cannot be read.
    #[error("cannot read the operator's Lease: {}", said(.0))]
    Lease(#[source] Box<kube::Error>),
    /// No operator renews the Lease.
    #[error("no operator leads: nobody renews its Lease in namespace {0}")]
    Leaderless(String),
}

/// Applies the `ReportsServer` that is written as JSON, once the cluster knows the kind. Returns what
/// was done.
///
/// # Errors
/// If it cannot be read or is refused.
pub async fn apply(client: &Client, object: &str) -> Result<String, Error> {
    let object: Value = serde_json::from_str(object).map_err(Error::Syntax)?;
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        return Err(Error::Nameless);
    }
    let servers = Api::<ReportsServer>::all(client.clone());
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let params = params.validation_strict();
    let began = Instant::now();
    loop {
        match servers.patch(name, &params, &Patch::Apply(&object)).await {
            Ok(_) => return Ok(format!("ReportsServer {name} is applied")),
            // The CRD is new.
            Err(kube::Error::Api(status)) if status.code == 404 && began.elapsed() < LIMIT => {
                tokio::time::sleep(PAUSE).await;
            }
            Err(source) => {
                return Err(Error::Refused {
                    name: name.to_owned(),
                    source: Box::new(source),
                });
            }
        }
    }
}

/// Returns why the operator may be uninstalled. With `crd_goes`, its CRD is deleted with it.
///
/// # Errors
/// If it may not, because APIs would be answered by nobody or objects would go unasked; or if that
/// cannot be found out.
pub async fn check_uninstall(client: &Client, crd_goes: bool) -> Result<String, Error> {
    let servers = Api::<ReportsServer>::all(client.clone());
    let all = match servers.list_metadata(&ListParams::default()).await {
        Ok(list) => list.items,
        // Without the CRD there are none.
        Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
        Err(source) => return Err(Error::List(Box::new(source))),
    };
    let serving: Vec<&PartialObjectMeta<ReportsServer>> = all
        .iter()
        .filter(|server| server.finalizers().iter().any(|f| f == FINALIZER))
        .collect();
    if !serving.is_empty() {
        let names = serving.iter().map(|server| server.name_any());
        let names = names.collect::<Vec<_>>().join(" ");
        return Err(Error::InUse { names });
    }
    if crd_goes && !all.is_empty() {
        let names = all.iter().map(ResourceExt::name_any);
        let names = names.collect::<Vec<_>>().join(" ");
        return Err(Error::WithCrd { names });
    }
    Ok("no API group depends on a server".to_owned())
}

/// Returns what is well with an installation: the cluster serves `ReportsServer`s, and an operator in
/// `namespace` leads.
///
/// # Errors
/// If one of them is not so for a minute.
pub async fn check(client: &Client, namespace: &str) -> Result<String, Error> {
    let servers = Api::<ReportsServer>::all(client.clone());
    let listed = servers.list_metadata(&ListParams::default().limit(1)).await;
    listed.map_err(|source| Error::List(Box::new(source)))?;
    let leases = Api::<Lease>::namespaced(client.clone(), namespace);
    let began = Instant::now();
    let mut first = None;
    // Clocks of two machines are not compared: a leader is who is seen to renew the Lease.
    while began.elapsed() < LIMIT {
        let lease = leases.get_opt(OPERATOR).await;
        let lease = lease.map_err(|source| Error::Lease(Box::new(source)))?;
        if let Some(spec) = lease.and_then(|lease| lease.spec) {
            let holder = spec.holder_identity.clone().unwrap_or_default();
            match &first {
                Some(seen) if !holder.is_empty() && is_renewed(seen, &spec) => {
                    return Ok(format!("ReportsServers are served, and {holder} leads"));
                }
                Some(_) => {}
                None => first = Some(spec),
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(Error::Leaderless(namespace.to_owned()))
}

fn is_renewed(before: &LeaseSpec, now: &LeaseSpec) -> bool {
    before.renew_time != now.renew_time
}
