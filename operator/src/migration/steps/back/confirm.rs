//! The confirmation that every kube-apiserver answers from the CRDs again.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::FutureExt;
use futures::future::try_join_all;
use tokio::time::Instant;

use super::error::{BackError, CONFIRM};
use crate::migration::cluster::behind;
use crate::migration::cluster::door::FROM_CACHE;
use crate::migration::cluster::endpoints::{self, Endpoint, Endpoints, EndpointsError};
use crate::migration::cluster::wire::{Wire, collection, query};
use crate::migration::context::Cx;
use crate::migration::observe::state::Observed;

/// Pause between two questions.
const PAUSE: Duration = Duration::from_millis(20);
/// The longest wait for one answer.
const ANSWER: Duration = Duration::from_secs(5);

/// Waits until every kube-apiserver answers from the CRDs: discovery and lists.
pub(super) async fn confirm(cx: &Cx, o: &Observed, endpoints: &Endpoints) -> Result<(), BackError> {
    let lists = lists(&cx.target.group, o);
    if !endpoints.direct {
        return confirm_indirect(cx, &lists, endpoints.alive).await;
    }
    let lists = &lists;
    let each = endpoints.all.iter().flat_map(|endpoint| {
        lists
            .iter()
            .map(move |(discovery, lists)| confirm_at(endpoint, discovery, lists).boxed())
    });
    try_join_all(each).await.map(drop)
}

/// Returns the lists that the CRDs answer, by the path of the discovery of their version.
fn lists(group: &str, o: &Observed) -> BTreeMap<String, Vec<String>> {
    let mut lists: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (resource, crd) in o.crds() {
        for version in crd.served() {
            let list = collection(group, version, resource.plural());
            let of_version = lists.entry(format!("/apis/{group}/{version}")).or_default();
            of_version.push(query(&list, FROM_CACHE));
        }
    }
    lists
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
    let deadline = Instant::now() + CONFIRM;
    while Instant::now() < deadline {
        if is_answered(&endpoint.wire, path).await {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(BackError::NotConfirmed {
        path: path.to_owned(),
        endpoint: endpoint.address.clone(),
    })
}

/// Returns whether a path is answered now, and not by our server.
async fn is_answered(wire: &Wire, path: &str) -> bool {
    let answer = tokio::time::timeout(ANSWER, wire.get(path)).await;
    matches!(answer, Ok(Ok(reply)) if !reply.is_ours())
}

/// Does the same behind one address, where `alive` kube-apiservers are known; see [`behind`].
async fn confirm_indirect(
    cx: &Cx,
    lists: &BTreeMap<String, Vec<String>>,
    alive: usize,
) -> Result<(), BackError> {
    let deps = &cx.deps;
    let each = lists.iter().map(|(discovery, lists)| {
        async move {
            let connect = || endpoints::connect(deps);
            if confirm_behind(connect, alive, discovery, lists).await? {
                return Ok(());
            }
            Err(BackError::NotConfirmed {
                path: discovery.clone(),
                endpoint: deps.config.cluster_url.to_string(),
            })
        }
        .boxed()
    });
    try_join_all(each).await.map(drop)
}

/// Returns whether one version is answered from the CRDs at every kube-apiserver behind one address.
/// Each connection is asked for discovery first, as above.
async fn confirm_behind(
    connect: impl Fn() -> Result<Wire, EndpointsError>,
    alive: usize,
    discovery: &str,
    lists: &[String],
) -> Result<bool, EndpointsError> {
    let connect = &connect;
    let ask = || async move {
        let wire = connect()?;
        let mut answered = is_answered(&wire, discovery).await;
        for list in lists {
            answered = answered && is_answered(&wire, list).await;
        }
        Ok::<_, EndpointsError>(answered)
    };
    behind::confirmed(alive, CONFIRM, ask).await
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::migration::cluster::wire::SERVER_HEADER;
    use crate::testing::{Server, pair};

    const DISCOVERY: &str = "/apis/g.io/v1";
    const LIST: &str = "/apis/g.io/v1/reports?resourceVersion=0";

    /// Answers until the client is gone, from our server where `ours` says so of the number of earlier
    /// requests. Returns the paths.
    async fn serve(mut server: Server, ours: impl Fn(usize) -> bool) -> Vec<String> {
        let mut asked = Vec::new();
        while let Some(request) = server.next_if_any().await {
            let path = request.path.clone();
            if ours(asked.len()) {
                request.answer_with(SERVER_HEADER, &json!({}));
            } else {
                request.answer(200, &json!({}));
            }
            asked.push(path);
        }
        asked
    }

    /// Confirms a version behind one address; returns the result, and the numbers of questions for
    /// discovery and for the list.
    async fn confirmed(
        alive: usize,
        ours: impl Fn(usize) -> bool + Send + 'static,
    ) -> (bool, usize, usize) {
        let (client, server) = pair();
        let serving = tokio::spawn(serve(server, ours));
        let connect = || Ok(Wire::new(client.clone()));
        let lists = [LIST.to_owned()];
        let done = confirm_behind(connect, alive, DISCOVERY, &lists).await;
        drop(client);
        let asked = serving.await.unwrap();
        let of = |wanted: &str| asked.iter().filter(|path| *path == wanted).count();
        (done.unwrap(), of(DISCOVERY), of(LIST))
    }

    #[rstest]
    #[case::all_answer_from_the_crds(0, None, (true, 20, 20))]
    #[case::more_are_known(5, None, (true, 40, 40))]
    // The fifth request is the third for discovery; its connection is asked for nothing else.
    #[case::discovery_was_late_at_one(3, Some(4), (true, 3 + 24, 2 + 24))]
    #[case::a_list_was_late_at_one(3, Some(5), (true, 3 + 24, 3 + 24))]
    #[tokio::test(start_paused = true)]
    async fn behind_one_address_all_answers_of_a_row_have_to_be_from_the_crds(
        #[case] alive: usize,
        #[case] late: Option<usize>,
        #[case] expected: (bool, usize, usize),
    ) {
        let ours = move |before| Some(before) == late;
        assert_eq!(confirmed(alive, ours).await, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_kube_apiserver_that_keeps_to_the_server_behind_one_address_is_noticed() {
        let begun = Instant::now();
        // Every third connection leads to one that has not heard of it.
        let (confirmed, ..) = confirmed(3, |before| before % 5 == 4).await;
        assert!(!confirmed);
        assert!(begun.elapsed() >= CONFIRM, "{:?}", begun.elapsed());
    }
}
