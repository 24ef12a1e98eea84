//! Applies what makes backups of an embedded database, and restores one.

use k8s_openapi::api::batch::v1::Job;
use kube::Client;

use super::error::Error;
use super::managed::{Recovery, saved};
use super::volume::Volume;
use crate::database::embedded::Children;

/// The children of an embedded database from which the status is computed.
#[derive(Clone, Debug, Default)]
pub struct Embedded {
    /// The Job that fills it from a backup, while it does.
    pub recovery: Option<Recovery>,
    /// The volume for backups.
    pub backups: Option<Volume>,
    /// The Jobs that made backups, or are about to.
    pub backup_jobs: Vec<Job>,
}

/// Applies every child.
///
/// # Errors
/// At the first child that is refused; what comes before it is applied.
pub async fn apply(client: &Client, children: Children) -> Result<Embedded, Error> {
    // Taken apart without `..`: a new child cannot be forgotten here.
    let Children {
        recovery,
        backups,
        backup,
    } = children;
    let saved = Box::pin(saved(client, recovery, backups, backup));
    let (recovery, backups, backup_jobs) = saved.await?;
    Ok(Embedded {
        recovery,
        backups,
        backup_jobs,
    })
}
