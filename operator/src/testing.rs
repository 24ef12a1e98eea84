//! A kube-apiserver that answers as a test tells it to, request by request.

use std::time::Duration;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::Layer;
use tower_test::mock::{Handle, SendResponse};

use crate::leader::Term;

/// Longest wait for a request; a test that reaches it has failed.
const PATIENCE: Duration = Duration::from_secs(10);

/// The server's side.
pub struct Server(Handle<Request<Body>, Response<Body>>);

/// A request that waits for its answer.
pub struct Received {
    /// Method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Body; null where there is none.
    pub body: Value,
    send: SendResponse<Response<Body>>,
}

/// Returns a client and the server it talks to.
pub fn pair() -> (Client, Server) {
    let (service, handle) = tower_test::mock::pair::<Request<Body>, Response<Body>>();
    (Client::new(service, "default"), Server(handle))
}

/// Returns a client that writes within `term`, and the server it talks to.
pub fn pair_within(term: &Term) -> (Client, Server) {
    let (service, handle) = tower_test::mock::pair::<Request<Body>, Response<Body>>();
    let client = Client::new(term.layer().layer(service), "default");
    (client, Server(handle))
}

impl Server {
    /// Returns the next request.
    pub async fn next(&mut self) -> Received {
        let next = tokio::time::timeout(PATIENCE, self.next_if_any()).await;
        next.expect("a request in time").expect("a request")
    }

    /// Returns the next request, for which it waits without a limit; none when the client is gone.
    pub async fn next_if_any(&mut self) -> Option<Received> {
        let (request, send) = self.0.next_request().await?;
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap();
        Some(Received {
            method: parts.method.to_string(),
            path: parts.uri.to_string(),
            body: serde_json::from_slice(&body).unwrap_or(Value::Null),
            send,
        })
    }

    /// Answers every request with an error until the client is gone.
    pub async fn refuse_all(&mut self, code: u16, reason: &str) {
        while let Some((_, send)) = self.0.next_request().await {
            respond(send, code, &failure(code, reason));
        }
    }
}

impl Received {
    /// Answers the request.
    pub fn answer(self, code: u16, body: &Value) {
        respond(self.send, code, body);
    }

    /// Answers the request with a header.
    pub fn answer_with(self, header: &str, body: &Value) {
        let body = Body::from(serde_json::to_vec(body).unwrap());
        let answer = Response::builder().header(header, "test");
        self.send.send_response(answer.body(body).unwrap());
    }

    /// Answers the request with a Status.
    pub fn refuse(self, code: u16, reason: &str) {
        self.answer(code, &failure(code, reason));
    }
}

fn respond(send: SendResponse<Response<Body>>, code: u16, body: &Value) {
    let body = Body::from(serde_json::to_vec(body).unwrap());
    send.send_response(Response::builder().status(code).body(body).unwrap());
}

fn failure(code: u16, reason: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "message": reason, "reason": reason, "code": code})
}
