//! A reports-server process behind the aggregator of a real control plane.

#![allow(dead_code, reason = "each test uses its part")]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use crds::{catalog, control};
use e2e::cluster::{Backend, Cluster, ClusterOptions, Process, ProcessSpec, network};
use http_body_util::BodyExt as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::runtime::{conditions, wait::await_condition};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tempfile::TempDir;

pub const GROUP: &str = "wgpolicyk8s.io";
pub const REPORTS: &str = "/apis/wgpolicyk8s.io/v1alpha2/namespaces/default/policyreports";
pub const ALL_REPORTS: &str = "/apis/wgpolicyk8s.io/v1alpha2/policyreports";
pub const CLUSTER_REPORTS: &str = "/apis/wgpolicyk8s.io/v1alpha2/clusterpolicyreports";

pub const JSON: (&str, &str) = ("content-type", "application/json");

/// Namespace and name of the Service in front of the server.
const NAMESPACE: &str = "default";
const SERVICE: &str = "reports-server";
pub const PORT: u16 = 8443;
/// Longest wait for anything that must come.
const PATIENCE: Duration = Duration::from_mins(1);

/// A control plane with the CRDs of the reports, and a server once it is started.
pub struct Setup {
    pub cluster: Cluster,
    pub client: Client,
    /// More flags for the server.
    pub server_args: Vec<String>,
    /// Served versions of the group.
    versions: Vec<String>,
    files: TempDir,
    server: Option<Process>,
}

impl Setup {
    /// The kube-apiserver serves the reports from the CRDs.
    pub async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// The same, with CRDs that `adjust` changes before they are created.
    pub async fn start_with(adjust: impl Fn(&mut CustomResourceDefinition)) -> Self {
        let cluster = Cluster::start(ClusterOptions::default()).await.unwrap();
        let client = cluster.client().await.unwrap();
        let mut versions = BTreeSet::new();
        for resource in catalog::group(GROUP) {
            let mut crd = catalog::to_crd(resource).unwrap();
            adjust(&mut crd);
            let served = crd.spec.versions.iter().filter(|version| version.served);
            versions.extend(served.map(|version| version.name.clone()));
            install(&client, crd).await;
        }
        Self {
            cluster,
            client,
            server_args: Vec::new(),
            versions: versions.into_iter().collect(),
            files: tempfile::tempdir().unwrap(),
            server: None,
        }
    }

    /// Starts the server and has it serve the reports in place of the CRDs.
    pub async fn switch(&mut self) {
        let ca = self.certificates();
        self.run_server();
        let target = format!("{}:{PORT}", network::NODE_IP).parse().unwrap();
        let backend = Backend {
            namespace: NAMESPACE.to_owned(),
            name: SERVICE.to_owned(),
            port: 443,
            targets: vec![target],
        };
        self.cluster.expose(&backend).await.unwrap();
        self.register(control::GROUP, control::VERSION, &ca).await;
        // As in a switch: first above the versions that etcd gave, then open.
        let floor = json!({"spec": {"resourceVersion": "100000"}});
        let plural = catalog::group(GROUP)
            .next()
            .map_or("", |resource| resource.plural);
        self.until("the floor is raised", async || {
            let uri = control_uri(plural, "floor");
            self.send("PUT", &uri, &[JSON], &floor).await.code == 200
        })
        .await;
        for resource in catalog::group(GROUP) {
            self.open_gate(resource.plural).await;
        }
        for version in &self.versions {
            self.register(GROUP, version, &ca).await;
        }
        // The aggregator serves the group at once and fetches its documents a moment later.
        for version in &self.versions {
            let path = format!("apis/{GROUP}/{version}");
            self.until(&format!("{path} is documented"), async || {
                !self.get("/openapi/v3").await.json()["paths"][&path].is_null()
            })
            .await;
        }
    }

    /// Starts the server's process, or starts it again after it was killed.
    pub fn run_server(&mut self) {
        let file = |name: &str| self.files.path().join(name).display().to_string();
        let spec = ProcessSpec::new("reports-server", program()).args([
            format!("--bind-address={}:{PORT}", network::NODE_IP),
            format!("--tls-cert-file={}", file("tls.crt")),
            format!("--tls-private-key-file={}", file("tls.key")),
            format!("--database={}", file("reports.db")),
            format!("--groups={GROUP}"),
            format!("--kubeconfig={}", self.cluster.kubeconfig().display()),
            "--shutdown-delay=0s".to_owned(),
        ]);
        let spec = spec.args(self.server_args.iter().cloned());
        // A process is ended by its name when its value is dropped: first the old one.
        self.server = None;
        self.server = Some(self.cluster.run(spec).unwrap());
    }

    pub fn server(&self) -> &Process {
        self.server.as_ref().unwrap()
    }

    /// A CA with a serving certificate for the Service; gives the CA in base64.
    fn certificates(&self) -> String {
        use base64::Engine as _;
        use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

        let ca_key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["test-ca".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = params.self_signed(&ca_key).unwrap();
        let issuer = Issuer::new(params, ca_key);
        let key = KeyPair::generate().unwrap();
        let names = vec![format!("{SERVICE}.{NAMESPACE}.svc")];
        let leaf = CertificateParams::new(names)
            .unwrap()
            .signed_by(&key, &issuer)
            .unwrap();
        std::fs::write(self.files.path().join("tls.crt"), leaf.pem()).unwrap();
        std::fs::write(self.files.path().join("tls.key"), key.serialize_pem()).unwrap();
        base64::engine::general_purpose::STANDARD.encode(ca.pem())
    }

    /// Makes the server the backend of a group version and waits until it is used.
    async fn register(&self, group: &str, version: &str, ca: &str) {
        let api: Api<APIService> = Api::all(self.client.clone());
        let name = format!("{version}.{group}");
        let service = json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            // The kube-apiserver would take a labelled one back for its CRDs.
            "metadata": {"name": name, "labels": {"kube-aggregator.kubernetes.io/automanaged": null}},
            "spec": {"group": group, "version": version, "caBundle": ca,
                "groupPriorityMinimum": 1000, "versionPriority": 100,
                "service": {"namespace": NAMESPACE, "name": SERVICE, "port": 443}},
        });
        if api.get_opt(&name).await.unwrap().is_none() {
            let mut new = service.clone();
            new["metadata"].as_object_mut().unwrap().remove("labels");
            let new: APIService = serde_json::from_value(new).unwrap();
            api.create(&PostParams::default(), &new).await.unwrap();
        } else {
            api.patch(&name, &PatchParams::default(), &Patch::Merge(service))
                .await
                .unwrap();
        }
        let path = format!("/apis/{group}/{version}");
        self.until(&format!("{path} is ours"), async || {
            let answer = self.get(&path).await;
            answer.code == 200 && answer.headers.contains_key("x-reports-server")
        })
        .await;
    }

    /// Opens the gate of a resource through the aggregator, once it answers.
    async fn open_gate(&self, plural: &str) {
        let uri = control_uri(plural, "gate");
        let body = json!({"spec": {"state": "Open"}});
        self.until(&format!("the gate of {plural} is open"), async || {
            self.send("PUT", &uri, &[JSON], &body).await.code == 200
        })
        .await;
    }

    /// Waits until `condition` holds.
    pub async fn until(&self, what: &str, condition: impl AsyncFn() -> bool) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while !condition().await {
            assert!(
                tokio::time::Instant::now() < deadline,
                "not within {PATIENCE:?}: {what}"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
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
        let bytes = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        self.send_bytes(method, uri, headers, bytes).await
    }

    pub async fn send_bytes(
        &self,
        method: &str,
        uri: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Answer {
        let mut request = http::Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body)).unwrap();
        let response = self.client.send(request).await.unwrap();
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
}

/// A watch, read line by line.
pub struct Watch {
    body: Body,
    buffer: Vec<u8>,
}

impl Setup {
    /// Opens a watch, or whatever else a get answers with.
    pub async fn watch(&self, uri: &str, accept: &str) -> (u16, Watch) {
        let request = http::Request::get(uri).header("accept", accept);
        let request = request.body(Body::empty()).unwrap();
        let (head, body) = self.client.send(request).await.unwrap().into_parts();
        (
            head.status.as_u16(),
            Watch {
                body,
                buffer: Vec::new(),
            },
        )
    }
}

impl Watch {
    /// The next line; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = tokio::time::timeout(PATIENCE, self.body.frame())
                .await
                .unwrap();
            let frame = frame?.unwrap();
            self.buffer.extend_from_slice(frame.data_ref()?);
        }
    }
}

pub struct Answer {
    pub code: u16,
    pub headers: http::HeaderMap,
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

fn control_uri(plural: &str, subresource: &str) -> String {
    let name = control::stored_resource_name(plural, GROUP);
    let (group, version, resources) = (control::GROUP, control::VERSION, control::PLURAL);
    format!("/apis/{group}/{version}/{resources}/{name}/{subresource}")
}

/// The server's binary, which `cargo test` builds beside the tests.
fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let directory = test.parent().and_then(std::path::Path::parent).unwrap();
    let program = directory.join("reports-server");
    assert!(
        program.exists(),
        "build it first: cargo build -p reports-server ({})",
        program.display()
    );
    program
}

async fn install(client: &Client, crd: CustomResourceDefinition) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = crd.name_any();
    api.create(&PostParams::default(), &crd).await.unwrap();
    let established = await_condition(api, &name, conditions::is_crd_established());
    tokio::time::timeout(PATIENCE, established)
        .await
        .unwrap()
        .unwrap();
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
