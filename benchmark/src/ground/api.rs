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
use crate::target::{Kind, Served, Way};

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

    /// Installs the CRDs of a system and waits until they are served.
    pub(super) async fn install(&self, kind: Kind) -> anyhow::Result<()> {
        for served in kind.served() {
            let crd = self.crd(&served)?;
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            self.post(path, &crd).await?;
            self.answers(&served, false).await?;
        }
        Ok(())
    }

    /// Returns the CRD of a resource under the group by which it is served.
    fn crd(&self, served: &Served) -> anyhow::Result<Value> {
        let crds = self.options.input.crds(&[served.report.group()])?;
        let mut crd = crds
            .into_iter()
            .find(|crd| crd.spec.names.plural == served.plural)
            .with_context(|| format!("there is no CRD of {}", served.plural))?;
        crd.spec.group.clone_from(&served.group);
        crd.metadata.name = Some(format!("{}.{}", served.plural, served.group));
        // Short names and categories are the whole cluster's.
        crd.spec.names.short_names = None;
        crd.spec.names.categories = None;
        let mut crd = serde_json::to_value(crd)?;
        if let Some(crd) = crd.as_object_mut() {
            crd.remove("status");
        }
        Ok(crd)
    }

    /// Has the kube-apiserver hand the groups of a system over to its server.
    pub(super) async fn register(&self, kind: Kind) -> anyhow::Result<()> {
        for served in kind.served() {
            self.hand_over(kind, &served).await?;
            self.answers(&served, kind != Kind::Null).await?;
        }
        Ok(())
    }

    async fn hand_over(&self, kind: Kind, served: &Served) -> anyhow::Result<()> {
        let (group, version) = (&served.group, served.version);
        let name = format!("{version}.{group}");
        let mut service = json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": name},
            "spec": {"group": group, "version": version, "caBundle": STANDARD.encode(&self.ca),
                "groupPriorityMinimum": 1000, "versionPriority": 100,
                "service": {"namespace": "default", "name": kind.name(), "port": 443}},
        });
        let path = "/apis/apiregistration.k8s.io/v1/apiservices";
        self.post(path, &service).await?;
        // A labelled one is the CRD's, and would be taken back.
        service["metadata"]["labels"] = json!({"kube-aggregator.kubernetes.io/automanaged": null});
        let change = Request::new(Method::PATCH, format!("{path}/{name}"), service.to_string());
        self.kube.once(&change).await?.success()?;
        Ok(())
    }

    /// Waits until the kube-apiserver serves a resource, from a server of ours if so asked.
    async fn answers(&self, served: &Served, ours: bool) -> anyhow::Result<()> {
        let path = format!("{}?limit=1", served.all());
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut connection = self.kube.connect().await?;
            let answer = connection.open(&Request::get(&path)).await?;
            let from_ours = answer.headers().contains_key(SERVER_HEADER);
            if answer.status() == 200 && (from_ours || !ours) {
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
        for served in kind.served() {
            self.open_one(kind, &served).await?;
        }
        Ok(())
    }

    async fn open_one(&self, kind: Kind, served: &Served) -> anyhow::Result<()> {
        let target = self.target(kind, Way::Direct)?;
        let name = control::stored_resource_name(&served.plural, &served.group);
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
