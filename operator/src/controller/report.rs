//! The last step of a reconciliation: tells what is so, in the status, events and metrics.

use std::sync::Arc;

use crds::v1alpha1::ReportsServer;
use crds::v1alpha1::conditions::LAST_BACKUP_SUCCEEDED;
use crds::v1alpha1::status::BackupResult;
use jiff::Timestamp;
use kube::{Resource, ResourceExt};

use super::status::{self, State, Written};
use super::{Context, Error};
use crate::{events, spans};

/// Computes the status, writes it if it changed, and tells what changed.
pub(super) async fn report(
    object: &ReportsServer,
    ctx: &Context,
    state: &State<'_>,
) -> Result<(), Error> {
    spans::part("status", Box::pin(tell(object, ctx, state))).await
}

async fn tell(object: &ReportsServer, ctx: &Context, state: &State<'_>) -> Result<(), Error> {
    let name = object.name_any();
    let installed = Arc::clone(&ctx.installed.borrow());
    if let Some(event) = ctx.crd_told.news(&name, &installed) {
        events::publish(&ctx.publisher, &object.object_ref(&()), vec![event]).await;
    }
    let groups = ctx.supervisor.status(&name);
    let status = status::compute(object, state, &groups, Timestamp::now());
    match status::write(&ctx.client, object, &status, &installed).await? {
        Written::Gone => {
            ctx.forget(&name);
            return Ok(());
        }
        Written::Changed => {
            let before = object.status.as_ref().map(|status| &status.conditions[..]);
            let changes = events::transitions(before.unwrap_or_default(), &status.conditions);
            events::publish(&ctx.publisher, &object.object_ref(&()), changes).await;
        }
        Written::Unchanged => {}
    }
    let expiry = status.tls.as_ref().and_then(|tls| tls.not_after.as_ref());
    let expiry = expiry.map(|time| time.0.as_second());
    ctx.metrics.observe(&name, &status.conditions, expiry);
    let backup = status
        .database
        .as_ref()
        .and_then(|database| database.last_backup.as_ref());
    let mut conditions = status.conditions.iter();
    // The condition is there as long as backups are asked for; the status remembers the last one.
    if !conditions.any(|condition| condition.type_ == LAST_BACKUP_SUCCEEDED) {
        ctx.metrics.not_backed_up(&name);
    } else if let Some(backup) = backup.filter(|last| last.result == BackupResult::Succeeded) {
        ctx.metrics.backed_up(&name, backup.time.0.as_second());
    }
    Ok(())
}
