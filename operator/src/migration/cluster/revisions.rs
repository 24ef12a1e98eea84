//! Etcd's revision: reading it, and raising it by writes that mean nothing.

use std::time::Duration;

use futures::FutureExt;
use futures::future::try_join_all;
use http::Method;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use serde::Deserialize;
use serde_json::json;

use super::control::retry;
use super::endpoints::Endpoints;
use super::wire::{Wire, WireError, query};

/// Writers at the same time.
const BURNERS: u64 = 8;
/// Most revisions that a writer makes before the revision is read again: others make some too.
const SHARE: u64 = 500;
/// The time for which one request is tried.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns etcd's revision: the newest that a kube-apiserver reports, read from a built-in
/// resource.
///
/// # Errors
/// See [`WireError`].
pub async fn newest(endpoints: &Endpoints) -> Result<u64, WireError> {
    let each = endpoints
        .all
        .iter()
        .map(|endpoint| known_to(&endpoint.wire).boxed());
    let all = try_join_all(each).await?;
    Ok(all.into_iter().max().unwrap_or_default())
}

/// Returns etcd's revision as one kube-apiserver reports it.
///
/// # Errors
/// See [`WireError`].
pub async fn known_to(wire: &Wire) -> Result<u64, WireError> {
    #[derive(Deserialize)]
    struct List {
        metadata: ListMeta,
    }
    let uri = query("/api/v1/namespaces", &[("limit", "1")]);
    let list: List = retry(PATIENCE, || wire.get_metadata(&uri)).await?.json()?;
    let version = list.metadata.resource_version.unwrap_or_default();
    version.parse::<u64>().map_err(|e| WireError::Build {
        path: "/api/v1/namespaces".to_owned(),
        message: format!("resourceVersion {version:?} is not a number: {e}"),
    })
}

/// Raises etcd's revision to `goal` at least, by writes to `ConfigMap`s of `name` in `namespace`;
/// see [`tidy`]. Reports before each round the number of revisions that are left.
///
/// Returns the revision that is reached.
///
/// # Errors
/// See [`WireError`]; carrying it out again goes on.
pub async fn raise(
    endpoints: &Endpoints,
    (namespace, name): (&str, &str),
    goal: u64,
    mut left: impl FnMut(u64),
) -> Result<u64, WireError> {
    loop {
        let revision = newest(endpoints).await?;
        let gap = goal.saturating_sub(revision);
        if gap == 0 {
            return Ok(revision);
        }
        left(gap);
        let burners = gap.min(BURNERS);
        let share = gap.div_ceil(burners).min(SHARE);
        let each = (0..burners).map(|n| {
            let at = usize::try_from(n).unwrap_or(0) % endpoints.all.len().max(1);
            let wire = endpoints.all.get(at).map(|endpoint| &endpoint.wire);
            async move {
                match wire {
                    Some(wire) => burn(wire, namespace, &format!("{name}-{n}"), share).await,
                    None => Ok(()),
                }
            }
            .boxed()
        });
        try_join_all(each).await?;
    }
}

/// Deletes the `ConfigMap`s that [`raise`] has written to.
///
/// # Errors
/// See [`WireError`].
pub async fn tidy(wire: &Wire, (namespace, name): (&str, &str)) -> Result<(), WireError> {
    for n in 0..BURNERS {
        delete(wire, namespace, &format!("{name}-{n}")).await?;
    }
    Ok(())
}

/// Makes `count` revisions with one `ConfigMap`.
async fn burn(wire: &Wire, namespace: &str, name: &str, count: u64) -> Result<(), WireError> {
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let path = format!("{maps}/{name}");
    for n in 0..count {
        let change = json!({"data": {"burnt": format!("{n} {:?}", std::time::Instant::now())}});
        let body = Some(change.to_string().into_bytes());
        let write = || {
            wire.call(
                Method::PATCH,
                &path,
                "application/merge-patch+json",
                body.clone(),
            )
        };
        match retry(PATIENCE, write).await {
            // Not made yet, or taken away by somebody who tidies up.
            Err(e) if e.code() == Some(404) => create(wire, &maps, name).await?,
            done => drop(done?),
        }
    }
    Ok(())
}

async fn create(wire: &Wire, maps: &str, name: &str) -> Result<(), WireError> {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let body = Some(map.to_string().into_bytes());
    let post = || wire.call(Method::POST, maps, "application/json", body.clone());
    match retry(PATIENCE, post).await {
        Err(e) if e.code() != Some(409) => Err(e),
        _ => Ok(()),
    }
}

async fn delete(wire: &Wire, namespace: &str, name: &str) -> Result<(), WireError> {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
    let call = || wire.call(Method::DELETE, &path, "application/json", None);
    match retry(PATIENCE, call).await {
        Err(e) if e.code() != Some(404) => Err(e),
        _ => Ok(()),
    }
}
