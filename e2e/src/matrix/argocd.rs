//! Argo CD: its application controller and its repository server as processes beside the cluster,
//! and a repository of git with the manifests of each release.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testcluster::{Cluster, Process, ProcessSpec};
use tokio::process::Command;

use super::error::MatrixError;
use super::tool;

/// Namespace of Argo CD and of the example.
const NAMESPACE: &str = "argocd";
/// The example's object.
const APPLICATION: &str = "application/reports-server-operator";
/// With this finalizer, what an Application applied goes with it.
const CASCADE: &str = "resources-finalizer.argocd.argoproj.io";
/// The cluster has a network of its own, and so a loopback.
const LOOPBACK: &str = "127.0.0.1";
const REDIS: u16 = 19481;
const REPOSITORY_SERVER: u16 = 19482;
/// Ports of metrics, which nobody reads.
const METRICS: [u16; 2] = [19483, 19484];
/// Longest time until something that is waited for.
const TIMEOUT: &str = "--timeout=5m";
/// Folder in that of the cluster.
const FOLDER: &str = "argocd";
/// Makes the next commit of a repository: a folder of manifests, alone. Prints the commit.
const COMMIT: &str = "\
set -eu
mkdir -p \"$1\"
cd \"$1\"
[ -d .git ] || git init --quiet --initial-branch=main
rm -rf manifests
cp -r \"$2\" manifests
git add --all --force
git -c user.name=tests -c user.email=tests@example.invalid -c commit.gpgsign=false \\
    commit --quiet --allow-empty --message 'The manifests of a release'
git rev-parse HEAD
";

/// Installs Argo CD, whose parts `hack/gitops argocd` builds, and starts it. The processes end when
/// they are dropped.
///
/// # Errors
/// If something cannot be installed or started.
pub async fn begin(cluster: &Cluster, parts: &Path) -> Result<Vec<Process>, MatrixError> {
    let crds = parts.join("crds");
    let create = ["create".as_ref(), "-f".as_ref(), crds.as_os_str()];
    cluster.kubectl(create).await?;
    let established = ["wait", "--for=condition=Established", "crd", "--all"];
    cluster.kubectl(established).await?;
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects()}).to_string();
    cluster
        .kubectl_with_input(["apply", "-f", "-"], &list)
        .await?;
    let temporary = folder(cluster).join("tmp");
    fs::create_dir_all(&temporary).map_err(|source| MatrixError::File {
        path: temporary.clone(),
        source,
    })?;
    let processes = [
        redis(parts),
        repository_server(parts, &temporary),
        controller(parts, &temporary),
    ];
    let mut running = Vec::new();
    for process in processes {
        running.push(cluster.run(process)?);
    }
    Ok(running)
}

/// Commits the manifests of a release, and has the example's Application apply them.
///
/// # Errors
/// If that fails, or is not over in time.
pub async fn sync(cluster: &Cluster, manifests: &Path) -> Result<(), MatrixError> {
    let health = manifests.join("gitops/argocd/health.yaml");
    let health = health.to_string_lossy();
    let patch = ["patch", "configmap", "argocd-cm", "--patch-file", &health];
    in_namespace(cluster, &patch).await?;
    let repository = folder(cluster).join("repository");
    let mut commit = Command::new("sh");
    commit.args(["-c", COMMIT, "sh"]);
    commit.arg(&repository).arg(manifests);
    let commit = tool::run("git", commit).await?;
    let commit = commit.trim();
    let application = application(manifests, &repository, commit)?.to_string();
    cluster
        .kubectl_with_input(["apply", "-f", "-"], &application)
        .await?;
    for (path, value) in [
        ("sync.revision", commit),
        ("sync.status", "Synced"),
        ("health.status", "Healthy"),
    ] {
        let reached = format!("--for=jsonpath={{.status.{path}}}={value}");
        in_namespace(cluster, &["wait", APPLICATION, &reached, TIMEOUT]).await?;
    }
    Ok(())
}

/// Deletes the Application with what it applied.
///
/// # Errors
/// If that fails, or is not over in time.
pub async fn uninstall(cluster: &Cluster) -> Result<(), MatrixError> {
    let finalizers = json!({"metadata": {"finalizers": [CASCADE]}}).to_string();
    let patch = ["patch", APPLICATION, "--type=merge", "-p", &finalizers];
    in_namespace(cluster, &patch).await?;
    in_namespace(cluster, &["delete", APPLICATION, TIMEOUT]).await
}

async fn in_namespace(cluster: &Cluster, arguments: &[&str]) -> Result<(), MatrixError> {
    let arguments = [&["-n", NAMESPACE][..], arguments].concat();
    cluster.kubectl(arguments).await?;
    Ok(())
}

fn folder(cluster: &Cluster) -> PathBuf {
    cluster.directory().join(FOLDER)
}

/// Returns the example with a repository and a commit of it, as a reader of the page writes them.
fn application(manifests: &Path, repository: &Path, commit: &str) -> Result<Value, MatrixError> {
    let path = manifests.join("gitops/argocd/operator.yaml");
    let text = fs::read_to_string(&path);
    let text = text.map_err(|source| MatrixError::File { path, source })?;
    let read = serde_yaml::from_str::<Value>(&text);
    let mut application = read.map_err(|error| MatrixError::Example(error.to_string()))?;
    let source = &mut application["spec"]["source"];
    source["repoURL"] = json!(format!("file://{}", repository.display()));
    source["targetRevision"] = json!(commit);
    Ok(application)
}

/// Returns what an installation of Argo CD has, and its servers do not make: settings, and the
/// project that the example names.
fn objects() -> Vec<Value> {
    let metadata = |name: &str| {
        json!({
            "name": name,
            "namespace": NAMESPACE,
            "labels": {"app.kubernetes.io/part-of": "argocd"},
        })
    };
    vec![
        json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": NAMESPACE},
        }),
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata("argocd-cm"),
        }),
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": metadata("argocd-secret"),
            "stringData": {"server.secretkey": uuid::Uuid::new_v4().to_string()},
        }),
        json!({
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "AppProject",
            "metadata": metadata("default"),
            "spec": {
                "sourceRepos": ["*"],
                "destinations": [{"namespace": "*", "server": "*"}],
                "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
            },
        }),
    ]
}

fn redis(parts: &Path) -> ProcessSpec {
    let port = REDIS.to_string();
    let arguments = ["--bind", LOOPBACK, "--port", &port, "--appendonly", "no"];
    ProcessSpec::new("argocd-redis", parts.join("redis-server"))
        .args(arguments)
        .args(["--save", ""])
}

fn repository_server(parts: &Path, temporary: &Path) -> ProcessSpec {
    let path = std::env::var("PATH").unwrap_or_default();
    server(parts, "argocd-repo-server", temporary)
        .args([
            format!("--address={LOOPBACK}"),
            format!("--port={REPOSITORY_SERVER}"),
            format!("--metrics-port={}", METRICS[0]),
            "--disable-tls".to_owned(),
            // By default it has one, which it refuses without TLS.
            "--client-ca-path=".to_owned(),
        ])
        .env("ARGOCD_GPG_ENABLED", "false")
        // The program kustomize is among the parts.
        .env("PATH", format!("{}:{path}", parts.display()))
}

fn controller(parts: &Path, temporary: &Path) -> ProcessSpec {
    server(parts, "argocd-application-controller", temporary).args([
        format!("--namespace={NAMESPACE}"),
        format!("--repo-server={LOOPBACK}:{REPOSITORY_SERVER}"),
        "--repo-server-plaintext".to_owned(),
        format!("--metrics-port={}", METRICS[1]),
    ])
}

/// Returns one of Argo CD's servers. All are one program, which takes its name from the
/// environment, and the administrator's configuration in place of that of a pod.
fn server(parts: &Path, name: &str, temporary: &Path) -> ProcessSpec {
    let temporary = temporary.to_string_lossy();
    let socket = format!("{temporary}/{name}.sock");
    ProcessSpec::new(name, parts.join("argocd"))
        .args([format!("--redis={LOOPBACK}:{REDIS}")])
        .env("ARGOCD_BINARY_NAME", name)
        .env("ARGOCD_FAKE_IN_CLUSTER", "true")
        .env("ARGOCD_ASK_PASS_SOCK", socket)
        .env("ARGOCD_TLS_DATA_PATH", &*temporary)
        .env("ARGOCD_SSH_DATA_PATH", &*temporary)
        .env("TMPDIR", &*temporary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_takes_a_repository_and_a_commit() {
        let manifests = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../manifests"));
        let application = application(manifests, Path::new("/somewhere"), "abc").unwrap();
        assert_eq!(application["metadata"]["namespace"], NAMESPACE);
        let name = application["metadata"]["name"].as_str().unwrap();
        assert_eq!(format!("application/{name}"), APPLICATION);
        let source = &application["spec"]["source"];
        assert_eq!(source["repoURL"], "file:///somewhere");
        assert_eq!(source["targetRevision"], "abc");
        assert_eq!(source["path"], "manifests/kustomize/base");
    }
}
