//! A kube-apiserver with lists, watches and objects, as far as the server reads them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use apimachinery::request_info::Query;
use axum::body::Body as Answer;
use bytes::Bytes;
use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::watch;

pub const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub const NAMESPACES: &str = "/api/v1/namespaces";

struct Event {
    version: u64,
    collection: String,
    type_: &'static str,
    object: Value,
}

#[derive(Default)]
struct State {
    version: u64,
    /// By collection and name.
    objects: BTreeMap<(String, String), Value>,
    log: Vec<Event>,
    /// Paths of single objects that were read.
    reads: Vec<String>,
    down: bool,
}

#[derive(Clone)]
pub struct FakeCluster {
    state: Arc<Mutex<State>>,
    version: watch::Sender<u64>,
}

impl FakeCluster {
    pub fn new() -> Self {
        Self {
            state: Arc::default(),
            version: watch::Sender::new(0),
        }
    }

    pub fn client(&self) -> kube::Client {
        let this = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let this = this.clone();
            async move { Ok::<_, std::convert::Infallible>(this.answer(&request)) }
        });
        kube::Client::new(service, "default")
    }

    /// From now on every request is answered with 503, or no longer.
    pub fn set_down(&self, down: bool) {
        self.state.lock().unwrap().down = down;
    }

    /// Makes or replaces an object, and tells the watches.
    pub fn put(&self, collection: &str, mut object: Value) {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        self.change(collection, |state, version| {
            object["metadata"]["resourceVersion"] = json!(version.to_string());
            let key = (collection.to_owned(), name.clone());
            let old = state.objects.insert(key, object.clone());
            (if old.is_some() { "MODIFIED" } else { "ADDED" }, object)
        });
    }

    /// Removes an object, and tells the watches.
    pub fn delete(&self, collection: &str, name: &str) {
        self.change(collection, |state, version| {
            let mut object = state
                .objects
                .remove(&(collection.to_owned(), name.to_owned()))
                .unwrap();
            object["metadata"]["resourceVersion"] = json!(version.to_string());
            ("DELETED", object)
        });
    }

    fn change(
        &self,
        collection: &str,
        apply: impl FnOnce(&mut State, u64) -> (&'static str, Value),
    ) {
        let mut state = self.state.lock().unwrap();
        state.version += 1;
        let version = state.version;
        let (type_, object) = apply(&mut state, version);
        let collection = collection.to_owned();
        state.log.push(Event {
            version,
            collection,
            type_,
            object,
        });
        self.version.send_replace(version);
    }

    /// Single objects that were read, by name.
    pub fn reads(&self, collection: &str) -> Vec<String> {
        let state = self.state.lock().unwrap();
        let below = |path: &String| {
            path.strip_prefix(collection)?
                .strip_prefix('/')
                .map(str::to_owned)
        };
        state.reads.iter().filter_map(below).collect()
    }

    fn answer(&self, request: &Request<Body>) -> Response<Answer> {
        let path = request.uri().path();
        let query = Query::parse(request.uri().query().unwrap_or_default());
        let mut state = self.state.lock().unwrap();
        if state.down {
            return status(503, "ServiceUnavailable");
        }
        let is_collection = path == CRDS || path == NAMESPACES || path.ends_with("/configmaps");
        if !is_collection {
            state.reads.push(path.to_owned());
            let (collection, name) = path.rsplit_once('/').unwrap();
            let found = state.objects.get(&(collection.to_owned(), name.to_owned()));
            return found.map_or_else(|| status(404, "NotFound"), |object| json_body(200, object));
        }
        let name = query
            .get("fieldSelector")
            .and_then(|selector| selector.strip_prefix("metadata.name="))
            .map(str::to_owned);
        if query.flag("watch") {
            let from = query.get("resourceVersion").unwrap().parse().unwrap();
            drop(state);
            return self.watch(path.to_owned(), name, from);
        }
        let wanted = |object: &&Value| {
            name.as_ref()
                .is_none_or(|name| object["metadata"]["name"] == json!(name))
        };
        let of_path = state
            .objects
            .iter()
            .filter(|((collection, _), _)| collection == path);
        let items: Vec<_> = of_path.map(|(_, object)| object).filter(wanted).collect();
        let list = json!({"kind": "List", "apiVersion": "v1", "items": items,
            "metadata": {"resourceVersion": state.version.to_string()}});
        json_body(200, &list)
    }

    fn watch(&self, collection: String, name: Option<String>, from: u64) -> Response<Answer> {
        let (state, version) = (self.state.clone(), self.version.subscribe());
        let next = move |from: u64| {
            let state = state.lock().unwrap();
            let event = state.log.iter().find(|event| {
                event.version > from
                    && event.collection == collection
                    && name
                        .as_ref()
                        .is_none_or(|n| event.object["metadata"]["name"] == json!(n))
            })?;
            let line = json!({"type": event.type_, "object": event.object});
            Some((Bytes::from(format!("{line}\n")), event.version))
        };
        let lines = futures::stream::unfold(
            (next, version, from),
            |(next, mut version, from)| async move {
                loop {
                    version.mark_unchanged();
                    if let Some((line, at)) = next(from) {
                        return Some((Ok::<_, std::io::Error>(line), (next, version, at)));
                    }
                    version.changed().await.ok()?;
                }
            },
        );
        Response::new(Answer::from_stream(lines))
    }
}

fn json_body(code: u16, value: &Value) -> Response<Answer> {
    Response::builder()
        .status(code)
        .body(Answer::from(value.to_string()))
        .unwrap()
}

fn status(code: u16, reason: &str) -> Response<Answer> {
    json_body(
        code,
        &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": reason, "reason": reason, "code": code}),
    )
}
