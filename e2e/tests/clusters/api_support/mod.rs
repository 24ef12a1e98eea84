//! A reports-server process behind the aggregator of a real control plane: [`comparison::serving`] for
//! tests, which fail at once where something goes wrong.

use std::ops::{Deref, DerefMut};

use comparison::serving::request::{self, Lines, Outgoing};
use comparison::serving::{Serving, ServingOptions};
use crds::catalog;
use serde_json::{Value, json};
use testcluster::Process;

pub const GROUP: &str = "wgpolicyk8s.io";
pub const REPORTS: &str = "/apis/wgpolicyk8s.io/v1alpha2/namespaces/default/policyreports";
pub const ALL_REPORTS: &str = "/apis/wgpolicyk8s.io/v1alpha2/policyreports";
pub const CLUSTER_REPORTS: &str = "/apis/wgpolicyk8s.io/v1alpha2/clusterpolicyreports";

pub const JSON: (&str, &str) = ("content-type", "application/json");

/// A control plane with the CRDs of the reports, and a server once it is started.
pub struct Setup(Serving);

impl Deref for Setup {
    type Target = Serving;

    fn deref(&self) -> &Serving {
        &self.0
    }
}

impl DerefMut for Setup {
    fn deref_mut(&mut self) -> &mut Serving {
        &mut self.0
    }
}

impl Setup {
    /// The kube-apiserver serves the reports from the CRDs.
    pub async fn start() -> Self {
        let crds = catalog::group(GROUP).map(|resource| catalog::to_crd(resource).unwrap());
        let options = ServingOptions::new(crds.collect());
        Self(Serving::start(options).await.unwrap())
    }

    /// Starts the server and has it serve the reports in place of the CRDs.
    pub async fn switch(&mut self) {
        self.0.switch().await.unwrap();
    }

    pub fn server(&self) -> &Process {
        &self.0.servers()[0]
    }

    /// Waits until `condition` holds.
    pub async fn until(&self, what: &str, condition: impl AsyncFn() -> bool) {
        self.0.until(what, condition).await.unwrap();
    }

    pub async fn get(&self, uri: &str) -> Answer {
        self.send("GET", uri, &[], &Value::Null).await
    }

    /// Sends a request through the kube-apiserver; a null body is none.
    pub async fn send(
        &self,
        method: &str,
        uri: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Answer {
        let mut request = Outgoing::new(method, uri);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if !body.is_null() {
            request.body = body.to_string().into_bytes();
        }
        let answer = self.0.send(&request).await.unwrap();
        Answer {
            code: answer.code,
            body: answer.body,
        }
    }

    /// Opens a watch, or whatever else a get answers with.
    pub async fn watch(&self, uri: &str, accept: &str) -> (u16, Watch) {
        let request = Outgoing::get(uri).header("accept", accept);
        let (code, _, lines) = request::open(&self.client, &request).await.unwrap();
        (code, Watch(lines))
    }
}

/// A watch, read line by line.
pub struct Watch(Lines);

impl Watch {
    /// The next line; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Value> {
        let line = self.0.next_line().await.unwrap()?;
        Some(serde_json::from_slice(&line).unwrap())
    }
}

pub struct Answer {
    pub code: u16,
    pub body: bytes::Bytes,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    #[track_caller]
    pub fn expect(self, code: u16) -> Self {
        assert_eq!(self.code, code, "{}", self.text());
        self
    }
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
