//! The confirmation that every kube-apiserver answers from the CRDs again.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::FutureExt;
use futures::future::try_join_all;
use tokio::time::Instant;

use super::error::{BackError, CONFIRM};
use crate::migration::cluster::door::FROM_CACHE;
use crate::migration::cluster::endpoints::{Endpoint, Endpoints};
use crate::migration::cluster::wire::{collection, query};
use crate::migration::context::Cx;
use crate::migration::observe::state::Observed;

/// Pause between two questions.
const PAUSE: Duration = Duration::from_millis(20);

/// Waits until every kube-apiserver answers from the CRDs: discovery and lists.
pub(super) async fn confirm(cx: &Cx, o: &Observed, endpoints: &Endpoints) -> Result<(), BackError> {
    let group = cx.target.group.as_str();
    let mut lists: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (resource, crd) in o.crds() {
        for version in crd.served() {
            let list = collection(group, version, resource.plural());
            let of_version = lists.entry(format!("/apis/{group}/{version}")).or_default();
            of_version.push(query(&list, FROM_CACHE));
        }
    }
    let lists = &lists;
    let each = endpoints.all.iter().flat_map(|endpoint| {
        lists
            .iter()
            .map(move |(discovery, lists)| confirm_at(endpoint, discovery, lists).boxed())
    });
    try_join_all(each).await.map(drop)
}

/// Confirms one version at one kube-apiserver. Discovery comes first: a list that it still sends to
/// our server waits there until the gate closes, which is after this.
async fn confirm_at(
    endpoint: &Endpoint,
    discovery: &str,
    lists: &[String],
) -> Result<(), BackError> {
    answers(endpoint, discovery).await?;
    let each = lists.iter().map(|list| answers(endpoint, list).boxed());
    try_join_all(each).await.map(drop)
}

/// Waits until a path is answered, and not by our server.
async fn answers(endpoint: &Endpoint, path: &str) -> Result<(), BackError> {
    let wire = &endpoint.wire;
    let deadline = Instant::now() + CONFIRM;
    while Instant::now() < deadline {
        if let Ok(Ok(reply)) = tokio::time::timeout(Duration::from_secs(5), wire.get(path)).await
            && !reply.is_ours()
        {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(BackError::NotConfirmed {
        path: path.to_owned(),
        endpoint: endpoint.address.clone(),
    })
}
