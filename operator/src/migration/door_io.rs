//! Opening, guarding and closing the side door.

use std::time::Duration;

use futures::{FutureExt, future::try_join_all};
use http::Method;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    acts::patch_json,
    cx::Cx,
    door::{self, VERSION},
    endpoints::Endpoint,
    observed::Observed,
    wire::{WireError, collection, query},
};
use crds::names::FIELD_MANAGER;

/// How long a door is waited for: a CRD with many objects re-initializes its storage first.
const PATIENCE: Duration = Duration::from_mins(3);
/// Pause between two looks at a door that does not answer yet.
const PAUSE: Duration = Duration::from_millis(200);
/// Path of policies and bindings.
const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";

/// Puts the policy in force that lets nobody but the operator write through the door.
///
/// # Errors
/// See [`WireError`].
pub async fn guard(cx: &Cx) -> Result<(), WireError> {
    let user = whoami(cx).await?;
    let group = cx.target.group.as_str();
    let name = door::policy_name(group);
    let objects = [
        ("validatingadmissionpolicies", door::policy(group, &user)),
        ("validatingadmissionpolicybindings", door::binding(group)),
    ];
    for (plural, object) in objects {
        let path = format!("{ADMISSION}/{plural}/{name}");
        let uri = query(&path, &[("fieldManager", FIELD_MANAGER), ("force", "true")]);
        let body = Some(object.to_string().into_bytes());
        cx.wire
            .call(Method::PATCH, &uri, "application/apply-patch+yaml", body)
            .await?;
    }
    Ok(())
}

/// The user that the operator is to the kube-apiserver.
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

/// Opens the door of every CRD of the group for `token`, all at the same time.
///
/// # Errors
/// See [`WireError`].
pub async fn open(cx: &Cx, o: &Observed, token: &str) -> Result<(), WireError> {
    let each = o.crds().map(|(_, crd)| {
        async move {
            let build = |current: &CustomResourceDefinition| door::open_patch(current, token);
            patch_json(&cx.wire, &crd_path(crd.name()), build).await
        }
        .boxed()
    });
    try_join_all(each).await.map(drop)
}

/// Opens the door of every CRD that has it closed, whatever it was opened for.
///
/// # Errors
/// See [`WireError`].
pub async fn ensure_open(cx: &Cx, o: &Observed, token: &str) -> Result<(), WireError> {
    let each = o.crds().map(|(_, crd)| {
        async move {
            let build = |current: &CustomResourceDefinition| {
                if door::state(current).is_open() {
                    None
                } else {
                    door::open_patch(current, token)
                }
            };
            patch_json(&cx.wire, &crd_path(crd.name()), build).await
        }
        .boxed()
    });
    try_join_all(each).await.map(drop)
}

/// Closes the doors, then takes the guard away.
///
/// # Errors
/// See [`WireError`].
pub async fn close(cx: &Cx, o: &Observed) -> Result<(), WireError> {
    for (_, crd) in o.crds() {
        patch_json(&cx.wire, &crd_path(crd.name()), door::close_patch).await?;
    }
    unguard(cx).await
}

/// Takes the guard away.
///
/// # Errors
/// See [`WireError`].
pub async fn unguard(cx: &Cx) -> Result<(), WireError> {
    let name = door::policy_name(&cx.target.group);
    for plural in [
        "validatingadmissionpolicybindings",
        "validatingadmissionpolicies",
    ] {
        let path = format!("{ADMISSION}/{plural}/{name}");
        match cx
            .wire
            .call(Method::DELETE, &path, "application/json", None)
            .await
        {
            Ok(_) => {}
            Err(e) if e.code() == Some(404) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Waits until a list of every CRD of the group answers 200 through the door at `endpoints`.
///
/// # Errors
/// The last failure after three minutes; at once for one that waiting does not change.
pub async fn await_open(cx: &Cx, o: &Observed, endpoints: &[Endpoint]) -> Result<(), WireError> {
    let mut each = Vec::new();
    for (resource, _) in o.crds() {
        let path = collection(&cx.target.group, VERSION, resource.plural());
        let uri = query(&path, &[("limit", "1")]);
        each.extend(
            endpoints
                .iter()
                .map(|endpoint| answers(endpoint, uri.clone()).boxed()),
        );
    }
    try_join_all(each).await.map(drop)
}

async fn answers(endpoint: &Endpoint, uri: String) -> Result<(), WireError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let error = match endpoint.wire.get_metadata(&uri).await {
            Ok(_) => return Ok(()),
            // 404: the new version is not in the handler yet.
            Err(e) if e.is_transient() || e.code() == Some(404) => e,
            Err(e) => return Err(e),
        };
        let pause = error
            .retry_after()
            .unwrap_or(PAUSE)
            .clamp(PAUSE, Duration::from_secs(1));
        if Instant::now() + pause > deadline {
            return Err(error);
        }
        tokio::time::sleep(pause).await;
    }
}

fn crd_path(name: &str) -> String {
    format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
}
