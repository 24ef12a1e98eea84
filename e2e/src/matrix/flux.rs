//! Flux: its kustomize-controller, and what stands in for its source-controller, which cannot be
//! had as a Go module. A folder becomes the artifact of the `GitRepository` that the example names.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use jiff::Timestamp;
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use testcluster::{Cluster, Process, ProcessSpec, network};
use tokio::process::Command;

use super::error::MatrixError;
use super::tool;

/// Namespace of Flux and of the example.
const NAMESPACE: &str = "flux-system";
/// The examples' objects.
const REPOSITORY: &str = "gitrepository/reports-server";
const OPERATOR: &str = "kustomization/reports-server-operator";
pub const SERVER: &str = "kustomization/policy-reports";
/// The Kustomization of the CRDs of reports.
const CRDS: &str = "report-crds";
/// API group and version of a Kustomization.
const GROUP: &str = "kustomize.toolkit.fluxcd.io";
const VERSION: &str = "v1";
/// API group of sources.
const SOURCES: &str = "source.toolkit.fluxcd.io";
/// Sources that the controller watches, with their plurals.
const KINDS: [(&str, &str); 4] = [
    ("Bucket", "buckets"),
    ("ExternalArtifact", "externalartifacts"),
    ("GitRepository", "gitrepositories"),
    ("OCIRepository", "ocirepositories"),
];
/// The controller, and its file among the parts.
const CONTROLLER: &str = "kustomize-controller";
/// Field manager of its writes.
pub const MANAGER: &str = CONTROLLER;
/// Asks for a Kustomization to be applied again.
const REQUESTED: &str = "reconcile.fluxcd.io/requestedAt";
/// Folder and process of the artifacts.
const ARTIFACTS: &str = "artifacts";
const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(network::NODE_IP), 19480);
/// Longest time until a folder is applied or pruned.
const TIMEOUT: &str = "--timeout=5m";

/// Starts the controller, whose parts `hack/gitops flux` builds, and what serves artifacts. Both
/// end when they are dropped.
///
/// # Errors
/// If something cannot be installed or started.
pub async fn begin(cluster: &Cluster, parts: &Path) -> Result<Vec<Process>, MatrixError> {
    let mut items = vec![json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": NAMESPACE},
    })];
    items.extend(KINDS.map(|(kind, plural)| source_crd(kind, plural)));
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    cluster
        .kubectl_with_input(["apply", "-f", "-"], &list)
        .await?;
    tool::create_crds(cluster, &parts.join("kustomizations.yaml")).await?;
    let folder = cluster.directory().join(ARTIFACTS);
    fs::create_dir_all(&folder).map_err(|source| MatrixError::File {
        path: folder.clone(),
        source,
    })?;
    let address = ADDRESS.to_string();
    let folder = folder.to_string_lossy();
    let arguments = ["httpd", "-f", "-p", &address, "-h", &folder];
    let artifacts = ProcessSpec::new(ARTIFACTS, "busybox").args(arguments);
    let controller = ProcessSpec::new(CONTROLLER, parts.join(CONTROLLER)).args([
        "--metrics-addr=0",
        "--health-addr=0",
        "--requeue-dependency=2s",
    ]);
    Ok(vec![cluster.run(artifacts)?, cluster.run(controller)?])
}

/// Applies the example of a release, and has the controller apply the folder that it names.
///
/// # Errors
/// If that fails, or is not over in time.
pub async fn sync(cluster: &Cluster, manifests: &Path) -> Result<(), MatrixError> {
    let digest = pack(cluster, manifests).await?;
    apply_example(cluster, manifests, "operator.yaml").await?;
    offer(cluster, &digest).await?;
    is_ready(cluster, OPERATOR, &digest).await
}

/// Has a Kustomization of its own apply the CRDs in the folder `path` of `manifests`, with prune, and
/// with the lines that the page has for it.
///
/// # Errors
/// If that fails, or is not over in time.
pub async fn own_crds(cluster: &Cluster, manifests: &Path, path: &str) -> Result<(), MatrixError> {
    let digest = pack(cluster, manifests).await?;
    let kustomization = crds_of(path).to_string();
    let apply = ["apply", "-f", "-"];
    cluster.kubectl_with_input(apply, &kustomization).await?;
    let lines = manifests.join("gitops/flux/report-crds.yaml");
    let lines = lines.to_string_lossy().into_owned();
    let arguments = ["patch", "kustomization", CRDS, "--type=merge"];
    let arguments = [&arguments[..], &["--patch-file", lines.as_str()]].concat();
    in_namespace(cluster, &arguments).await?;
    offer(cluster, &digest).await?;
    is_ready(cluster, &format!("kustomization/{CRDS}"), &digest).await
}

/// Takes the lines for the CRDs away.
///
/// # Errors
/// If that fails.
pub async fn stop_ignoring(cluster: &Cluster) -> Result<(), MatrixError> {
    let none = json!({"spec": {"ignore": null}}).to_string();
    let patch = ["patch", "kustomization", CRDS, "--type=merge", "-p", &none];
    in_namespace(cluster, &patch).await
}

/// Applies the example, and has the controller apply the `ReportsServer` in `manifests`; waits until
/// it begins to.
///
/// # Errors
/// If that fails, or is not begun in time.
pub async fn own_server(cluster: &Cluster, manifests: &Path) -> Result<(), MatrixError> {
    let digest = pack(cluster, manifests).await?;
    apply_example(cluster, manifests, "reports-server.yaml").await?;
    offer(cluster, &digest).await?;
    let begun = format!("--for=jsonpath={{.status.lastAttemptedRevision}}={digest}");
    in_namespace(cluster, &["wait", SERVER, &begun, TIMEOUT]).await
}

/// Deletes the Kustomization of the `ReportsServer`.
///
/// # Errors
/// If that fails.
pub async fn let_server_go(cluster: &Cluster) -> Result<(), MatrixError> {
    in_namespace(cluster, &["delete", SERVER, TIMEOUT]).await
}

/// Waits until the Kustomization says that it waits for the `ReportsServer`.
///
/// # Errors
/// If it does not in time.
pub async fn server_progresses(cluster: &Cluster) -> Result<(), MatrixError> {
    let health = r#"{.status.conditions[?(@.type=="Healthy")].status}"#;
    let unknown = format!("--for=jsonpath={health}=Unknown");
    in_namespace(cluster, &["wait", SERVER, &unknown, TIMEOUT]).await
}

/// Waits until the Kustomization says that the `ReportsServer` is ready.
///
/// # Errors
/// If it does not in time.
pub async fn server_is_healthy(cluster: &Cluster) -> Result<(), MatrixError> {
    in_namespace(cluster, &["wait", SERVER, "--for=condition=Ready", TIMEOUT]).await
}

/// Returns the kind of what is asked to apply.
pub fn kind() -> (&'static str, ApiResource) {
    let kind = GroupVersionKind::gvk(GROUP, VERSION, "Kustomization");
    let resource = ApiResource::from_gvk_with_plural(&kind, "kustomizations");
    (NAMESPACE, resource)
}

/// Returns the patch that has a Kustomization applied again; it says so by `token`.
pub fn order(token: &str) -> Value {
    json!({"metadata": {"annotations": {REQUESTED: token}}})
}

/// Returns whether a Kustomization was applied for `token`, and is ready.
pub fn has_obeyed(kustomization: &Value, token: &str) -> bool {
    let status = &kustomization["status"];
    let conditions = status["conditions"].as_array();
    let is_ready =
        |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    status["lastHandledReconcileAt"] == token && conditions.into_iter().flatten().any(is_ready)
}

async fn in_namespace(cluster: &Cluster, arguments: &[&str]) -> Result<(), MatrixError> {
    let arguments = [&["-n", NAMESPACE][..], arguments].concat();
    cluster.kubectl(arguments).await?;
    Ok(())
}

async fn apply_example(
    cluster: &Cluster,
    manifests: &Path,
    example: &str,
) -> Result<(), MatrixError> {
    let example = manifests.join("gitops/flux").join(example);
    let apply = ["apply".as_ref(), "-f".as_ref(), example.as_os_str()];
    cluster.kubectl(apply).await?;
    Ok(())
}

/// Has the repository offer an artifact, as source-controller does.
async fn offer(cluster: &Cluster, digest: &str) -> Result<(), MatrixError> {
    let status = json!({"status": {"artifact": artifact(digest)}}).to_string();
    let patch = ["patch", REPOSITORY, "--subresource=status", "--type=merge"];
    let patch = [&patch[..], &["-p", status.as_str()]].concat();
    in_namespace(cluster, &patch).await
}

/// Waits until a Kustomization has applied an artifact, and all of it is ready.
async fn is_ready(cluster: &Cluster, kustomization: &str, digest: &str) -> Result<(), MatrixError> {
    let applied = format!("--for=jsonpath={{.status.lastAppliedRevision}}={digest}");
    for reached in [applied.as_str(), "--for=condition=Ready"] {
        in_namespace(cluster, &["wait", kustomization, reached, TIMEOUT]).await?;
    }
    Ok(())
}

/// Returns the Kustomization of the CRDs in a folder.
fn crds_of(path: &str) -> Value {
    let (_, kind) = kind();
    json!({
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": CRDS, "namespace": NAMESPACE},
        "spec": {
            "sourceRef": {"kind": "GitRepository", "name": "reports-server"},
            "path": format!("./{path}"),
            "interval": "10m",
            "timeout": "5m",
            "prune": true,
            "wait": true,
        },
    })
}

/// Packs the folder `manifests` of a release, as source-controller packs a repository; returns the
/// digest, which is the name of the file, too.
async fn pack(cluster: &Cluster, manifests: &Path) -> Result<String, MatrixError> {
    let folder = cluster.directory().join(ARTIFACTS);
    let packed = folder.join("new");
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "-C"])
        .arg(manifests.join(".."))
        .arg("-czf")
        .arg(&packed)
        .arg("manifests");
    tool::run("tar", tar).await?;
    let mut sum = Command::new("sha256sum");
    sum.arg(&packed);
    let said = tool::run("sha256sum", sum).await?;
    let digest = format!("sha256:{}", said.split(' ').next().unwrap_or_default());
    let renamed = fs::rename(&packed, folder.join(file_of(&digest)));
    renamed.map_err(|source| MatrixError::File {
        path: packed,
        source,
    })?;
    Ok(digest)
}

/// Returns the name of the file of an artifact.
fn file_of(digest: &str) -> String {
    format!("{}.tar.gz", digest.replace(':', "-"))
}

/// Returns what source-controller says of an artifact.
fn artifact(digest: &str) -> Value {
    let file = file_of(digest);
    json!({
        "path": file,
        "url": format!("http://{ADDRESS}/{file}"),
        "revision": digest,
        "digest": digest,
        "lastUpdateTime": Timestamp::now().to_string(),
    })
}

/// Returns the CRD of a kind of sources, which takes everything.
fn source_crd(kind: &str, plural: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{SOURCES}")},
        "spec": {
            "group": SOURCES,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": format!("{kind}List"),
                "plural": plural,
                "singular": kind.to_lowercase(),
            },
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kustomization_is_known_by_the_token_of_its_order() {
        let order = order("token");
        let token = &order["metadata"]["annotations"][REQUESTED];
        let conditions = json!([{"type": "Ready", "status": "True"}]);
        let status = json!({"lastHandledReconcileAt": token, "conditions": conditions});
        let obeyed = json!({"status": status});
        assert!(has_obeyed(&obeyed, "token"));
        assert!(!has_obeyed(&obeyed, "another"));
        assert!(!has_obeyed(&json!({}), "token"));
    }

    #[test]
    fn an_artifact_is_found_by_its_digest() {
        let artifact = artifact("sha256:ab");
        assert_eq!(artifact["revision"], artifact["digest"]);
        let url = artifact["url"].as_str().unwrap();
        assert!(url.ends_with(":19480/sha256-ab.tar.gz"), "{url}");
    }
}
