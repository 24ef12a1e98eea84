//! The rest of a watch whose resource is given back: the client stays connected, and gets what the
//! CRD sends. Clients such as Kyverno discard work from the end of a watch until the next one is open.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::request_info::Query;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use http::header::ACCEPT;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use storage::cache::Resource;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use url::form_urlencoded;

use super::framing::{Framing, Whole};
use crate::api::Api;
use crate::api::scope::Scope;
use crate::cluster::{WATCH_PROXY, WatchProxy};
use crate::http::negotiation::{Accepted, MediaType};

/// Longest time until the CRD has answered.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest time without a byte. Where nothing happens to a resource, a kube-apiserver sends a bookmark
/// after etcd has told it of its progress, which takes ten minutes and more by default.
const SILENCE: Duration = Duration::from_mins(15);
/// Characters of a path that a URI has in another form.
const ESCAPED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'`')
    .add(b'{')
    .add(b'}');
/// Parameters that say where and how long; the others are the client's.
const OWN: [&str; 5] = [
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeout",
    "timeoutSeconds",
];

/// The rest of one watch.
pub struct Onward {
    proxy: Arc<dyn WatchProxy>,
    resource: Arc<Resource>,
    user: String,
    path: String,
    query: Query,
    accept: Option<String>,
    accepted: Accepted,
    shutdown: CancellationToken,
}

/// The answer of the CRD, and the part of it that has not been passed on.
type Answer = (BoxStream<'static, Bytes>, Framing);

/// Returns whether a request is such a rest already, which this server sent or another one did: it was
/// meant for the CRD.
pub fn is_onward(scope: &Scope) -> bool {
    scope.ctx.user_agent() == WATCH_PROXY
}

impl Onward {
    /// Returns the rest of a watch; `None` where nobody can go on with it.
    pub fn of(api: &Api, scope: &Scope, accepted: Accepted) -> Option<Self> {
        let ctx = &scope.ctx;
        let accept = ctx.headers.get_all(ACCEPT).iter();
        let accept: Vec<_> = accept.filter_map(|value| value.to_str().ok()).collect();
        Some(Self {
            proxy: Arc::clone(api.watch_proxy.as_ref()?),
            resource: Arc::clone(&scope.resource),
            user: ctx.user.username.clone(),
            path: ctx.info.path.clone(),
            query: ctx.info.query.clone(),
            accept: (!accept.is_empty()).then(|| accept.join(", ")),
            accepted,
            shutdown: ctx.shutdown.clone(),
        })
    }

    /// Returns what the CRD sends behind `rv`, until the watch is to end or breaks off; nothing where
    /// it cannot be had, so that the client asks itself. The CRD is asked when the first piece is.
    pub fn open(self, rv: u64, end: Instant) -> BoxStream<'static, Bytes> {
        let shutdown = self.shutdown.clone();
        let framing = Framing::new(self.accepted.media_type == MediaType::Protobuf);
        let begun = async move { self.begin(rv, end).await.map(|pieces| (pieces, framing)) };
        let events = begun.map(|answer| futures::stream::unfold(answer, next));
        let events = events.flatten_stream();
        events.take_until(shutdown.cancelled_owned()).boxed()
    }

    async fn begin(self, rv: u64, end: Instant) -> Option<BoxStream<'static, Bytes>> {
        // The operator must not take events of etcd for events of this server.
        if self.resource.gate().borrow().holder.as_deref() == Some(self.user.as_str()) {
            return None;
        }
        let seconds = end.saturating_duration_since(Instant::now()).as_secs();
        if seconds == 0 {
            return None;
        }
        let uri = uri(&self.path, &self.query, rv, seconds);
        let form = self.accepted.content_type();
        let asked = self.proxy.watch(uri, self.accept, form);
        match timeout(PATIENCE, asked).await {
            Ok(Ok(pieces)) => Some(pieces),
            Ok(Err(error)) => {
                tracing::info!(path = self.path, %error, "a watch ends: it cannot go on at the CRD");
                None
            }
            Err(_) => {
                tracing::info!(path = self.path, "a watch ends: no answer from the CRD");
                None
            }
        }
    }
}

/// Returns the next whole events, and what is behind them; nothing at the end. An error is the end as
/// well: whether the version of the client is known is for its own kube-apiserver to say.
async fn next(answer: Option<Answer>) -> Option<(Bytes, Option<Answer>)> {
    let (mut pieces, mut framing) = answer?;
    loop {
        let piece = timeout(SILENCE, pieces.next()).await.ok().flatten()?;
        let Whole { events, last } = framing.take(&piece);
        if last {
            return (!events.is_empty()).then_some((events, None));
        }
        if !events.is_empty() {
            return Some((events, Some((pieces, framing))));
        }
    }
}

/// Returns the same request for what comes behind `rv`, within so many seconds.
fn uri(path: &str, query: &Query, rv: u64, seconds: u64) -> String {
    let path = utf8_percent_encode(path, ESCAPED);
    let kept = query.iter().filter(|(name, _)| !OWN.contains(name));
    let query = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(kept)
        .append_pair("resourceVersion", &rv.to_string())
        .append_pair("timeoutSeconds", &seconds.to_string())
        .finish();
    format!("{path}?{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_the_clients_but_for_its_place_and_end() {
        let query = Query::parse(
            "watch=true&allowWatchBookmarks=true&labelSelector=a%3D%3Db%2Cc&resourceVersion=7\
             &resourceVersionMatch=NotOlderThan&sendInitialEvents=true&timeout=8m&timeoutSeconds=480",
        );
        assert_eq!(
            uri("/apis/g.io/v1/namespaces/a?b/things", &query, 90, 30),
            "/apis/g.io/v1/namespaces/a%3Fb/things?watch=true&allowWatchBookmarks=true\
             &labelSelector=a%3D%3Db%2Cc&resourceVersion=90&timeoutSeconds=30"
        );
    }
}
