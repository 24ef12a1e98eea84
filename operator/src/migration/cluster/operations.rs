//! Single acts on the cluster and the server that several steps share.

use std::collections::BTreeMap;
use std::time::Duration;

use crds::control::{GateSpec, GateState};
use crds::names::{ANNOTATION_CLAIMED_BY, FIELD_MANAGER};
use crds::v1alpha1::reasons;
use futures::FutureExt;
use futures::future::select_all;
use http::Method;
use json_patch::Patch;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;
use kube::runtime::events::EventType;
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};

use super::control::{find, retry};
use super::pages::{Identity, Key};
use super::wire::{Wire, WireError, object, query};
use crate::apiservice::{self, Holder, TAKEN_SPEC};
use crate::migration::context::Cx;
use crate::migration::observe::state::{Observed, Resource, Version};

/// The time for which a write is tried while the kube-apiserver or the server is away.
const PATIENCE: Duration = Duration::from_secs(30);
/// Pause before a watch that could not be opened is opened again.
const PAUSE: Duration = Duration::from_secs(1);
/// The number of times that a patch is built anew because the object has changed since it was read.
const CONFLICTS: u32 = 8;

/// Returns the path of an APIService.
#[must_use]
pub fn api_service_path(name: &str) -> String {
    format!("/apis/apiregistration.k8s.io/v1/apiservices/{name}")
}

/// Returns the path of an object in one version of its resource.
#[must_use]
pub fn object_path(cx: &Cx, resource: &Resource, version: &str, key: &Key) -> String {
    let (group, plural) = (&cx.target.group, resource.plural());
    object(group, version, plural, &key.namespace, &key.name)
}

/// An object that was to be changed.
#[derive(Debug)]
pub struct Patched<T> {
    /// The object as it is now.
    pub now: T,
    /// The object as it was before; `None` where nothing had to be changed.
    pub before: Option<T>,
}

/// Changes an object by a JSON patch that is built from its present state. The patch is refused
/// when that state has changed; then the object is read and the patch built anew. `None` from
/// `build` means that there is nothing to do.
///
/// # Errors
/// See [`WireError`].
pub async fn patch_json<T: serde::de::DeserializeOwned>(
    wire: &Wire,
    path: &str,
    build: impl Fn(&T) -> Option<Patch>,
) -> Result<Patched<T>, WireError> {
    let mut attempt = 1;
    // The state whose patch got no answer: it may have been carried out.
    let mut before = None;
    loop {
        let current: T = retry(PATIENCE, || wire.get(path)).await?.json()?;
        let Some(operations) = build(&current) else {
            return Ok(Patched {
                now: current,
                before,
            });
        };
        let body = serde_json::to_vec(&operations).map_err(|e| WireError::Build {
            path: path.to_owned(),
            message: e.to_string(),
        })?;
        let uri = query(path, &[("fieldManager", FIELD_MANAGER)]);
        let call = || {
            wire.call(
                Method::PATCH,
                &uri,
                "application/json-patch+json",
                Some(body.clone()),
            )
        };
        match call().await {
            Ok(reply) => {
                let (now, before) = (reply.json()?, Some(current));
                return Ok(Patched { now, before });
            }
            // 409: the test failed; 422: the patch does not fit the object any more.
            Err(e) if matches!(e.code(), Some(409 | 422)) && attempt < CONFLICTS => attempt += 1,
            Err(e) if e.is_transient() && attempt < CONFLICTS => {
                attempt += 1;
                before = Some(current);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Err(e) => return Err(e),
        }
    }
}

/// Puts our server in charge of every version that is not ours yet, all at the same time.
///
/// # Errors
/// See [`WireError`].
pub async fn take_over(
    cx: &Cx,
    o: &Observed,
    notes: &BTreeMap<String, String>,
) -> Result<(), WireError> {
    let mut annotations = notes.clone();
    annotations.insert(ANNOTATION_CLAIMED_BY.to_owned(), cx.owner.name.clone());
    let (service, bundle) = (&cx.target.service, cx.target.ca_bundle.as_slice());
    let annotations = &annotations;
    let each = o.versions.iter().map(|v| {
        async move {
            let name = apiservice::name(&cx.target.group, &v.name);
            let build = |current: &APIService| {
                (apiservice::holder(Some(current), service) != Holder::Ours)
                    .then(|| apiservice::takeover_patch(current, service, bundle, annotations))
            };
            patch_json(&cx.wire, &api_service_path(&name), build).await
        }
        .boxed()
    });
    futures::future::try_join_all(each).await.map(drop)
}

/// Brings the Service and CA bundle of our APIServices up to date, and tells of those that somebody
/// had changed. One that does not lead to the server any more is left as it is: what it got meanwhile
/// is not known.
///
/// # Errors
/// See [`WireError`].
pub async fn mend(cx: &Cx, o: &Observed) -> Result<(), WireError> {
    let (service, ca_bundle) = (&cx.target.service, &cx.target.ca_bundle);
    let build = |current: &APIService| {
        apiservice::is_outdated(current, service, ca_bundle)
            .then(|| apiservice::refresh_patch(current, service, ca_bundle))
    };
    for version in &o.versions {
        let before = patch_ours(cx, version, build).await?;
        let note = before
            .and_then(|before| apiservice::restored(&before, service, ca_bundle, &cx.owner.name));
        if let Some(note) = note {
            tracing::warn!(note, "put back");
            cx.event(EventType::Warning, reasons::API_SERVICE_RESTORED, &note);
        }
    }
    Ok(())
}

/// Writes annotations to all our APIServices.
///
/// # Errors
/// See [`WireError`].
pub async fn annotate(
    cx: &Cx,
    o: &Observed,
    notes: &BTreeMap<String, String>,
) -> Result<(), WireError> {
    for version in o.versions.iter().filter(|v| v.holder == Holder::Ours) {
        let path = api_service_path(&apiservice::name(&cx.target.group, &version.name));
        let build = |current: &APIService| Some(apiservice::annotate_patch(current, notes));
        patch_json(&cx.wire, &path, build).await?;
    }
    Ok(())
}

/// Creates the APIServices of versions that nobody serves.
///
/// # Errors
/// See [`WireError`].
pub async fn register(
    cx: &Cx,
    o: &Observed,
    notes: &BTreeMap<String, String>,
) -> Result<(), WireError> {
    let mut annotations = notes.clone();
    annotations.insert(ANNOTATION_CLAIMED_BY.to_owned(), cx.owner.name.clone());
    for version in o.versions.iter().filter(|v| v.holder == Holder::Absent) {
        let (group, version) = (cx.target.group.as_str(), version.name.as_str());
        let bundle = &cx.target.ca_bundle;
        let object =
            apiservice::registration(group, version, &cx.target.service, bundle, &annotations);
        let path = "/apis/apiregistration.k8s.io/v1/apiservices";
        let body = serde_json::to_vec(&object).map_err(|e| WireError::Build {
            path: path.to_owned(),
            message: e.to_string(),
        })?;
        match cx
            .wire
            .call(Method::POST, path, "application/json", Some(body))
            .await
        {
            Ok(_) => {}
            // Created by an earlier try; the next observation tells whose it is.
            Err(e) if e.code() == Some(409) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Deletes those of the group's APIServices that are ours by now, each only in the state that was
/// read; the kube-apiserver creates the CRDs' own anew.
///
/// # Errors
/// See [`WireError`].
pub async fn release(cx: &Cx, o: &Observed) -> Result<(), WireError> {
    let each = o.versions.iter().map(|v| {
        async move {
            let path = api_service_path(&apiservice::name(&cx.target.group, &v.name));
            release_one(cx, &path).await
        }
        .boxed()
    });
    futures::future::try_join_all(each).await.map(drop)
}

/// Returns whether the APIServices of these versions are ours.
///
/// # Errors
/// See [`WireError`].
pub async fn are_ours(
    cx: &Cx,
    versions: impl Iterator<Item = &Version>,
) -> Result<bool, WireError> {
    let each = versions.map(|version| {
        async move {
            let path = api_service_path(&apiservice::name(&cx.target.group, &version.name));
            let found = find(PATIENCE, &cx.wire, &path).await?;
            let current: Option<APIService> = found.map(|reply| reply.json()).transpose()?;
            Ok(apiservice::holder(current.as_ref(), &cx.target.service) == Holder::Ours)
        }
        .boxed()
    });
    let ours = futures::future::try_join_all(each).await?;
    Ok(ours.into_iter().all(|ours| ours))
}

/// Waits until an APIService that was ours when the group was observed is not ours any more.
pub async fn taken_away(cx: &Cx, o: &Observed) {
    let services: Api<APIService> = Api::all(cx.client.clone());
    let not_ours =
        |found: Option<&APIService>| apiservice::holder(found, &cx.target.service) != Holder::Ours;
    let each = o.ours().map(|version| {
        let name = apiservice::name(&cx.target.group, &version.name);
        let services = services.clone();
        async move {
            // A watch that cannot be had tells nothing.
            while await_condition(services.clone(), &name, not_ours)
                .await
                .is_err()
            {
                tokio::time::sleep(PAUSE).await;
            }
        }
        .boxed()
    });
    let each: Vec<_> = each.collect();
    if each.is_empty() {
        std::future::pending::<()>().await;
    }
    select_all(each).await;
}

/// Leads those of the group's APIServices that are ours by now back to the server that they were
/// taken over from.
///
/// # Errors
/// See [`WireError`].
pub async fn return_to_predecessor(cx: &Cx, o: &Observed) -> Result<(), WireError> {
    for version in &o.versions {
        patch_ours(cx, version, apiservice::return_patch).await?;
    }
    Ok(())
}

/// Forgets the route of the group's APIServices to the server that they were taken over from: they
/// lead to the CRDs from now on.
///
/// # Errors
/// See [`WireError`].
pub async fn forget_predecessor(cx: &Cx, o: &Observed) -> Result<(), WireError> {
    let build = |current: &APIService| apiservice::forget_patch(current, TAKEN_SPEC);
    for version in &o.versions {
        patch_ours(cx, version, build).await?;
    }
    Ok(())
}

/// Changes the APIService of a version if it is ours, and returns it as it was.
async fn patch_ours(
    cx: &Cx,
    version: &Version,
    build: impl Fn(&APIService) -> Option<Patch>,
) -> Result<Option<APIService>, WireError> {
    let path = api_service_path(&apiservice::name(&cx.target.group, &version.name));
    let build = |current: &APIService| {
        let holder = apiservice::holder(Some(current), &cx.target.service);
        (holder == Holder::Ours).then(|| build(current)).flatten()
    };
    Ok(patch_json(&cx.wire, &path, build).await?.before)
}

async fn release_one(cx: &Cx, path: &str) -> Result<(), WireError> {
    let mut attempt = 1;
    loop {
        let current: APIService = match cx.wire.get(path).await {
            Ok(reply) => reply.json()?,
            Err(e) if e.code() == Some(404) => return Ok(()),
            Err(e) => return Err(e),
        };
        if apiservice::holder(Some(&current), &cx.target.service) != Holder::Ours {
            return Ok(());
        }
        let body = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {
            "uid": current.metadata.uid, "resourceVersion": current.metadata.resource_version}});
        match delete(&cx.wire, path, &body).await {
            Err(e) if e.code() == Some(409) && attempt < CONFLICTS => attempt += 1,
            Err(e) if e.code() == Some(404) => return Ok(()),
            done => return done,
        }
    }
}

/// Raises the counter of a group that the server serves to `revision` of etcd at least, and tells
/// all watches: so clients hold versions that the CRD would know as well.
///
/// # Errors
/// See [`WireError`].
pub async fn keep_up(cx: &Cx, o: &Observed, revision: u64) -> Result<(), WireError> {
    let Some(resource) = o.resources.first().filter(|_| o.all_ours()) else {
        return Ok(());
    };
    let known = resource.stored.status.resource_version.parse::<u64>();
    if known.is_ok_and(|known| known < revision) {
        let name = resource.name();
        cx.control.raise_floor(name, revision, PATIENCE).await?;
    }
    Ok(())
}

/// Sends DELETE with options.
///
/// # Errors
/// See [`WireError`].
pub async fn delete(wire: &Wire, path: &str, options: &Value) -> Result<(), WireError> {
    let body = Some(options.to_string().into_bytes());
    wire.call(Method::DELETE, path, "application/json", body)
        .await
        .map(drop)
}

/// Returns an object of which only the metadata is known.
#[must_use]
pub fn metadata_only(cx: &Cx, resource: &Resource, version: &str, known: &Identity) -> Value {
    let mut metadata = json!({"name": known.key.name, "uid": known.uid,
        "resourceVersion": known.version.to_string()});
    if !known.key.namespace.is_empty()
        && let Some(map) = metadata.as_object_mut()
    {
        map.insert(
            "namespace".to_owned(),
            Value::String(known.key.namespace.clone()),
        );
    }
    json!({"apiVersion": format!("{}/{version}", cx.target.group),
        "kind": resource.stored.status.kind, "metadata": metadata})
}

/// Sets the gates of `resources`, all at the same time.
///
/// # Errors
/// See [`WireError`].
pub async fn set_gates<'a>(
    cx: &Cx,
    resources: impl IntoIterator<Item = &'a Resource>,
    state: GateState,
    settled: Option<bool>,
) -> Result<(), WireError> {
    let spec = GateSpec {
        state,
        settled,
        ..GateSpec::default()
    };
    move_gates(cx, resources, &spec).await.map(drop)
}

/// Sets everything that a gate has, for `resources`, all at the same time; returns the gates as
/// they are afterwards.
///
/// # Errors
/// See [`WireError`]; 409 where another operator has taken over.
pub async fn move_gates<'a>(
    cx: &Cx,
    resources: impl IntoIterator<Item = &'a Resource>,
    spec: &GateSpec,
) -> Result<Vec<GateSpec>, WireError> {
    let each = resources
        .into_iter()
        .map(|r| cx.control.set_gate(r.name(), spec.clone(), PATIENCE));
    futures::future::try_join_all(each).await
}

/// Takes a new fencing token of each resource of the group: an operator that moved it before is
/// refused.
///
/// # Errors
/// See [`WireError`].
pub async fn take_fences(cx: &Cx, o: &Observed) -> Result<(), WireError> {
    let each = o.resources.iter().map(|r| cx.control.take_fence(r.name()));
    futures::future::try_join_all(each).await.map(drop)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use http::{Request, Response};
    use kube::client::Body;
    use tower_test::mock;

    use super::*;

    /// Answers reads with a version that rises by one each time, and patches with `codes` in turn.
    fn cluster(codes: &'static [u16]) -> (Wire, Arc<AtomicU32>) {
        let (service, mut handle) = mock::pair::<Request<Body>, Response<Body>>();
        let patches = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&patches);
        tokio::spawn(async move {
            let mut version = 0;
            while let Some((request, respond)) = handle.next_request().await {
                let (code, body) = if request.method() == Method::PATCH {
                    let n = count.fetch_add(1, Ordering::Relaxed) as usize;
                    (codes[n], json!({"message": "changed meanwhile"}))
                } else {
                    version += 1;
                    (200, json!({"resourceVersion": version.to_string()}))
                };
                let body = Body::from(body.to_string().into_bytes());
                respond.send_response(Response::builder().status(code).body(body).unwrap());
            }
        });
        (Wire::new(kube::Client::new(service, "default")), patches)
    }

    fn build(current: &Value) -> Option<Patch> {
        let test = json!([{"op": "test", "path": "/v", "value": current["resourceVersion"]}]);
        (current["resourceVersion"] != "3").then(|| serde_json::from_value(test).unwrap())
    }

    #[tokio::test]
    async fn a_patch_is_built_anew_from_what_the_object_is_by_now() {
        let (wire, patches) = cluster(&[409, 200]);
        let done = patch_json(&wire, "/x", build).await.unwrap();
        assert_eq!(patches.load(Ordering::Relaxed), 2);
        assert_eq!(done.before.unwrap()["resourceVersion"], "2");
    }

    #[tokio::test]
    async fn a_patch_that_has_become_needless_is_not_sent() {
        let (wire, patches) = cluster(&[422, 409]);
        let done = patch_json(&wire, "/x", build).await.unwrap();
        assert_eq!(patches.load(Ordering::Relaxed), 2);
        assert!(done.before.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_patch_without_an_answer_counts_as_carried_out() {
        let (wire, _) = cluster(&[503, 503]);
        let done = patch_json(&wire, "/x", build).await.unwrap();
        assert_eq!(done.before.unwrap()["resourceVersion"], "2");
    }

    #[tokio::test]
    async fn a_refusal_is_not_repeated() {
        let (wire, patches) = cluster(&[403]);
        let error = patch_json(&wire, "/x", build).await.unwrap_err();
        assert_eq!(error.code(), Some(403));
        assert_eq!(patches.load(Ordering::Relaxed), 1);
    }
}
