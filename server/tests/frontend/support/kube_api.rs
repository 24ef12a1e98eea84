//! A kube-apiserver that answers reviews as the test says, and counts them.

use std::sync::{Arc, Mutex};

use http::{Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

type Answer = dyn Fn(&str, &Value) -> (u16, Value) + Send + Sync;

#[derive(Clone)]
pub struct KubeApi {
    answer: Arc<Answer>,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
    /// Requests wait here for a permit; open at first.
    pub gate: Arc<Semaphore>,
}

impl KubeApi {
    /// Answers with what `answer` makes of a path and body.
    pub fn new(answer: impl Fn(&str, &Value) -> (u16, Value) + Send + Sync + 'static) -> Self {
        Self {
            answer: Arc::new(answer),
            asked: Arc::default(),
            gate: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
        }
    }

    /// Allows everything; the token `good` belongs to `alice`.
    pub fn allowing() -> Self {
        Self::deciding(|_| true)
    }

    /// Allows what `allowed` says of a review's `spec`.
    pub fn deciding(allowed: impl Fn(&Value) -> bool + Send + Sync + 'static) -> Self {
        Self::new(move |path, body| (201, review(path, body, &allowed)))
    }

    pub fn client(&self) -> kube::Client {
        let this = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let this = this.clone();
            async move {
                let path = request.uri().path().to_owned();
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let body = serde_json::from_slice(&body).unwrap_or_default();
                this.asked.lock().unwrap().push((path.clone(), body));
                let _permit = this.gate.acquire().await.unwrap();
                let (_, body) = this.asked.lock().unwrap().last().cloned().unwrap();
                let (code, answer) = (this.answer)(&path, &body);
                let answer = Body::from(answer.to_string().into_bytes());
                let response = Response::builder().status(code);
                Ok::<_, std::convert::Infallible>(response.body(answer).unwrap())
            }
        });
        kube::Client::new(service, "default")
    }

    /// Returns the bodies of the requests whose path has this end.
    pub fn asked(&self, end: &str) -> Vec<Value> {
        let asked = self.asked.lock().unwrap();
        asked
            .iter()
            .filter(|(path, _)| path.ends_with(end))
            .map(|(_, b)| b.clone())
            .collect()
    }
}

fn review(path: &str, body: &Value, allowed: &impl Fn(&Value) -> bool) -> Value {
    let status = if path.ends_with("tokenreviews") {
        let good = body["spec"]["token"] == "good";
        let user =
            json!({"username": "alice", "uid": "1", "groups": ["devs"], "extra": {"k": ["v"]}});
        if good {
            json!({"authenticated": true, "user": user})
        } else {
            json!({})
        }
    } else {
        json!({"allowed": allowed(&body["spec"]), "reason": "says the test"})
    };
    json!({"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": {},
        "spec": body["spec"], "status": status})
}
