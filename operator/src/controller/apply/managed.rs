//! Applies a PostgreSQL that the operator runs.

use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Pod};
use kube::{Client, ResourceExt};

use super::{Error, Volume, inside, one, pods, volume};
use crate::{controller::workload, database::managed::Children};

/// What the status is computed from.
#[derive(Clone, Debug)]
pub struct Managed {
    /// The database.
    pub stateful_set: StatefulSet,
    /// Its volume.
    pub data: Volume,
    /// Its pods, read only while it is not ready.
    pub pods: Vec<Pod>,
}

/// Applies every child.
///
/// # Errors
/// At the first child that is refused; what comes before it is applied.
pub async fn apply(client: &Client, children: Children) -> Result<Managed, Error> {
    // Taken apart without `..`: a new child cannot be forgotten here.
    let Children {
        password,
        tls,
        client: certificate,
        config,
        data,
        service,
        pods: headless,
        stateful_set,
    } = children;
    one(&inside(client, &password), &password).await?;
    one(&inside(client, &tls), &tls).await?;
    one(&inside(client, &certificate), &certificate).await?;
    one(&inside(client, &config), &config).await?;
    let data = volume::apply(client, data).await?;
    one(&inside(client, &service), &service).await?;
    one(&inside(client, &headless), &headless).await?;
    let stateful_set = one(&inside(client, &stateful_set), &stateful_set).await?;
    let pods = if workload::is_database_ready(&stateful_set) {
        Vec::new()
    } else {
        let namespace = stateful_set.namespace().unwrap_or_default();
        let selector = stateful_set.spec.as_ref().map(|spec| &spec.selector);
        pods(client, &namespace, selector).await?
    };
    Ok(Managed {
        stateful_set,
        data,
        pods,
    })
}
