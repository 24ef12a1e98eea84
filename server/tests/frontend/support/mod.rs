//! A server of the test's making, its clients and its cluster.

pub mod client;
pub mod collector;
pub mod fake_cluster;
pub mod kube_api;
pub mod pki;
pub mod raw;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::definition::ResourceDefinition;
use apimachinery::error::ApiError;
use arc_swap::ArcSwap;
use async_trait::async_trait;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use crds::control::SchemaSource;
use futures::StreamExt;
use reports_server::auth::{Authenticator, FrontProxyConfig, SubjectAccess, TokenAuthenticator};
use reports_server::cluster::{Effective, EffectiveDefinitions};
use reports_server::http::{
    ApiHandler, Check, ConnectionAge, Health, LimitConfig, Limits, Pipeline, RequestContext, Server,
};
use reports_server::telemetry::Metrics;
use reports_server::tls::{Certificates, server_config};
use serde_json::json;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::kube_api::KubeApi;
use self::pki::Pki;

/// An API whose resources are named after what they do.
#[derive(Default)]
pub struct ProbeApi {
    /// Lets requests for `gates` through, one a permit.
    pub gate: Notify,
    /// Told when a request for `gates` or `watches` has arrived.
    pub arrived: Notify,
}

#[async_trait]
impl ApiHandler for ProbeApi {
    async fn dispatch(&self, ctx: RequestContext, body: Bytes) -> Result<Response, ApiError> {
        let (verb, resource) = (ctx.info.verb.as_str(), ctx.info.resource.as_str());
        match (verb, resource) {
            ("watch", _) => {
                self.arrived.notify_one();
                let first = futures::stream::iter([Bytes::from_static(b"{}\n")]);
                let rest = futures::stream::pending().take_until(ctx.shutdown.cancelled_owned());
                let events = first.chain(rest).map(Ok::<_, std::io::Error>);
                return Ok(Response::new(Body::from_stream(events)));
            }
            (_, "panics") => panic!("as asked"),
            (_, "gates") => {
                self.arrived.notify_one();
                self.gate.notified().await;
            }
            (_, "larges") => return Ok(Response::new(Body::from(vec![b'x'; 200_000]))),
            _ => {}
        }
        let user = &ctx.user;
        let mut headers: Vec<_> = ctx.headers.keys().map(http::HeaderName::as_str).collect();
        headers.sort_unstable();
        let answer = json!({
            "user": user.username, "uid": user.uid, "groups": user.groups, "extra": user.extra,
            "headers": headers, "requestId": &*ctx.request_id, "body": body.len(),
        });
        Ok(Response::new(Body::from(answer.to_string())))
    }
}

/// The settings of a test's server.
pub struct Options {
    pub limits: LimitConfig,
    pub kube: KubeApi,
    pub front_proxy: bool,
    pub connection_age: Duration,
    pub arrivals: Option<watch::Receiver<u64>>,
    pub audit: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            limits: LimitConfig::default(),
            kube: KubeApi::allowing(),
            front_proxy: true,
            connection_age: Duration::ZERO,
            arrivals: None,
            audit: false,
        }
    }
}

/// A running server.
pub struct TestServer {
    pub address: SocketAddr,
    pub pki: Pki,
    pub api: Arc<ProbeApi>,
    pub kube: KubeApi,
    pub front_proxy: Arc<ArcSwap<FrontProxyConfig>>,
    pub certificates: Arc<Certificates>,
    pub metrics: Arc<Metrics>,
    pub drain: CancellationToken,
    /// True when everything was answered before the end.
    pub ended: JoinHandle<bool>,
}

/// The definitions of the catalog's group `wgpolicyk8s.io`.
pub fn definitions() -> Vec<Effective> {
    crds::catalog::group("wgpolicyk8s.io")
        .map(|resource| {
            let crd = crds::catalog::to_crd(resource).unwrap();
            let definition = Arc::new(ResourceDefinition::from_crd(&crd).unwrap());
            Effective {
                definition,
                source: SchemaSource::Catalog,
            }
        })
        .collect()
}

pub async fn start(options: Options) -> TestServer {
    let pki = Pki::new();
    let certificates = Certificates::load(pki.serving_files()).await.unwrap();
    let config = if options.front_proxy {
        FrontProxyConfig::parse(&pki.front_proxy_config()).unwrap()
    } else {
        FrontProxyConfig::default()
    };
    let front_proxy = Arc::new(ArcSwap::from_pointee(config));
    let metrics = Arc::new(Metrics::new());
    let (api, drain) = (Arc::new(ProbeApi::default()), CancellationToken::new());
    let client = options.kube.client();
    let reviews = metrics.reviews.clone();
    let tokens = TokenAuthenticator::new(client.clone(), reviews.clone());
    let ending = drain.clone();
    let pipeline = Pipeline {
        authenticator: Authenticator::new(front_proxy.clone(), tokens),
        authorizer: Arc::new(SubjectAccess::new(client, reviews)),
        definitions: EffectiveDefinitions::fixed(definitions()).unwrap(),
        api: api.clone(),
        health: Health::new(vec![Check::new("shutdown", move || !ending.is_cancelled())]),
        limits: Limits::new(&options.limits, metrics.requests.clone()),
        metrics: metrics.clone(),
        audit: watch::channel(options.audit).1,
        shutdown: drain.clone(),
    };
    let tls = server_config(certificates.clone()).unwrap();
    let loopback = "127.0.0.1:0".parse().unwrap();
    let age = ConnectionAge::new(options.connection_age, options.arrivals);
    let server = Server::bind(loopback, tls, Arc::new(pipeline), age)
        .await
        .unwrap();
    let address = server.local_addr().unwrap();
    let ended = tokio::spawn(server.run(drain.clone(), Duration::from_secs(10)));
    let kube = options.kube;
    TestServer {
        address,
        pki,
        api,
        kube,
        front_proxy,
        certificates,
        metrics,
        drain,
        ended,
    }
}
