//! Asks the kube-apiserver whether it would take the children, so that a specification which it
//! refuses in part changes nothing.

use kube::Client;

use super::child::{NamespacedChild, forced, inside, patch, refuse_foreign};
use super::error::Error;
use super::{budget, certificate, cluster, monitoring, volume};
use crate::controller::build::Children;

/// Looks whether any child is somebody else's, and tries those that follow fields of the
/// specification; nothing is stored.
///
/// # Errors
/// At the first child that is refused.
pub async fn probe(client: &Client, children: &Children) -> Result<(), Error> {
    names(client, children).await?;
    if let Some(account) = &children.service_account {
        one(client, account).await?;
    }
    if let Some(managed) = &children.managed {
        one(client, &managed.config).await?;
        volume::probe(client, &managed.data).await?;
        one(client, &managed.stateful_set).await?;
        if let Some(backups) = &managed.backups {
            volume::probe(client, backups).await?;
        }
        if let Some(backup) = &managed.backup {
            one(client, backup).await?;
        }
    }
    if let Some(embedded) = &children.embedded {
        if let Some(backups) = &embedded.backups {
            volume::probe(client, backups).await?;
        }
        if let Some(backup) = &embedded.backup {
            one(client, backup).await?;
        }
    }
    if let Some(cluster) = &children.cluster {
        cluster::apply(client, cluster, &forced().dry_run()).await?;
    }
    if let Some(data) = &children.data {
        volume::probe(client, data).await?;
    }
    let certificate = children.certificate.as_ref();
    certificate::apply(client, certificate, &forced().dry_run()).await?;
    monitoring::apply(client, &children.monitored, &forced().dry_run()).await?;
    for policy in &children.network_policies {
        one(client, policy).await?;
    }
    one(client, &children.deployment).await?;
    let budget = children.disruption_budget.as_ref();
    budget::apply(client, budget, &forced().dry_run()).await?;
    if let Some(autoscaler) = &children.autoscaler {
        one(client, autoscaler).await?;
    }
    Ok(())
}

/// Looks whether the names of the other children are free.
async fn names(client: &Client, children: &Children) -> Result<(), Error> {
    free(client, &children.operand_binding).await?;
    free(client, &children.config_reader).await?;
    free(client, &children.config_reader_binding).await?;
    free(client, &children.ca).await?;
    free(client, &children.serving_cert).await?;
    free(client, &children.config).await?;
    free(client, &children.accepted).await?;
    free(client, &children.service).await?;
    if let Some(dashboard) = &children.dashboard {
        free(client, dashboard).await?;
    }
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

async fn free<K: NamespacedChild>(client: &Client, object: &K) -> Result<(), Error> {
    refuse_foreign(&inside(client, object), object).await
}

async fn one<K: NamespacedChild>(client: &Client, object: &K) -> Result<(), Error> {
    free(client, object).await?;
    patch(&inside(client, object), object, &forced().dry_run())
        .await
        .map(drop)
}
