//! Opening, guarding and closing the side door.

pub mod objects;

use std::time::Duration;

use futures::FutureExt;
use futures::future::try_join_all;
use http::Method;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use tokio::time::Instant;

use self::objects::VERSION;
use crate::migration::cluster::control::retry;
use crate::migration::cluster::endpoints::{Endpoint, Endpoints};
use crate::migration::cluster::operations::{self, patch_json};
use crate::migration::cluster::wire::{WireError, collection, query};
use crate::migration::cluster::{admission, revisions};
use crate::migration::context::Cx;
use crate::migration::observe::state::Observed;
use crds::names::FIELD_MANAGER;

/// Parameters of a list that a kube-apiserver answers from its cache, or refuses while the cache is
/// being filled. A list with nothing but a limit says nothing of the cache: etcd answers it
/// meanwhile. Source: `shouldDelegateListOnNotReadyCache` of k8s.io/apiserver 0.36.
pub const FROM_CACHE: &[(&str, &str)] = &[
    ("resourceVersion", "0"),
    ("fieldSelector", "metadata.name=from-the-cache"),
];
/// The longest wait for a door that does not answer.
const PATIENCE: Duration = Duration::from_mins(3);
/// The longest wait for a door that says it is filling its cache, which takes longer the more
/// objects there are. Whoever opens it anew has it begin anew.
const FILLING: Duration = Duration::from_mins(30);
/// Pause between two looks at a door that does not answer yet.
const PAUSE: Duration = Duration::from_millis(200);
/// Pause between two checks that nobody has closed it.
const CLOSED_PAUSE: Duration = Duration::from_secs(1);

/// Puts the policy in force that lets nobody but the operator write through the door.
///
/// # Errors
/// See [`WireError`].
pub async fn guard(cx: &Cx) -> Result<(), WireError> {
    enforce(cx, objects::OPERATIONS).await
}

/// Puts the same policy in force, but anybody who has the right may delete: see
/// [`crate::migration::steps::orphans`].
///
/// # Errors
/// See [`WireError`].
pub async fn guard_writes(cx: &Cx) -> Result<(), WireError> {
    enforce(cx, objects::WRITES).await
}

async fn enforce(cx: &Cx, operations: &[&str]) -> Result<(), WireError> {
    let user = whoami(cx).await?;
    let group = cx.target.group.as_str();
    let policy = objects::policy(group, &user, operations);
    admission::enforce(&cx.wire, &objects::policy_name(group), policy).await
}

/// Returns the user name that the kube-apiserver knows the operator by.
async fn whoami(cx: &Cx) -> Result<String, WireError> {
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let body = Some(review.to_string().into_bytes());
    let reply = cx
        .wire
        .call(Method::POST, path, "application/json", body)
        .await?;
    let answer: Value = reply.json()?;
    let name = answer
        .pointer("/status/userInfo/username")
        .and_then(Value::as_str);
    name.map(str::to_owned).ok_or_else(|| WireError::Build {
        path: path.to_owned(),
        message: "the kube-apiserver does not say who we are".to_owned(),
    })
}

/// A CRD right after its door was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Name of the CRD.
    pub name: String,
    /// Generation of the CRD: any other one is a change by somebody else.
    pub generation: i64,
    /// Etcd's revision of the change: the caches of the CRD begin above it.
    pub revision: u64,
}

/// Opens the door of every CRD of the group for `token`, all at the same time.
///
/// # Errors
/// See [`WireError`].
pub async fn open(cx: &Cx, o: &Observed, token: &str) -> Result<Vec<Opened>, WireError> {
    let each = o.crds().map(|(_, crd)| {
        async move {
            let build = |current: &CustomResourceDefinition| objects::open_patch(current, token);
            let opened = patch_json(&cx.wire, &crd_path(crd.name()), build)
                .await?
                .now;
            let revision = opened.metadata.resource_version.as_deref();
            Ok(Opened {
                name: crd.name().to_owned(),
                generation: opened.metadata.generation.unwrap_or_default(),
                revision: revision.and_then(|r| r.parse().ok()).unwrap_or_default(),
            })
        }
        .boxed()
    });
    try_join_all(each).await
}

/// Returns the CRDs whose door is not open although it was opened, each with the last writer: name
/// of the CRD and field manager.
///
/// # Errors
/// See [`WireError`].
pub async fn meddlers(cx: &Cx, o: &Observed) -> Result<Vec<(String, String)>, WireError> {
    let mut found = Vec::new();
    for (_, crd) in o.crds() {
        let now: CustomResourceDefinition = cx.wire.get(&crd_path(crd.name())).await?.json()?;
        let fields = now.metadata.managed_fields.clone().unwrap_or_default();
        let others = fields.into_iter().filter(|entry| {
            let ours = entry.manager.as_deref() == Some(FIELD_MANAGER);
            !ours && entry.subresource.as_deref().unwrap_or_default().is_empty()
        });
        let last = others.max_by_key(|entry| entry.time.as_ref().map(|time| time.0));
        let manager = last.and_then(|entry| entry.manager).unwrap_or_default();
        let since = crd.object.metadata.generation;
        if !objects::state(&now).is_open() || now.metadata.generation > since.map(|n| n + 1) {
            found.push((crd.name().to_owned(), manager));
        }
    }
    Ok(found)
}

/// Returns the first CRD that is being deleted, or whose specification has another generation than the
/// one that is given with its name. A deletion changes no generation.
///
/// # Errors
/// See [`WireError`].
pub async fn changed_since(cx: &Cx, opened: &[Opened]) -> Result<Option<String>, WireError> {
    let each = opened.iter().map(|crd| {
        async move {
            let reply = cx.wire.get(&crd_path(&crd.name)).await?;
            let now: CustomResourceDefinition = reply.json()?;
            let stays = now.metadata.deletion_timestamp.is_none();
            let same = stays && now.metadata.generation == Some(crd.generation);
            Ok((!same).then(|| crd.name.clone()))
        }
        .boxed()
    });
    let all = try_join_all(each).await?;
    Ok(all.into_iter().flatten().next())
}

/// Opens the door of every CRD that has it closed, whatever it was opened for.
///
/// # Errors
/// See [`WireError`].
pub async fn ensure_open(cx: &Cx, o: &Observed, token: &str) -> Result<(), WireError> {
    let each = o.crds().map(|(_, crd)| {
        async move {
            let build = |current: &CustomResourceDefinition| {
                if objects::state(current).is_open() {
                    None
                } else {
                    objects::open_patch(current, token)
                }
            };
            patch_json(&cx.wire, &crd_path(crd.name()), build)
                .await
                .map(drop)
        }
        .boxed()
    });
    try_join_all(each).await.map(drop)
}

/// Opens the doors while the server serves the group, guarded, and waits until they answer at
/// `endpoints`. Then the counter is above the versions with which the CRDs' caches begin: a client
/// that meets the CRD, because somebody deletes an APIService, finds its version there.
///
/// # Errors
/// As [`await_open`].
pub async fn open_beside(cx: &Cx, o: &Observed, endpoints: &Endpoints) -> Result<(), WireError> {
    // Also where the door is open: whoever opened it may have died without the rule about deletions.
    guard(cx).await?;
    let switched_at = o.notes.switched_at.map(|time| time.to_string());
    ensure_open(cx, o, &switched_at.unwrap_or_default()).await?;
    await_answers(cx, o, &endpoints.all, FROM_CACHE, None).await?;
    operations::keep_up(cx, o, revisions::newest(endpoints).await?).await
}

/// Closes the doors, then takes the guard away.
///
/// # Errors
/// See [`WireError`].
pub async fn close(cx: &Cx, o: &Observed) -> Result<(), WireError> {
    for (_, crd) in o.crds() {
        patch_json(&cx.wire, &crd_path(crd.name()), objects::close_patch).await?;
    }
    unguard(cx).await
}

/// Takes the guard away.
///
/// # Errors
/// See [`WireError`].
pub async fn unguard(cx: &Cx) -> Result<(), WireError> {
    admission::lift(&cx.wire, &objects::policy_name(&cx.target.group)).await
}

/// Waits until a list of every CRD of the group answers 200 through the door at `endpoints`.
///
/// # Errors
/// The last failure after three minutes, or after thirty where the door says that it is being
/// filled; at once for one that lasts, such as a door that somebody has closed.
pub async fn await_open(cx: &Cx, o: &Observed, endpoints: &[Endpoint]) -> Result<(), WireError> {
    await_answers(cx, o, endpoints, &[("limit", "1")], None).await
}

/// Waits until every CRD of the group answers at `endpoints` through the door that was opened for
/// `token`, and from a cache that is filled.
///
/// # Errors
/// As [`await_open`].
pub async fn await_cached(
    cx: &Cx,
    o: &Observed,
    endpoints: &[Endpoint],
    token: &str,
) -> Result<(), WireError> {
    await_answers(cx, o, endpoints, FROM_CACHE, Some(token)).await
}

async fn await_answers(
    cx: &Cx,
    o: &Observed,
    endpoints: &[Endpoint],
    parameters: &[(&str, &str)],
    token: Option<&str>,
) -> Result<(), WireError> {
    let mut each = Vec::new();
    for (resource, _) in o.crds() {
        let path = collection(&cx.target.group, VERSION, resource.plural());
        let uri = query(&path, parameters);
        each.extend(
            endpoints
                .iter()
                .map(|endpoint| answers(endpoint, uri.clone(), token).boxed()),
        );
    }
    tokio::select! {
        opened = try_join_all(each) => opened.map(drop),
        closed = await_closed(cx, o, token) => closed,
    }
}

/// Ends with an error when somebody closes a door, or, with a `token`, when the door is another
/// one.
async fn await_closed(cx: &Cx, o: &Observed, token: Option<&str>) -> Result<(), WireError> {
    loop {
        tokio::time::sleep(CLOSED_PAUSE).await;
        for (_, crd) in o.crds() {
            let path = crd_path(crd.name());
            let now: CustomResourceDefinition =
                retry(PATIENCE, || cx.wire.get(&path)).await?.json()?;
            let door = objects::state(&now);
            if !token.map_or(door.is_open(), |token| door.is_open_for(token)) {
                let (group, name) = (cx.target.group.as_str(), crd.name());
                return Err(WireError::Status {
                    method: Method::GET,
                    path: collection(group, VERSION, name),
                    code: 404,
                    reason: "NotFound".to_owned(),
                    message: format!("the version {VERSION} was removed from the CRD {name}"),
                    retry_after: None,
                });
            }
        }
    }
}

async fn answers(endpoint: &Endpoint, uri: String, token: Option<&str>) -> Result<(), WireError> {
    let end = Instant::now() + FILLING;
    let mut deadline = Instant::now() + PATIENCE;
    loop {
        let error = match endpoint.wire.get_table(&uri).await {
            Ok(reply) => {
                let table: Value = reply.json()?;
                if token.is_none_or(|token| objects::answers_for(&table, token)) {
                    return Ok(());
                }
                earlier_door(&uri)
            }
            // 404: the new version is not in the handler yet.
            Err(e) if e.is_transient() || e.code() == Some(404) => e,
            Err(e) => return Err(e),
        };
        let pause = error
            .retry_after()
            .unwrap_or(PAUSE)
            .clamp(PAUSE, Duration::from_secs(1));
        if error.code() == Some(429) {
            deadline = end.min(Instant::now() + PATIENCE);
        }
        if Instant::now() + pause > deadline {
            return Err(error);
        }
        tokio::time::sleep(pause).await;
    }
}

/// Returns the error that a door answers which was opened before.
fn earlier_door(path: &str) -> WireError {
    WireError::Status {
        method: Method::GET,
        path: path.to_owned(),
        code: 404,
        reason: "NotFound".to_owned(),
        message: "the kube-apiserver does not know yet that the CRD was changed".to_owned(),
        retry_after: None,
    }
}

/// Returns the path of a CRD.
#[must_use]
pub fn crd_path(name: &str) -> String {
    format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::migration::cluster::wire::Wire;
    use crate::testing::pair;

    #[rstest]
    #[case::that_is_being_filled(429, "TooManyRequests", FILLING)]
    #[case::that_is_away(503, "ServiceUnavailable", PATIENCE)]
    #[tokio::test(start_paused = true)]
    async fn a_door_is_waited_for_as_long_as_it_may_take(
        #[case] code: u16,
        #[case] reason: &'static str,
        #[case] longest: Duration,
    ) {
        let (client, mut server) = pair();
        let serving = tokio::spawn(async move { server.refuse_all(code, reason).await });
        let endpoint = Endpoint {
            address: "192.0.2.1:6443".to_owned(),
            wire: Wire::new(client),
        };
        let begun = Instant::now();
        let done = answers(&endpoint, "/apis/group.example".to_owned(), None).await;
        let waited = begun.elapsed();
        assert_eq!(done.unwrap_err().code(), Some(code));
        assert!(waited <= longest, "{waited:?}");
        assert!(waited + 2 * PAUSE > longest, "{waited:?}");
        serving.abort();
    }
}
