//! A collector of traces.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::net::TcpListener;
use traces::{Endpoint, Service, Settings, Traces};

/// A collector that takes OTLP over HTTP, in protobuf, and keeps what it gets.
#[derive(Clone)]
pub struct Collector {
    pub endpoint: Endpoint,
    requests: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
}

impl Collector {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let this = Self {
            endpoint: format!("http://{address}").parse().unwrap(),
            requests: Arc::default(),
        };
        let collector = this.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let collector = collector.clone();
                let service = service_fn(move |request| {
                    let collector = collector.clone();
                    async move { Ok::<_, hyper::Error>(collector.take(request).await) }
                });
                let connection =
                    http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                tokio::spawn(connection);
            }
        });
        this
    }

    async fn take(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        assert_eq!(head.uri.path(), "/v1/traces");
        assert_eq!(head.headers["content-type"], "application/x-protobuf");
        let body = body.collect().await.unwrap().to_bytes();
        let request = ExportTraceServiceRequest::decode(body).unwrap();
        self.requests.lock().unwrap().push(request);
        Response::new(Full::default())
    }

    /// Starts an export to this collector.
    pub fn traces(&self, rate_per_million: u32) -> Traces {
        let settings = Settings {
            endpoint: self.endpoint.clone(),
            rate_per_million,
            ca: None,
        };
        let service = Service {
            name: "reports-server",
            version: "test",
            instance: Some("pod".to_owned()),
        };
        Traces::start(settings, &service).unwrap()
    }

    /// Ends an export, and returns all that has come of it, with the name of its service.
    pub async fn collected(&self, traces: Traces) -> Collected {
        tokio::task::spawn_blocking(move || traces.end())
            .await
            .unwrap();
        let requests = self.requests.lock().unwrap();
        let resources = requests.iter().flat_map(|request| &request.resource_spans);
        let mut collected = Collected::default();
        for resource in resources {
            let attributes = &resource.resource.as_ref().unwrap().attributes;
            let service = attributes.iter().find(|a| a.key == "service.name").unwrap();
            let value = service.value.clone().unwrap().value;
            collected.services.push(text(value.as_ref()));
            for scope in &resource.scope_spans {
                collected.spans.extend(scope.spans.iter().cloned());
            }
        }
        collected
    }
}

/// The spans that a collector has got, and the services that they are of.
#[derive(Debug, Default)]
pub struct Collected {
    pub services: Vec<String>,
    pub spans: Vec<Span>,
}

impl Collected {
    /// Returns the only span with this name.
    pub fn span(&self, name: &str) -> &Span {
        let mut named = self.spans.iter().filter(|span| span.name == name);
        let span = named.next();
        assert!(named.next().is_none(), "{:?}", self.spans);
        span.unwrap_or_else(|| panic!("no {name} in {:?}", self.spans))
    }
}

/// Returns an attribute of a span as text; empty where it has none of this name.
pub fn attribute(span: &Span, name: &str) -> String {
    let found = span.attributes.iter().find(|a| a.key == name);
    let value = found.and_then(|a| a.value.as_ref());
    text(value.and_then(|value| value.value.as_ref()))
}

fn text(value: Option<&Value>) -> String {
    match value {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => other.map(|value| format!("{value:?}")).unwrap_or_default(),
    }
}

/// Returns an identifier as it is written in headers.
pub fn hex(bytes: &[u8]) -> String {
    hex::encode(bytes)
}
