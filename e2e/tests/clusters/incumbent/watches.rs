//! Watches and informers of clients, which a takeover ends or carries along.

use std::time::Duration;

use e2e::incumbent::Objects;
use futures::StreamExt as _;
use kube::api::{DynamicObject, ListParams, WatchEvent, WatchParams};
use kube::runtime::{WatchStreamExt as _, reflector, watcher};
use kube::{Api, Client, ResourceExt as _};
use testreports::ReportKind;
use tokio_util::task::AbortOnDropHandle;

use super::{LIMIT, LOOK, nothing};

/// A client's watch at the incumbent lasts five minutes at most.
const CONVERGE: Duration = Duration::from_mins(6);
/// Longest wait for an answer to a watch.
const WATCH: Duration = Duration::from_secs(10);

/// A watch with bookmarks, which goes on at the CRD when another server takes the APIService over.
pub(super) struct EarlyWatch {
    pub kind: ReportKind,
    client: Client,
    /// Ends with the watch; the version from which a client resumes it.
    newest: AbortOnDropHandle<String>,
}

impl EarlyWatch {
    pub async fn open(client: &Client, kind: ReportKind) -> Self {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind.api_resource());
        let listed = async {
            loop {
                match api.list(&ListParams::default()).await {
                    Ok(list) => break list,
                    Err(kube::Error::Api(status)) if status.code == 429 => {}
                    Err(error) => panic!("{error}"),
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        let list = tokio::time::timeout(LIMIT, listed).await.unwrap();
        let mut newest = list.metadata.resource_version.unwrap();
        let events = api.watch(&WatchParams::default(), &newest).await.unwrap();
        let followed = async move {
            let mut events = events.boxed();
            while let Some(Ok(event)) = events.next().await {
                newest = match event {
                    WatchEvent::Added(object)
                    | WatchEvent::Modified(object)
                    | WatchEvent::Deleted(object) => object.resource_version().unwrap(),
                    WatchEvent::Bookmark(bookmark) => bookmark.metadata.resource_version,
                    WatchEvent::Error(_) => break,
                };
            }
            newest
        };
        Self {
            kind,
            client: client.clone(),
            newest: AbortOnDropHandle::new(tokio::spawn(followed)),
        }
    }

    /// Returns the code with which it is refused when its client resumes it.
    pub async fn refusal(self) -> Option<u16> {
        let newest = tokio::time::timeout(CONVERGE, self.newest).await;
        refusal(&self.client, self.kind, &newest.unwrap().unwrap()).await
    }
}

/// An informer of a kind in all namespaces.
pub(super) struct Follower {
    kind: ReportKind,
    store: reflector::Store<DynamicObject>,
    _task: AbortOnDropHandle<()>,
}

impl Follower {
    pub fn start(client: &Client, kind: ReportKind) -> Self {
        let resource = kind.api_resource();
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let writer = reflector::store::Writer::new(resource);
        let store = writer.as_reader();
        let events = watcher(api, watcher::Config::default()).default_backoff();
        let events = reflector(writer, events).for_each(|_| std::future::ready(()));
        Self {
            kind,
            store,
            _task: AbortOnDropHandle::new(tokio::spawn(events)),
        }
    }

    fn differences(&self, wanted: &Objects) -> Vec<String> {
        let mut wanted = wanted.clone();
        wanted.0.retain(|key, _| key.0 == self.kind);
        let objects = self.store.state().into_iter().map(|object| {
            let object = serde_json::to_value(&*object).unwrap();
            let text = |name: &str| {
                let text = object["metadata"][name].as_str();
                text.unwrap_or_default().to_owned()
            };
            ((self.kind, text("namespace"), text("name")), object)
        });
        Objects(objects.collect()).differences(&wanted, false)
    }

    /// Waits until it has what is stored.
    pub async fn converges(&self, wanted: &Objects) {
        let converged = async {
            while !self.differences(wanted).is_empty() {
                tokio::time::sleep(LOOK).await;
            }
        };
        if tokio::time::timeout(CONVERGE, converged).await.is_err() {
            nothing(&self.differences(wanted));
        }
    }
}

/// Returns the code with which a watch from a version is refused; `None` where it is not.
pub(super) async fn refusal(client: &Client, kind: ReportKind, version: &str) -> Option<u16> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind.api_resource());
    let mut events = match api.watch(&WatchParams::default(), version).await {
        Ok(events) => events.boxed(),
        Err(kube::Error::Api(status)) => return Some(status.code),
        Err(error) => panic!("{error}"),
    };
    match tokio::time::timeout(WATCH, events.next()).await {
        Ok(Some(Ok(WatchEvent::Error(status)) | Err(kube::Error::Api(status)))) => {
            Some(status.code)
        }
        _ => None,
    }
}
