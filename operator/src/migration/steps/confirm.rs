//! The confirmation that every kube-apiserver answers from our server.

use std::time::Duration;

use futures::FutureExt;
use futures::future::try_join_all;
use tokio::time::Instant;

use crate::migration::cluster::behind;
use crate::migration::cluster::endpoints::{self, Endpoints, EndpointsError};
use crate::migration::cluster::wire::Wire;
use crate::migration::context::Cx;
use crate::migration::observe::state::Observed;

/// The time that is allowed for our answers at every kube-apiserver.
const CONFIRM: Duration = Duration::from_secs(20);
/// Pause between two questions.
const PAUSE: Duration = Duration::from_millis(10);

/// The reason why it is not known that our server answers everywhere.
#[derive(Debug, thiserror::Error)]
pub enum ConfirmError {
    /// A kube-apiserver cannot be asked.
    #[error(transparent)]
    Endpoints(#[from] EndpointsError),
    /// Our server does not answer at a kube-apiserver.
    #[error(
        "after {} s the server does not answer for {version} at the kube-apiserver {endpoint}; look \
         at the conditions of the APIService of the control API and at the server's log",
        CONFIRM.as_secs()
    )]
    NotConfirmed {
        /// Version of the group.
        version: String,
        /// Address of the kube-apiserver.
        endpoint: String,
    },
}

/// Waits until every kube-apiserver answers from our server, for every version.
///
/// # Errors
/// [`ConfirmError::NotConfirmed`] after some time.
pub async fn confirm(cx: &Cx, o: &Observed, endpoints: &Endpoints) -> Result<(), ConfirmError> {
    let each = o.versions.iter().map(|v| {
        async move {
            let path = format!("/apis/{}/{}", cx.target.group, v.name);
            if !endpoints.direct {
                return confirm_indirect(cx, &path, &v.name, endpoints.alive)
                    .boxed()
                    .await;
            }
            let all = endpoints
                .all
                .iter()
                .map(|e| confirm_at(&e.wire, &path, &v.name, &e.address));
            try_join_all(all).await.map(drop)
        }
        .boxed()
    });
    try_join_all(each).await.map(drop)
}

async fn confirm_at(
    wire: &Wire,
    path: &str,
    version: &str,
    endpoint: &str,
) -> Result<(), ConfirmError> {
    let deadline = Instant::now() + CONFIRM;
    loop {
        // The last question begins after the time is up: an operator that stood still, while
        // another one opened the gates, must not undo what that one has done.
        let is_last = Instant::now() >= deadline;
        // Any failure is as good as an answer of the old handler: not yet.
        if let Ok(Ok(reply)) = tokio::time::timeout(Duration::from_secs(2), wire.get(path)).await
            && reply.is_ours()
        {
            return Ok(());
        }
        if is_last {
            return Err(ConfirmError::NotConfirmed {
                version: version.to_owned(),
                endpoint: endpoint.to_owned(),
            });
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Does the same behind one address, where `alive` kube-apiservers are known; see [`behind`].
async fn confirm_indirect(
    cx: &Cx,
    path: &str,
    version: &str,
    alive: usize,
) -> Result<(), ConfirmError> {
    let deps = &cx.deps;
    let ask = || async move {
        let wire = endpoints::connect(deps)?;
        let answer = tokio::time::timeout(Duration::from_secs(2), wire.get(path)).await;
        Ok::<_, EndpointsError>(matches!(answer, Ok(Ok(reply)) if reply.is_ours()))
    };
    if behind::confirmed(alive, CONFIRM, ask).await? {
        return Ok(());
    }
    Err(ConfirmError::NotConfirmed {
        version: version.to_owned(),
        endpoint: deps.config.cluster_url.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::migration::cluster::wire::SERVER_HEADER;
    use crate::testing::pair;

    #[tokio::test(start_paused = true)]
    async fn one_that_stood_still_asks_once_more_before_anything_is_undone() {
        let (client, mut server) = pair();
        let wire = Wire::new(client);
        let question = async move { confirm_at(&wire, "/apis/g.io/v1", "v1", "a").await };
        let asking = tokio::spawn(question);
        server.next().await.refuse(404, "NotFound");
        tokio::time::advance(CONFIRM * 2).await;
        server.next().await.answer_with(SERVER_HEADER, &json!({}));
        asking.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_never_answers_is_not_confirmed() {
        let (client, mut server) = pair();
        let refusing = tokio::spawn(async move { server.refuse_all(503, "Unavailable").await });
        let asked = confirm_at(&Wire::new(client), "/apis/g.io/v1", "v1", "a").await;
        assert!(matches!(asked, Err(ConfirmError::NotConfirmed { .. })));
        refusing.abort();
    }
}
