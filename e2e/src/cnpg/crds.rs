//! The CRD of `Cluster`.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context as _, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, PostParams};
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::await_condition;
use kube::{Api, Client, ResourceExt};
use serde_json::json;

/// Name of the CRD.
pub const NAME: &str = "clusters.postgresql.cnpg.io";

const LIMIT: Duration = Duration::from_secs(30);

/// Installs the CRD and waits until it is served.
///
/// # Errors
/// If it cannot be read or is refused.
pub async fn install(client: &Client) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let crd = read()?;
    api.create(&PostParams::default(), &crd).await?;
    let established = await_condition(api, NAME, is_crd_established());
    tokio::time::timeout(LIMIT, established)
        .await
        .with_context(|| format!("{} is not established", crd.name_any()))??;
    Ok(())
}

/// Removes the CRD, and with it every `Cluster`.
///
/// # Errors
/// If it cannot be deleted.
pub async fn uninstall(client: &Client) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    api.delete(NAME, &DeleteParams::default()).await?;
    Ok(())
}

/// Returns the vendor's where it is available: in `$REPORTS_DATA/crds-cloudnativepg`, else beside
/// the workspace in `../shared/data/crds-cloudnativepg`; else one that accepts everything.
fn read() -> Result<CustomResourceDefinition> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    let data = env::var_os("REPORTS_DATA").map_or_else(beside, PathBuf::from);
    let path = data.join("crds-cloudnativepg/clusters.yaml");
    match fs::read_to_string(&path) {
        Ok(text) => {
            serde_yaml::from_str(&text).with_context(|| format!("{} is not a CRD", path.display()))
        }
        Err(_) => lenient(),
    }
}

fn lenient() -> Result<CustomResourceDefinition> {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {
            "group": "postgresql.cnpg.io", "scope": "Namespaced",
            "names": {"kind": "Cluster", "listKind": "ClusterList", "plural": "clusters",
                "singular": "cluster"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}}, "schema": {"openAPIV3Schema": anything}}],
        },
    });
    Ok(serde_json::from_value(crd)?)
}
