//! The orders to the kube-apiserver and the servers before anything is measured.

use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crds::control;
use http::Method;
use reports_server::http::SERVER_HEADER;
use serde_json::{Value, json};

use super::{Ground, PATIENCE, PAUSE};
use crate::client::Request;
use crate::names::{PLURAL, VERSION};
use crate::target::{Kind, REPORTS, Way};

impl Ground {
    pub(super) async fn post(&self, path: &str, body: &Value) -> anyhow::Result<()> {
        let request = Request::new(Method::POST, path, body.to_string());
        let reply = self.kube.once(&request).await?;
        // One that is there already will do.
        ensure!(
            reply.status.is_success() || reply.status == 409,
            "POST {path}: {}: {}",
            reply.status,
            String::from_utf8_lossy(&reply.body)
        );
        Ok(())
    }

    /// Installs the CRD of a group and waits until it is served.
    pub(super) async fn install(&self, kind: Kind) -> anyhow::Result<()> {
        let mut crd = self
            .options
            .input
            .crds(&[REPORTS])?
            .into_iter()
            .find(|crd| crd.spec.names.plural == PLURAL)
            .context("there is no CRD of policy reports")?;
        crd.spec.group = kind.group();
        crd.metadata.name = Some(format!("{PLURAL}.{}", kind.group()));
        // Short names and categories are the whole cluster's.
        crd.spec.names.short_names = None;
        crd.spec.names.categories = None;
        let mut crd = serde_json::to_value(crd)?;
        if let Some(crd) = crd.as_object_mut() {
            crd.remove("status");
        }
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        self.post(path, &crd).await?;
        self.answers(kind, false).await
    }

    /// Has the kube-apiserver hand a group over to its server.
    pub(super) async fn register(&self, kind: Kind) -> anyhow::Result<()> {
        let group = kind.group();
        let name = format!("{VERSION}.{group}");
        let mut service = json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": name},
            "spec": {"group": group, "version": VERSION, "caBundle": STANDARD.encode(&self.ca),
                "groupPriorityMinimum": 1000, "versionPriority": 100,
                "service": {"namespace": "default", "name": kind.name(), "port": 443}},
        });
        let path = "/apis/apiregistration.k8s.io/v1/apiservices";
        self.post(path, &service).await?;
        // A labelled one is the CRD's, and would be taken back.
        service["metadata"]["labels"] = json!({"kube-aggregator.kubernetes.io/automanaged": null});
        let change = Request::new(Method::PATCH, format!("{path}/{name}"), service.to_string());
        self.kube.once(&change).await?.success()?;
        self.answers(kind, true).await
    }

    /// Waits until the kube-apiserver serves a group, from its own server if so asked.
    pub(super) async fn answers(&self, kind: Kind, own: bool) -> anyhow::Result<()> {
        let path = format!("/apis/{}/{VERSION}/{PLURAL}?limit=1", kind.group());
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut connection = self.kube.connect().await?;
            let answer = connection.open(&Request::get(&path)).await?;
            let ours = answer.headers().contains_key(SERVER_HEADER);
            if answer.status() == 200 && (ours || !own || kind == Kind::Null) {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("{path} is not served: {}", answer.status());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Lets requests through to an empty server, as at the end of a switch.
    pub(super) async fn open(&self, kind: Kind) -> anyhow::Result<()> {
        let target = self.target(kind, Way::Direct)?;
        let name = control::stored_resource_name(PLURAL, &kind.group());
        let (group, version, resources) = (control::GROUP, control::VERSION, control::PLURAL);
        for (subresource, spec) in [
            ("floor", json!({"resourceVersion": "100000"})),
            ("gate", json!({"state": "Open"})),
        ] {
            let path = format!("/apis/{group}/{version}/{resources}/{name}/{subresource}");
            let body = json!({"spec": spec}).to_string();
            let request = Request::new(Method::PUT, path, body);
            let deadline = Instant::now() + PATIENCE;
            // The resource is known once its CRD has been seen.
            while let Err(error) = target.endpoint.once(&request).await?.success() {
                if Instant::now() > deadline {
                    return Err(error.context(format!("{subresource} of {name}")));
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
        Ok(())
    }
}
