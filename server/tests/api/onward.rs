//! Watches that stay open when their resource is given back.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use crds::control::GateState;
use futures::StreamExt;
use futures::stream::BoxStream;
use http::StatusCode;
use reports_server::cluster::{WATCH_PROXY, WatchProxy, WatchProxyError};
use serde_json::json;

use crate::harness::*;

const RESOURCE: &str = "policyreports.wgpolicyk8s.io";
const MODIFIED: &str = r#"{"type":"MODIFIED","object":{"metadata":{"resourceVersion":"900"}}}"#;

/// A CRD that sends the same to each watch, if it answers.
struct Crd {
    refuses: bool,
    sends: String,
    /// True when the answer ends then.
    ends: bool,
    asked: Mutex<Vec<(String, Option<String>, String)>>,
}

impl Default for Crd {
    fn default() -> Self {
        Self {
            refuses: false,
            sends: format!("{MODIFIED}\n"),
            ends: false,
            asked: Mutex::default(),
        }
    }
}

#[async_trait]
impl WatchProxy for Crd {
    async fn watch(
        &self,
        uri: String,
        accept: Option<String>,
        form: &str,
    ) -> Result<BoxStream<'static, Bytes>, WatchProxyError> {
        self.asked
            .lock()
            .unwrap()
            .push((uri, accept, form.to_owned()));
        if self.refuses {
            let (status, form) = (StatusCode::FORBIDDEN, String::new());
            return Err(WatchProxyError::Refused { status, form });
        }
        let sent = self.sends.as_bytes().chunks(7);
        let sent: Vec<_> = sent.map(Bytes::copy_from_slice).collect();
        let sent = futures::stream::iter(sent);
        Ok(if self.ends {
            sent.boxed()
        } else {
            sent.chain(futures::stream::pending()).boxed()
        })
    }
}

impl Crd {
    async fn behind(self) -> (Server, Arc<Self>) {
        let crd = Arc::new(self);
        let mut server = Server::start().await;
        server.api = server.api.proxying_watches(Arc::<Self>::clone(&crd));
        (server, crd)
    }
}

/// Gives the resource back; returns its last version.
async fn give_back(server: &Server) -> u64 {
    let seen = server.created("seen").await;
    let last = rv(&seen) + 100;
    server.release(RESOURCE, last).await;
    server.set_gate(RESOURCE, GateState::Closed).await;
    last
}

/// Reads the events up to the one of the CRD; the one before it has to be a bookmark at `last`.
async fn reaches_the_crd(watch: &mut Events, last: u64) {
    let mut before = None;
    loop {
        let event = watch.next().await.expect("the watch has to go on");
        if event["type"] == "MODIFIED" {
            break;
        }
        before = Some(event);
    }
    let before = before.unwrap();
    assert_eq!(before["type"], "BOOKMARK");
    assert_eq!(rv(&before["object"]), last);
}

#[tokio::test]
async fn a_watch_goes_on_at_the_crd_behind_the_last_bookmark() {
    let (server, crd) = Crd::default().behind().await;
    let uri = format!(
        "{REPORTS}?watch=1&allowWatchBookmarks=true&labelSelector=a%21%3Db\
         &timeoutSeconds=600"
    );
    let request = server.request("GET", &uri).user("somebody");
    let mut watch = request.header("accept", "application/json").watch().await;
    let last = give_back(&server).await;
    reaches_the_crd(&mut watch, last).await;

    let asked = crd.asked.lock().unwrap().clone();
    let [(uri, accept, form)] = &asked[..] else {
        panic!("asked once: {asked:?}")
    };
    let (uri, seconds) = uri.rsplit_once('=').unwrap();
    let expected = format!(
        "{REPORTS}?watch=1&allowWatchBookmarks=true&labelSelector=a%21%3Db&resourceVersion={last}\
         &timeoutSeconds"
    );
    assert_eq!(uri, expected);
    let seconds: u64 = seconds.parse().unwrap();
    assert!((580..600).contains(&seconds), "{seconds}");
    assert_eq!(accept.as_deref(), Some("application/json"));
    assert_eq!(form, "application/json");

    server.shutdown.cancel();
    assert!(watch.next().await.is_none());
}

#[tokio::test]
async fn a_watch_ends_after_the_last_bookmark_where_the_crd_does_not_answer() {
    let refuses = true;
    let (server, _) = Crd {
        refuses,
        ..Crd::default()
    }
    .behind()
    .await;
    let uri = format!("{REPORTS}?watch=1&allowWatchBookmarks=true");
    let mut watch = server.request("GET", &uri).user("somebody").watch().await;
    let last = give_back(&server).await;
    let mut events = Vec::new();
    while let Some(event) = watch.next().await {
        events.push(event);
    }
    let end = events.last().unwrap();
    assert_eq!(end["type"], "BOOKMARK");
    assert_eq!(rv(&end["object"]), last);
}

/// Sends this to a watch of `somebody` after the resource was given back; returns the types of the
/// events that the client sees from the last bookmark on.
async fn seen_of(sends: String, ends: bool) -> Vec<String> {
    let crd = Crd {
        sends,
        ends,
        ..Crd::default()
    };
    let (server, _) = crd.behind().await;
    let uri = format!("{REPORTS}?watch=1&allowWatchBookmarks=true");
    let mut watch = server.request("GET", &uri).user("somebody").watch().await;
    let last = give_back(&server).await;
    let mut seen = Vec::new();
    while let Some(event) = watch.next().await {
        if !seen.is_empty() || rv(&event["object"]) == last {
            seen.push(event["type"].as_str().unwrap().to_owned());
        }
    }
    seen
}

#[tokio::test]
async fn a_line_that_breaks_off_is_not_passed_on() {
    let cut = format!("{MODIFIED}\n{}", &MODIFIED[..20]);
    assert_eq!(seen_of(cut, true).await, ["BOOKMARK", "MODIFIED"]);
}

/// It ends watches of Kyverno for good, and is the word of one kube-apiserver: the client asks its own.
#[tokio::test]
async fn an_error_of_the_crd_is_not_passed_on() {
    let gone = r#"{"type":"ERROR","object":{"kind":"Status","code":410}}"#;
    let sends = format!("{MODIFIED}\n{gone}\n{MODIFIED}\n");
    assert_eq!(seen_of(sends, false).await, ["BOOKMARK", "MODIFIED"]);
}

/// The holder must not see events of etcd; a client without bookmarks could not resume later.
#[tokio::test]
async fn watches_of_the_holder_and_those_without_bookmarks_end() {
    let (server, crd) = Crd::default().behind().await;
    let own = format!("{REPORTS}?watch=1&allowWatchBookmarks=true");
    let mut own = server.watch(&own).await;
    let plain = server.request("GET", &format!("{REPORTS}?watch=1"));
    let mut plain = plain.user("somebody").watch().await;
    give_back(&server).await;
    while own.next().await.is_some() {}
    let mut end = None;
    while let Some(event) = plain.next().await {
        end = Some(event);
    }
    assert_eq!(end.unwrap()["object"]["code"], 410);
    assert!(crd.asked.lock().unwrap().is_empty());
}

/// The kube-apiserver that was asked still sends requests here: the client would go round in circles.
#[tokio::test]
async fn the_rest_of_a_watch_is_not_served_by_a_server() {
    let server = Server::start().await;
    let uri = format!("{REPORTS}?watch=1");
    let request = server
        .request("GET", &uri)
        .header("user-agent", WATCH_PROXY);
    let answer = request.send().await;
    assert_eq!(answer.code, 503);
    assert_eq!(answer.headers["retry-after"], json!(1).to_string());
}
