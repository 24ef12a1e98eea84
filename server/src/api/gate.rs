//! Admission of requests: by the gate of the resource, and by the place to which its APIService
//! leads.

use apimachinery::error::ApiError;

use super::scope::Scope;
use crate::cluster::Attachments;
use crate::registry::gate::{Passage, RETRY_AFTER, pass, passage};

/// Waits until the request is served here, at most until its patience ends: the gate lets it pass
/// and the kube-aggregator sends it here.
///
/// # Errors
/// As [`pass`], and 429 where the kube-aggregator sends it elsewhere for too long.
pub async fn admit(attachments: &Attachments, scope: &Scope) -> Result<(), ApiError> {
    pass(&scope.resource, reader(scope), scope.patience).await?;
    attached(attachments, scope).await
}

/// Returns whether the resource is being given back, so that its log is complete and ends. A watch
/// that resumes is served from the log even while other requests wait. Otherwise its client would
/// go to the CRD with a version from before the last bookmark, and be told there that this is too
/// old.
#[must_use]
pub fn serves_the_past(scope: &Scope) -> bool {
    scope.resource.gate().borrow().gives_back()
}

/// Returns whether the request would wait if it was to be admitted now.
#[must_use]
pub fn makes_wait(attachments: &Attachments, scope: &Scope) -> bool {
    let info = &scope.ctx.info;
    match passage(&scope.resource.gate().borrow(), reader(scope)) {
        Passage::Pass => !attachments.is_attached(&info.api_group, &info.version),
        Passage::Wait => true,
        Passage::Refuse => false,
    }
}

fn reader(scope: &Scope) -> Option<&str> {
    let reads = !scope.ctx.info.is_mutating();
    reads.then_some(scope.ctx.user.username.as_str())
}

/// Waits while the APIService of an open resource leads elsewhere: its CRD may take the same write.
async fn attached(attachments: &Attachments, scope: &Scope) -> Result<(), ApiError> {
    let info = &scope.ctx.info;
    let (group, version) = (info.api_group.as_str(), info.version.as_str());
    if attachments.attached(group, version, scope.patience).await {
        return Ok(());
    }
    Err(ApiError::too_many_requests(
        format!("APIService {version}.{group} does not lead to this server, try again"),
        RETRY_AFTER,
    ))
}
