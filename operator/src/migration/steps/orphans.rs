//! Copies in namespaces that are gone: those were deleted while the server served, and their
//! reports with them.
//!
//! Before a kube-apiserver asks an admission policy about an object, it looks up the object's
//! namespace, and refuses the request with 404 where there is none. So the guard of the side door
//! has to leave deletions alone for as long as such copies are deleted.

use std::time::Duration;

use futures::{FutureExt, StreamExt, stream};
use serde_json::Value;
use tokio::time::Instant;

use crate::migration::cluster::control::retry;
use crate::migration::cluster::pages::Key;
use crate::migration::cluster::wire::{Wire, WireError};
use crate::migration::cluster::{door, operations};
use crate::migration::context::Cx;

/// The time that the kube-apiservers get to hear of the changed guard.
const HEARD_WITHIN: Duration = Duration::from_secs(10);
/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(100);
/// The time for which one request is tried while the kube-apiserver is away.
const PATIENCE: Duration = Duration::from_mins(1);

/// A copy to delete.
#[derive(Clone, Debug)]
pub struct Orphan {
    /// Namespace and name.
    pub key: Key,
    /// Path of the copy through the door.
    pub path: String,
    /// `DeleteOptions` of the request.
    pub options: Value,
}

/// Returns whether a request failed because the namespace is gone or goes away.
#[must_use]
pub fn is_namespace_gone(error: &WireError) -> bool {
    match error {
        WireError::Status {
            code: 403, message, ..
        } => message.contains("is being terminated"),
        WireError::Status {
            code: 404, message, ..
        } => message.contains("namespaces"),
        _ => false,
    }
}

/// Deletes the copies through `door`; returns the keys of those that are gone. The others are
/// refused by a policy of somebody else, or were changed: they are left and logged.
///
/// # Errors
/// See [`WireError`]; the guard may be left without deletions until it is put in force again.
pub async fn delete(cx: &Cx, door: &Wire, orphans: Vec<Orphan>) -> Result<Vec<Key>, WireError> {
    if orphans.is_empty() {
        return Ok(Vec::new());
    }
    door::guard_writes(cx).await?;
    let deadline = Instant::now() + HEARD_WITHIN;
    let each: Vec<_> = orphans
        .iter()
        .map(|orphan| delete_one(cx, door, orphan, deadline).boxed())
        .collect();
    let outcomes: Vec<_> = stream::iter(each)
        .buffer_unordered(cx.target.settings.concurrency.max(1) as usize)
        .collect()
        .await;
    door::guard(cx).await?;
    let outcomes: Result<Vec<Option<&Key>>, WireError> = outcomes.into_iter().collect();
    Ok(outcomes?.into_iter().flatten().cloned().collect())
}

async fn delete_one<'a>(
    cx: &Cx,
    door: &Wire,
    orphan: &'a Orphan,
    deadline: Instant,
) -> Result<Option<&'a Key>, WireError> {
    loop {
        cx.pacer.turn().await;
        let deleted = retry(PATIENCE, || {
            operations::delete(door, &orphan.path, &orphan.options)
        })
        .await;
        let error = match deleted {
            Ok(()) => return Ok(Some(&orphan.key)),
            Err(e) if is_namespace_gone(&e) && Instant::now() < deadline => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            Err(e) if e.code() == Some(404) && !is_namespace_gone(&e) => {
                return Ok(Some(&orphan.key));
            }
            Err(e) if matches!(e.code(), Some(404 | 409)) => e,
            Err(e) => return Err(e),
        };
        tracing::warn!(key = %orphan.key, %error, "left in etcd, in a namespace that is gone");
        return Ok(None);
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    fn refused(code: u16, message: &str) -> WireError {
        WireError::Status {
            method: Method::DELETE,
            path: "/x".to_owned(),
            code,
            reason: String::new(),
            message: message.to_owned(),
            retry_after: None,
        }
    }

    #[test]
    fn a_namespace_that_is_gone_is_told_from_an_object_that_is_gone() {
        assert!(is_namespace_gone(&refused(
            404,
            r#"namespaces "doomed" not found"#
        )));
        assert!(is_namespace_gone(&refused(
            403,
            "x is forbidden: unable to create new content in namespace y because it is being terminated"
        )));
        let object = r#"policyreports.wgpolicyk8s.io "a" not found"#;
        assert!(!is_namespace_gone(&refused(404, object)));
        assert!(!is_namespace_gone(&refused(403, "no right")));
    }
}
