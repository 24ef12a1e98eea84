//! An API over a real store in a temporary directory, without a cluster or a network.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use apimachinery::definition::ResourceDefinition;
use apimachinery::request_info::RequestInfo;
use async_trait::async_trait;
use axum::response::Response;
use bytes::Bytes;
use crds::control::{GateSpec, GateState, SchemaSource};
use futures::StreamExt;
use futures::stream::BoxStream;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use http_body_util::BodyExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use reports_server::api::Api;
use reports_server::auth::{
    Attributes, Authority, Authorizer, Decision, Proof, ReviewError, UserInfo,
};
use reports_server::cluster::{Effective, EffectiveDefinitions};
use reports_server::http::negotiation::accept_error;
use reports_server::http::response;
use reports_server::http::{ApiHandler, RequestContext};
use serde_json::{Value, json};
use storage::model::{GroupResource, ResourceDef};
use storage::store::{Store, StoreOptions};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::namespaces::Namespaces;

/// Longest time that a test waits for something that must come.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub const REPORTS: &str = "/apis/wgpolicyk8s.io/v1alpha2/namespaces/default/policyreports";
pub const ALL_REPORTS: &str = "/apis/wgpolicyk8s.io/v1alpha2/policyreports";
pub const CLUSTER_REPORTS: &str = "/apis/wgpolicyk8s.io/v1alpha2/clusterpolicyreports";
pub const CONTROL: &str = "/apis/control.reports-server.io/v1alpha1/storedresources";

/// Two served versions, of which the older knows less and fills in a default.
const GADGETS: &str = r#"{
  "metadata": {"name": "gadgets.example.com"},
  "spec": {
    "group": "example.com", "scope": "Namespaced",
    "names": {"kind": "Gadget", "plural": "gadgets", "singular": "gadget"},
    "versions": [
      {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
        "type": "object", "properties": {
          "size": {"type": "integer"}, "color": {"type": "string"},
          "anything": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}},
      {"name": "v1beta1", "served": true, "storage": false, "deprecated": true,
       "schema": {"openAPIV3Schema": {
        "type": "object", "properties": {"size": {"type": "integer", "default": 7}}}}}
    ]
  }
}"#;

pub const GADGETS_V1: &str = "/apis/example.com/v1/namespaces/default/gadgets";
pub const GADGETS_V1BETA1: &str = "/apis/example.com/v1beta1/namespaces/default/gadgets";

/// Allows all verbs but those that the test takes away.
#[derive(Default)]
pub struct Rights(Mutex<Vec<String>>);

impl Rights {
    pub fn deny(&self, verb: &str) {
        self.0.lock().unwrap().push(verb.to_owned());
    }
}

#[async_trait]
impl Authorizer for Rights {
    async fn authorize(&self, attributes: &Attributes) -> Result<Decision, ReviewError> {
        Ok(if self.0.lock().unwrap().contains(&attributes.verb) {
            Decision::Deny("the test says so".to_owned())
        } else {
            Decision::Allow
        })
    }
}

pub struct Server {
    pub api: Api,
    pub store: Store,
    pub served: Arc<EffectiveDefinitions>,
    pub namespaces: Arc<Namespaces>,
    pub rights: Arc<Rights>,
    pub shutdown: CancellationToken,
    pub user: String,
    pub dir: TempDir,
}

pub fn definitions() -> Vec<ResourceDefinition> {
    let catalog = crds::catalog::group("wgpolicyk8s.io")
        .map(|resource| crds::catalog::to_crd(resource).unwrap());
    let gadgets: CustomResourceDefinition = serde_json::from_str(GADGETS).unwrap();
    catalog
        .chain([gadgets])
        .map(|crd| ResourceDefinition::from_crd(&crd).unwrap())
        .collect()
}

impl Server {
    /// All gates are open.
    pub async fn start() -> Self {
        let server = Self::start_closed(|_| {}).await;
        for resource in server.store.resources() {
            server
                .set_gate(&resource.def().resource.to_string(), GateState::Open)
                .await;
        }
        server
    }

    /// All gates are closed, as at the first start of a server.
    pub async fn start_closed(adjust: impl FnOnce(&mut StoreOptions)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut options = StoreOptions::new(dir.path().join("reports.db"));
        adjust(&mut options);
        let store = Store::open(options).await.unwrap();
        let definitions = definitions();
        for definition in &definitions {
            let def = ResourceDef {
                resource: GroupResource::new(definition.group.as_str(), definition.plural.as_str()),
                kind: definition.kind.as_str().into(),
                namespaced: definition.namespaced,
            };
            store.ensure_resource(def).await.unwrap();
        }
        let effective = definitions
            .into_iter()
            .map(|definition| Effective {
                definition: Arc::new(definition),
                source: SchemaSource::Catalog,
            })
            .collect();
        let namespaces = Arc::new(Namespaces::default());
        let served = EffectiveDefinitions::fixed(effective).unwrap();
        Self {
            api: Api::new(store.clone(), served.clone(), namespaces.clone()).copying_to(dir.path()),
            store,
            served,
            namespaces,
            rights: Arc::default(),
            shutdown: CancellationToken::new(),
            user: "tester".to_owned(),
            dir,
        }
    }

    pub async fn set_gate(&self, name: &str, state: GateState) {
        let spec = GateSpec {
            state,
            ..GateSpec::default()
        };
        self.set_gate_spec(name, spec).await;
    }

    pub async fn set_gate_spec(&self, name: &str, spec: GateSpec) {
        let (plural, group) = name.split_once('.').unwrap();
        let resource = GroupResource::new(group, plural);
        self.store
            .set_gate(&resource, spec, Some(&self.user))
            .await
            .unwrap();
    }

    /// Holds a resource as on the way back, and marks it: etcd has everything up to `last`.
    pub async fn release(&self, name: &str, last: u64) {
        let held = GateSpec {
            state: GateState::Held,
            settled: Some(true),
            ..GateSpec::default()
        };
        self.set_gate_spec(name, held.clone()).await;
        let released = GateSpec {
            released: Some(true),
            resource_version: Some(last.to_string()),
            ..held
        };
        self.set_gate_spec(name, released).await;
    }

    pub fn request(&self, method: &str, uri: &str) -> Request<'_> {
        Request {
            server: self,
            method: method.parse().unwrap(),
            uri: uri.to_owned(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            user: self.user.clone(),
        }
    }

    pub async fn get(&self, uri: &str) -> Answer {
        self.request("GET", uri).send().await
    }

    pub async fn post(&self, uri: &str, body: &Value) -> Answer {
        self.request("POST", uri).json(body).send().await
    }

    pub async fn put(&self, uri: &str, body: &Value) -> Answer {
        self.request("PUT", uri).json(body).send().await
    }

    pub async fn delete(&self, uri: &str) -> Answer {
        self.request("DELETE", uri).send().await
    }

    pub async fn merge_patch(&self, uri: &str, body: &Value) -> Answer {
        let request = self.request("PATCH", uri).json(body);
        request
            .header("content-type", "application/merge-patch+json")
            .send()
            .await
    }

    pub async fn json_patch(&self, uri: &str, body: &Value) -> Answer {
        let request = self.request("PATCH", uri).json(body);
        request
            .header("content-type", "application/json-patch+json")
            .send()
            .await
    }

    /// Applies a configuration; `query` names the manager.
    pub async fn apply(&self, uri: &str, query: &str, config: &Value) -> Answer {
        let request = self
            .request("PATCH", &format!("{uri}?{query}"))
            .json(config);
        request
            .header("content-type", "application/apply-patch+yaml")
            .send()
            .await
    }

    /// Creates a report of this name and gives it back.
    pub async fn created(&self, name: &str) -> Value {
        let answer = self.post(REPORTS, &report(name)).await;
        assert_eq!(answer.code, 201, "{}", answer.text());
        answer.json()
    }

    /// Opens a watch, which must be accepted.
    pub async fn watch(&self, uri: &str) -> Events {
        self.request("GET", uri).watch().await
    }
}

pub struct Request<'a> {
    server: &'a Server,
    method: Method,
    uri: String,
    headers: HeaderMap,
    body: Bytes,
    user: String,
}

impl Request<'_> {
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        self.headers
            .insert(name, HeaderValue::from_str(value).unwrap());
        self
    }

    pub fn json(self, body: &Value) -> Self {
        self.body(body.to_string())
            .header("content-type", "application/json")
    }

    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    pub fn user(mut self, name: &str) -> Self {
        name.clone_into(&mut self.user);
        self
    }

    /// The answer, whose body is still to be read.
    pub async fn response(self) -> Response {
        let info = RequestInfo::parse(&self.method, &self.uri.parse().unwrap()).unwrap();
        let form = accept_error(&self.headers, &info.query);
        let ctx = RequestContext {
            info,
            method: self.method,
            headers: self.headers,
            user: Arc::new(UserInfo {
                username: self.user,
                ..UserInfo::default()
            }),
            authority: Authority::new(self.server.rights.clone(), Proof::Token),
            request_id: "test".into(),
            deadline: None,
            shutdown: self.server.shutdown.clone(),
        };
        match self.server.api.dispatch(ctx, self.body).await {
            Ok(response) => response,
            Err(error) => response::error(error, form),
        }
    }

    pub async fn send(self) -> Answer {
        let response = self.response().await;
        let (head, body) = response.into_parts();
        let body = tokio::time::timeout(PATIENCE, body.collect())
            .await
            .unwrap()
            .unwrap();
        Answer {
            code: head.status.as_u16(),
            headers: head.headers,
            body: body.to_bytes(),
        }
    }

    pub async fn watch(self) -> Events {
        let response = self.response().await;
        assert_eq!(response.status(), StatusCode::OK);
        assert!(!response.headers().contains_key("content-length"));
        Events {
            stream: StreamExt::boxed(response.into_body().into_data_stream()),
            buffer: Vec::new(),
            patience: PATIENCE,
        }
    }
}

pub struct Answer {
    pub code: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    /// The answer must have this code.
    #[track_caller]
    pub fn expect(self, code: u16) -> Self {
        assert_eq!(self.code, code, "{}", self.text());
        self
    }

    pub fn message(&self) -> String {
        self.json()["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    pub fn warnings(&self) -> Vec<String> {
        let values = self.headers.get_all("warning").iter();
        values
            .map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned())
            .collect()
    }
}

/// A watch, read line by line.
pub struct Events {
    stream: BoxStream<'static, Result<Bytes, axum::Error>>,
    buffer: Vec<u8>,
    /// Longest wait for one event; to be raised where the clock is paused and jumps.
    pub patience: Duration,
}

impl Events {
    /// The next event; `None` when the stream has ended cleanly.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let piece = tokio::time::timeout(self.patience, self.stream.next()).await;
            let Some(piece) = piece.expect("an event in time") else {
                assert!(self.buffer.is_empty(), "the stream broke off within a line");
                return None;
            };
            self.buffer.extend_from_slice(&piece.unwrap());
        }
    }

    /// Type, name and version of the next event.
    pub async fn brief(&mut self) -> String {
        match self.next().await {
            Some(event) => brief(&event),
            None => "end".to_owned(),
        }
    }
}

/// `ADDED name rv`.
pub fn brief(event: &Value) -> String {
    let metadata = &event["object"]["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let parts = [
        text(&event["type"]),
        text(&metadata["name"]),
        text(&metadata["resourceVersion"]),
    ];
    parts
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// A small valid report.
pub fn report(name: &str) -> Value {
    json!({
        "apiVersion": "wgpolicyk8s.io/v1alpha2",
        "kind": "PolicyReport",
        "metadata": {"name": name, "labels": {"app": name}},
        "results": [{"policy": "p", "rule": "r", "result": "pass"}],
        "scope": {"apiVersion": "v1", "kind": "Pod", "name": name},
        "summary": {"pass": 1, "fail": 0, "warn": 0, "error": 0, "skip": 0},
    })
}

pub fn rv(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}

pub fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap();
    items
        .iter()
        .map(|i| i["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

/// Returns `value` with everything replaced that differs from run to run.
pub fn steady(mut value: Value) -> Value {
    fn walk(value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(walk),
            Value::Object(map) => {
                for (key, value) in map.iter_mut() {
                    match key.as_str() {
                        "uid" if value.is_string() => *value = json!("<uid>"),
                        "resourceVersion" if value.is_string() => *value = json!("<rv>"),
                        "creationTimestamp" | "deletionTimestamp" | "time" if value.is_string() => {
                            *value = json!("<time>");
                        }
                        _ => walk(value),
                    }
                }
            }
            _ => {}
        }
    }
    walk(&mut value);
    value
}
