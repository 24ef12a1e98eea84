//! Asks the kube-apiserver whether it would take the children, so that a specification which it
//! refuses in part changes nothing.

use std::fmt::Debug;

use crds::names::FIELD_MANAGER;
use k8s_openapi::{NamespaceResourceScope, api::core::v1::PersistentVolumeClaim};
use kube::{Client, Resource, ResourceExt, api::PatchParams};
use serde::{Serialize, de::DeserializeOwned};

use super::{Error, inside, patch, refuse_foreign};
use crate::controller::build::Children;

/// Looks whether any child is somebody else's, and tries those that follow fields of the
/// specification; nothing is stored.
///
/// # Errors
/// At the first child that is refused.
pub async fn probe(client: &Client, children: &Children) -> Result<(), Error> {
    names(client, children).await?;
    maybe(client, children.service_account.as_ref()).await?;
    if let Some(managed) = &children.managed {
        one(client, &managed.config).await?;
        claim(client, Some(&managed.data)).await?;
        one(client, &managed.stateful_set).await?;
        claim(client, managed.backups.as_ref()).await?;
        maybe(client, managed.backup.as_ref()).await?;
    }
    claim(client, children.data.as_ref()).await?;
    one(client, &children.deployment).await?;
    maybe(client, children.disruption_budget.as_ref()).await?;
    maybe(client, children.autoscaler.as_ref()).await
}

/// The names of the children that are as good as any.
async fn names(client: &Client, children: &Children) -> Result<(), Error> {
    free(client, &children.operand_binding).await?;
    free(client, &children.config_reader).await?;
    free(client, &children.config_reader_binding).await?;
    free(client, &children.ca).await?;
    free(client, &children.serving_cert).await?;
    free(client, &children.config).await?;
    free(client, &children.accepted).await?;
    free(client, &children.service).await?;
    if let Some(connection) = &children.connection {
        free(client, connection).await?;
    }
    if let Some(managed) = &children.managed {
        for secret in [&managed.password, &managed.tls, &managed.client] {
            free(client, secret).await?;
        }
        free(client, &managed.service).await?;
        free(client, &managed.pods).await?;
    }
    Ok(())
}

async fn free<K>(client: &Client, object: &K) -> Result<(), Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Serialize
        + DeserializeOwned
        + Clone
        + Debug,
{
    refuse_foreign(&inside(client, object), object).await
}

async fn maybe<K>(client: &Client, object: Option<&K>) -> Result<(), Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Serialize
        + DeserializeOwned
        + Clone
        + Debug,
{
    match object {
        Some(object) => one(client, object).await,
        None => Ok(()),
    }
}

async fn one<K>(client: &Client, object: &K) -> Result<(), Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Serialize
        + DeserializeOwned
        + Clone
        + Debug,
{
    free(client, object).await?;
    let params = PatchParams::apply(FIELD_MANAGER).force().dry_run();
    patch(&inside(client, object), object, &params)
        .await
        .map(drop)
}

/// A claim that is there keeps its size where it cannot grow; that refuses nothing.
async fn claim(client: &Client, claim: Option<&PersistentVolumeClaim>) -> Result<(), Error> {
    let Some(claim) = claim else { return Ok(()) };
    let Err(error) = one(client, claim).await else {
        return Ok(());
    };
    match inside(client, claim)
        .get_metadata_opt(&claim.name_any())
        .await
    {
        Ok(Some(_)) => Ok(()),
        _ => Err(error),
    }
}
