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
        } => message.starts_with("namespaces \""),
        _ => false,
    }
}

/// Returns whether a request failed because there is no object of this name. A door that somebody has
/// closed answers 404 as well.
#[must_use]
pub fn is_object_gone(error: &WireError, name: &str) -> bool {
    match error {
        WireError::Status {
            code: 404, message, ..
        } => message.ends_with(&format!("\"{name}\" not found")) && !is_namespace_gone(error),
        _ => false,
    }
}

/// Returns the copy with this path and name behind a door, which is tried until `patience` is over;
/// nothing where there is no such copy.
///
/// # Errors
/// Also where the door is closed; see [`WireError`].
pub async fn find_copy(
    patience: Duration,
    door: &Wire,
    path: &str,
    name: &str,
) -> Result<Option<Value>, WireError> {
    match retry(patience, || door.get(path)).await {
        Ok(reply) => reply.json().map(Some),
        Err(error) if is_object_gone(&error, name) => Ok(None),
        Err(error) => Err(error),
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
            Err(e) if is_object_gone(&e, &orphan.key.name) => return Ok(Some(&orphan.key)),
            Err(e) if matches!(e.code(), Some(404 | 409)) => e,
            Err(e) => return Err(e),
        };
        tracing::warn!(key = %orphan.key, %error, "left in etcd, in a namespace that is gone");
        return Ok(None);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};

    use http::Method;
    use serde_json::json;

    use super::*;
    use crate::migration::context::fixtures::context;
    use crate::testing::{Received, pair};

    const NO_NAMESPACE: &str = r#"namespaces "gone" not found"#;

    /// A kube-apiserver with copies in a namespace that is gone.
    #[derive(Default)]
    struct Fake {
        /// The operations that the guard covers, each time that it is put in force.
        guards: Vec<Value>,
        /// The number of deletions of each copy.
        deletions: BTreeMap<String, usize>,
    }

    impl Fake {
        fn answer(&mut self, request: Received) {
            let path = request.path.split('?').next().unwrap().to_owned();
            if request.method == "DELETE" {
                return self.delete(&path, request);
            }
            if path.ends_with("/selfsubjectreviews") {
                let review = json!({"status": {"userInfo": {"username": "operator"}}});
                return request.answer(201, &review);
            }
            if path.contains("/validatingadmissionpolicies/") {
                let rules = &request.body["spec"]["matchConstraints"]["resourceRules"];
                self.guards.push(rules[0]["operations"].clone());
            }
            let body = request.body.clone();
            request.answer(200, &body);
        }

        fn delete(&mut self, path: &str, request: Received) {
            let deletions = self.deletions.entry(path.to_owned()).or_default();
            *deletions += 1;
            match path {
                "/heard-late" if *deletions < 3 => request.refuse(404, NO_NAMESPACE),
                "/covered-by-another-policy" => request.refuse(404, NO_NAMESPACE),
                "/gone-already" => {
                    request.refuse(404, r#"policyreports "gone-already" not found"#);
                }
                "/changed" => request.refuse(409, "Conflict"),
                _ => request.answer(200, &json!({"kind": "Status", "status": "Success"})),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_copy_that_another_policy_covers_is_left_and_the_others_go() {
        let fake = Arc::<Mutex<Fake>>::default();
        let (client, mut server) = pair();
        let answering = Arc::clone(&fake);
        tokio::spawn(async move {
            while let Some(request) = server.next_if_any().await {
                answering.lock().unwrap().answer(request);
            }
        });
        let cx = context(&client);
        let orphan = |name: &str| Orphan {
            key: Key {
                namespace: "gone".to_owned(),
                name: name.to_owned(),
            },
            path: format!("/{name}"),
            options: json!({}),
        };
        let names = [
            "changed",
            "covered-by-another-policy",
            "gone-already",
            "heard-late",
            "simple",
        ];
        let orphans = names.map(orphan).to_vec();
        let begun = Instant::now();
        let deleted = delete(&cx, &Wire::new(client), orphans).await.unwrap();
        assert!(begun.elapsed() >= HEARD_WITHIN, "{:?}", begun.elapsed());
        let mut deleted: Vec<String> = deleted.into_iter().map(|key| key.name).collect();
        deleted.sort();
        assert_eq!(deleted, ["gone-already", "heard-late", "simple"]);
        // Deletions are nobody's but the operator's again, whatever was left.
        let writes = json!(["CREATE", "UPDATE"]);
        let all = json!(["CREATE", "UPDATE", "DELETE"]);
        assert_eq!(fake.lock().unwrap().guards, [writes, all]);
    }

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
        let named = r#"policyreports.wgpolicyk8s.io "namespaces" not found"#;
        assert!(!is_namespace_gone(&refused(404, named)));
        assert!(is_object_gone(&refused(404, named), "namespaces"));
        assert!(!is_object_gone(&refused(404, NO_NAMESPACE), "gone"));
        let closed = "404 page not found";
        assert!(!is_object_gone(&refused(404, closed), "namespaces"));
        assert!(!is_namespace_gone(&refused(403, "no right")));
    }
}
