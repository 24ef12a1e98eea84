//! A whole server in the process, on a database in memory, without a cluster or a network.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::definition::ResourceDefinition;
use apimachinery::request_info::RequestInfo;
use arc_swap::ArcSwap;
use async_trait::async_trait;
use axum::body::Body;
use bytes::Bytes;
use crds::control::{GateSpec, GateState, ImportBatch, ImportMode, SchemaSource};
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body_util::BodyExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use reports_server::api::Api;
use reports_server::auth::{
    Attributes, Authenticator, Authority, Authorizer, Decision, FrontProxyConfig, PeerCertificates,
    Proof, ReviewError, TokenAuthenticator, UserInfo,
};
use reports_server::cluster::{
    Effective, EffectiveDefinitions, NamespaceError, NamespaceLookup, NamespacePhase,
};
use reports_server::http::{Health, LimitConfig, Limits, Pipeline, RequestContext};
use reports_server::telemetry::Metrics;
use serde_json::json;
use storage::model::{GroupResource, ResourceDef};
use storage::store::{Store, StoreOptions};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A resource that has all that a schema can say.
const WIDGETS: &str = include_str!("widgets.json");
/// Longest wait for a piece of a watch, of which an answer has no more than [`PIECES`].
const PIECE: Duration = Duration::from_millis(2);
const PIECES: usize = 8;

/// Returns the reports of the catalog's oldest group, and widgets.
pub fn definitions() -> Vec<ResourceDefinition> {
    let catalog = crds::catalog::group("wgpolicyk8s.io")
        .map(|resource| crds::catalog::to_crd(resource).expect("the catalog is sound"));
    let widgets: CustomResourceDefinition =
        serde_json::from_str(WIDGETS).expect("the definition is sound");
    catalog
        .chain([widgets])
        .map(|crd| ResourceDefinition::from_crd(&crd).expect("the definition can be served"))
        .collect()
}

/// Returns a request that somebody with every right has sent.
pub fn context(method: &str, target: &str) -> RequestContext {
    let method: Method = method.parse().expect("a method");
    let uri: Uri = target.parse().expect("a target");
    RequestContext {
        info: RequestInfo::parse(&method, &uri).expect("a path"),
        method,
        headers: HeaderMap::new(),
        user: Arc::new(UserInfo::default()),
        authority: Authority::new(Arc::new(Anything), Proof::Token),
        request_id: "fuzz".into(),
        deadline: None,
        shutdown: CancellationToken::new(),
    }
}

struct Anything;

#[async_trait]
impl Authorizer for Anything {
    async fn authorize(&self, _: &Attributes) -> Result<Decision, ReviewError> {
        Ok(Decision::Allow)
    }
}

struct Everywhere;

#[async_trait]
impl NamespaceLookup for Everywhere {
    async fn phase(&self, _: &str) -> Result<NamespacePhase, NamespaceError> {
        Ok(NamespacePhase::Active)
    }
}

/// An answer that has been read, a watch as far as it goes at once.
pub struct Answer {
    pub code: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    /// True when the body ended.
    pub whole: bool,
}

/// The server, which forgets everything between two inputs.
pub struct Server {
    runtime: Runtime,
    store: Store,
    pipeline: Pipeline,
    gate: GateState,
    _dir: TempDir,
}

impl Server {
    /// Returns a server whose gates are all in one state.
    pub fn start(gate: GateState) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("threads");
        let memory = Path::new("/dev/shm");
        let dir = tempfile::tempdir_in(memory)
            .or_else(|_| tempfile::tempdir())
            .expect("a directory");
        let (store, pipeline) = runtime.block_on(open(&dir.path().join("reports.db")));
        let server = Self {
            runtime,
            store,
            pipeline,
            gate,
            _dir: dir,
        };
        server.set_gates(gate);
        server
    }

    /// Returns the newest version that there is.
    pub fn counter(&self) -> u64 {
        self.store.counter()
    }

    /// Sends one request.
    pub fn send(&self, request: Request<Bytes>) -> Answer {
        self.runtime.block_on(async {
            let peer = PeerCertificates::default();
            let request = request.map(Body::from);
            let response = self.pipeline.answer(peer, request).await;
            read(response).await
        })
    }

    /// Forgets all objects and events.
    pub fn reset(&self) {
        self.set_gates(GateState::Closed);
        self.runtime.block_on(async {
            for resource in self.store.resources() {
                let batch = ImportBatch {
                    mode: ImportMode::Reset,
                    ..ImportBatch::default()
                };
                let done = self.store.import(&resource.def().resource, batch).await;
                done.expect("a closed resource can be reset");
            }
        });
        self.set_gates(self.gate);
    }

    fn set_gates(&self, state: GateState) {
        self.runtime.block_on(async {
            for resource in self.store.resources() {
                let spec = GateSpec {
                    state,
                    settled: None,
                    ..GateSpec::default()
                };
                let name = &resource.def().resource;
                let set = self.store.set_gate(name, spec, Some("fuzz")).await;
                set.expect("a gate can be moved");
            }
        });
    }
}

async fn open(path: &Path) -> (Store, Pipeline) {
    let store = Store::open(StoreOptions::new(path))
        .await
        .expect("a database");
    let mut effective = Vec::new();
    for definition in definitions() {
        let def = ResourceDef {
            resource: GroupResource::new(definition.group.as_str(), definition.plural.as_str()),
            kind: definition.kind.as_str().into(),
            namespaced: definition.namespaced,
        };
        store.ensure_resource(def).await.expect("a resource");
        effective.push(Effective {
            definition: Arc::new(definition),
            source: SchemaSource::Catalog,
        });
    }
    let served = EffectiveDefinitions::fixed(effective).expect("they can be served");
    let metrics = Arc::new(Metrics::new());
    let tokens = TokenAuthenticator::new(kube_api(), metrics.reviews.clone());
    let front_proxy = Arc::new(ArcSwap::from_pointee(FrontProxyConfig::default()));
    let pipeline = Pipeline {
        authenticator: Authenticator::new(front_proxy, tokens),
        authorizer: Arc::new(Anything),
        definitions: served.clone(),
        api: Arc::new(Api::new(store.clone(), served, Arc::new(Everywhere))),
        health: Health::new(Vec::new()),
        limits: Limits::new(&LimitConfig::default(), metrics.requests.clone()),
        metrics,
        audit: watch::channel(false).1,
        shutdown: CancellationToken::new(),
    };
    (store, pipeline)
}

/// Returns a kube-apiserver that knows every token.
fn kube_api() -> kube::Client {
    let service = tower::service_fn(|_: Request<kube::client::Body>| async {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "metadata": {}, "spec": {},
            "status": {"authenticated": true, "user": {"username": "somebody"}}});
        Ok::<_, std::convert::Infallible>(Response::new(Body::from(review.to_string())))
    });
    kube::Client::new(service, "default")
}

async fn read(response: axum::response::Response) -> Answer {
    let (head, mut body) = response.into_parts();
    let endless = !head.headers.contains_key("content-length");
    let mut answer = Answer {
        code: head.status.as_u16(),
        headers: head.headers,
        body: Vec::new(),
        whole: false,
    };
    for piece in 0.. {
        let frame = if endless {
            if piece == PIECES {
                break;
            }
            match tokio::time::timeout(PIECE, body.frame()).await {
                Ok(frame) => frame,
                Err(_) => break,
            }
        } else {
            body.frame().await
        };
        let Some(frame) = frame else {
            answer.whole = true;
            break;
        };
        let frame = frame.expect("the server's bodies do not fail");
        if let Some(data) = frame.data_ref() {
            answer.body.extend_from_slice(data);
        }
    }
    answer
}
