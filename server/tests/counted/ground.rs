//! The server in process: everything behind its sockets, on a real store. Its requests come from a
//! kube-apiserver, which has shown its certificate.

use std::sync::Arc;

use apimachinery::definition::ResourceDefinition;
use arc_swap::ArcSwap;
use axum::body::Body;
use crds::control::{GateSpec, GateState, SchemaSource};
use futures::future::join_all;
use http::Request;
use http_body_util::BodyExt as _;
use reports_server::api::Api;
use reports_server::auth::{
    Authenticator, FrontProxyConfig, PeerCertificates, SubjectAccess, TokenAuthenticator,
};
use reports_server::cluster::{Effective, EffectiveDefinitions};
use reports_server::http::{Health, LimitConfig, Limits, Pipeline};
use reports_server::telemetry::Metrics;
use serde_json::Value;
use storage::cache::Resource;
use storage::model::{GroupResource, ResourceDef};
use storage::store::Store;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::kube_api::KubeApi;
use super::namespaces::Namespaces;
use super::pki::Pki;
use super::reports::{KIND, Reports};
use super::requests;

pub struct Ground {
    pub store: Store,
    pipeline: Pipeline,
    peer: PeerCertificates,
}

impl Ground {
    /// Serves the resources of `reports` out of a store.
    pub async fn over(store: Store, reports: &Reports) -> Self {
        let mut served = Vec::new();
        for definition in reports.definitions() {
            open_gate(&store, &definition).await;
            served.push(Effective {
                definition: Arc::new(definition),
                source: SchemaSource::Catalog,
            });
        }
        let served = EffectiveDefinitions::fixed(served).unwrap();
        let namespaces = Arc::new(Namespaces::default());
        let api = Api::new(store.clone(), Arc::clone(&served), namespaces);
        let pki = Pki::new();
        Self {
            store,
            pipeline: pipeline(api, served, &pki),
            peer: PeerCertificates::new(pki.proxy().chain()),
        }
    }

    /// Returns the reports in memory.
    pub fn reports(&self) -> Arc<Resource> {
        let name = GroupResource::new(KIND.group(), KIND.plural().as_str());
        self.store.resource(&name).unwrap()
    }

    /// Returns the body of the answer to a request, which must succeed.
    pub async fn open(&self, request: Request<Body>) -> Body {
        let response = self.pipeline.answer(self.peer.clone(), request).await;
        let (head, body) = response.into_parts();
        if head.status.is_success() {
            return body;
        }
        let text = body.collect().await.unwrap().to_bytes();
        panic!("{}: {}", head.status, String::from_utf8_lossy(&text));
    }

    /// Sends a request; returns the length of the answer's body.
    async fn send(&self, request: Request<Body>) -> u64 {
        let mut body = self.open(request).await;
        let mut length = 0;
        while let Some(frame) = body.frame().await {
            let data = frame.unwrap().into_data();
            length += data.map_or(0, |data| data.len() as u64);
        }
        length
    }

    /// Sends requests, so many at a time; returns the sum of the lengths of the answers' bodies.
    pub async fn send_all(&self, requests: Vec<Request<Body>>, at_once: usize) -> u64 {
        let mut requests = requests.into_iter();
        let mut length = 0;
        if at_once == 1 {
            for request in requests {
                length += self.send(request).await;
            }
            return length;
        }
        loop {
            let next = requests.by_ref().take(at_once);
            let together: Vec<_> = next.map(|request| self.send(request)).collect();
            if together.is_empty() {
                return length;
            }
            length += join_all(together).await.into_iter().sum::<u64>();
        }
    }

    /// Returns an object as a client reads it.
    pub async fn read(&self, path: &str) -> Value {
        let body = Box::pin(self.open(requests::get(path))).await;
        let text = body.collect().await.unwrap().to_bytes();
        serde_json::from_slice(&text).unwrap()
    }
}

/// Has a store take objects of a resource.
async fn open_gate(store: &Store, definition: &ResourceDefinition) {
    let name = GroupResource::new(definition.group.as_str(), definition.plural.as_str());
    let def = ResourceDef {
        resource: name.clone(),
        kind: definition.kind.as_str().into(),
        namespaced: definition.namespaced,
    };
    let resource = store.ensure_resource(def).await.unwrap();
    if resource.record().gate.state == GateState::Open {
        return;
    }
    let gate = GateSpec {
        state: GateState::Open,
        ..GateSpec::default()
    };
    store.set_gate(&name, gate, Some("tests")).await.unwrap();
}

fn pipeline(api: Api, served: Arc<EffectiveDefinitions>, pki: &Pki) -> Pipeline {
    let front_proxy = FrontProxyConfig::parse(&pki.front_proxy_config()).unwrap();
    let front_proxy = Arc::new(ArcSwap::from_pointee(front_proxy));
    let client = KubeApi::allowing().client();
    let metrics = Arc::new(Metrics::new());
    let tokens = TokenAuthenticator::new(client.clone(), metrics.reviews.clone());
    Pipeline {
        authenticator: Authenticator::new(front_proxy, tokens),
        authorizer: Arc::new(SubjectAccess::new(client, metrics.reviews.clone())),
        definitions: served,
        api: Arc::new(api),
        health: Health::default(),
        limits: Limits::new(&LimitConfig::default(), metrics.requests.clone()),
        metrics,
        audit: watch::channel(false).1,
        shutdown: CancellationToken::new(),
    }
}
