//! Argo CD: its application controller and its repository server as processes beside the cluster,
//! and a repository of git with the manifests of each release.

use std::fs;
use std::path::{Path, PathBuf};

use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use testcluster::{Cluster, Process, ProcessSpec};
use tokio::process::Command;

use super::error::MatrixError;
use super::tool;

/// Namespace of Argo CD and of the example.
const NAMESPACE: &str = "argocd";
/// The examples, and their objects.
const OPERATOR_EXAMPLE: &str = "operator.yaml";
const OPERATOR: &str = "application/reports-server-operator";
const SERVER_EXAMPLE: &str = "reports-server.yaml";
const SERVER: &str = "application/policy-reports";
/// The Application of the CRDs of reports, and the lines that one needs.
const CRDS: &str = "report-crds";
const CRDS_EXAMPLE: &str = "report-crds.yaml";
/// Field manager of Argo CD's writes.
pub const MANAGER: &str = "argocd-controller";
/// The cluster has a network of its own, and so a loopback.
const LOOPBACK: &str = "127.0.0.1";
const REDIS: u16 = 19481;
const REPOSITORY_SERVER: u16 = 19482;
/// Ports of metrics, which nobody reads.
const METRICS: [u16; 2] = [19483, 19484];
/// Longest time until something that is waited for.
const TIMEOUT: &str = "--timeout=5m";
/// States of an Application.
const SYNCED: &str = "Synced";
const HEALTHY: &str = "Healthy";
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
    tool::create_crds(cluster, &parts.join("crds")).await?;
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
    let commit = commit(cluster, manifests).await?;
    let repository = repository(cluster);
    let application = application(manifests, OPERATOR_EXAMPLE, &repository, &commit)?;
    apply(cluster, &application).await?;
    is_synced(cluster, OPERATOR, &commit).await?;
    reaches(cluster, OPERATOR, "health.status", HEALTHY).await
}

/// Commits `manifests`, and has an Application of its own apply the CRDs in their folder `path`,
/// with self-heal and prune, and with the lines that the page has for it.
///
/// # Errors
/// If that fails, or is not over in time.
pub async fn own_crds(cluster: &Cluster, manifests: &Path, path: &str) -> Result<(), MatrixError> {
    let commit = commit(cluster, manifests).await?;
    let repository = repository(cluster);
    let mut application = application(manifests, OPERATOR_EXAMPLE, &repository, &commit)?;
    application["metadata"]["name"] = json!(CRDS);
    application["spec"]["source"]["path"] = json!(path);
    apply(cluster, &application).await?;
    let lines = manifests.join("gitops/argocd").join(CRDS_EXAMPLE);
    let lines = lines.to_string_lossy().into_owned();
    let arguments = ["patch", "application", CRDS, "--type=merge"];
    let arguments = [&arguments[..], &["--patch-file", lines.as_str()]].concat();
    in_namespace(cluster, &arguments).await?;
    let application = format!("application/{CRDS}");
    is_synced(cluster, &application, &commit).await?;
    reaches(cluster, &application, "health.status", HEALTHY).await
}

/// Takes the lines for the CRDs away.
///
/// # Errors
/// If that fails.
pub async fn stop_ignoring(cluster: &Cluster) -> Result<(), MatrixError> {
    let none = json!({"spec": {"ignoreDifferences": null}}).to_string();
    let patch = ["patch", "application", CRDS, "--type=merge", "-p", &none];
    in_namespace(cluster, &patch).await
}

/// Commits `manifests`, and has the example's Application apply the `ReportsServer` in them,
/// whatever its health is then.
///
/// # Errors
/// If that fails, or is not over in time.
pub async fn own_server(cluster: &Cluster, manifests: &Path) -> Result<(), MatrixError> {
    let commit = commit(cluster, manifests).await?;
    let repository = repository(cluster);
    let application = application(manifests, SERVER_EXAMPLE, &repository, &commit)?;
    apply(cluster, &application).await?;
    is_synced(cluster, SERVER, &commit).await
}

/// Deletes the Application of the `ReportsServer`.
///
/// # Errors
/// If that fails.
pub async fn let_server_go(cluster: &Cluster) -> Result<(), MatrixError> {
    in_namespace(cluster, &["delete", SERVER, TIMEOUT]).await
}

/// Waits until the Application says that the `ReportsServer` is not ready.
///
/// # Errors
/// If it does not in time.
pub async fn server_progresses(cluster: &Cluster) -> Result<(), MatrixError> {
    reaches(cluster, SERVER, "health.status", "Progressing").await
}

/// Waits until the Application says that the `ReportsServer` is healthy.
///
/// # Errors
/// If it does not in time.
pub async fn server_is_healthy(cluster: &Cluster) -> Result<(), MatrixError> {
    reaches(cluster, SERVER, "health.status", HEALTHY).await
}

/// Ends a sync that is running, as `argocd app terminate-op` does: one that heals a single object in a
/// namespace which is gone is tried again for minutes, and no other one begins.
///
/// # Errors
/// If that fails.
pub async fn terminate_operation(cluster: &Cluster) -> Result<(), MatrixError> {
    let state = json!({"status": {"operationState": {"phase": "Terminating"}}}).to_string();
    let patch = ["patch", OPERATOR, "--type=merge", "-p", &state];
    in_namespace(cluster, &patch).await
}

/// Returns the kind of what is asked to sync.
pub fn kind() -> (&'static str, ApiResource) {
    let kind = GroupVersionKind::gvk("argoproj.io", "v1alpha1", "Application");
    let resource = ApiResource::from_gvk_with_plural(&kind, "applications");
    (NAMESPACE, resource)
}

/// Returns the patch that has an Application compared without a cache, and synced whether it
/// differs or not; `token` is whom it is done for.
pub fn order(application: &Value, token: &str) -> Value {
    let policy = &application["spec"]["syncPolicy"];
    json!({
        "metadata": {"annotations": {"argocd.argoproj.io/refresh": "hard"}},
        "operation": {
            "initiatedBy": {"username": token},
            "sync": {
                "prune": policy["automated"]["prune"],
                "syncOptions": policy["syncOptions"],
            },
        },
    })
}

/// Returns whether an Application was synced for `token`, and nothing of it differs.
pub fn has_obeyed(application: &Value, token: &str) -> bool {
    let status = &application["status"];
    let state = &status["operationState"];
    state["operation"]["initiatedBy"]["username"] == token
        && state["phase"] == "Succeeded"
        && status["sync"]["status"] == SYNCED
}

async fn in_namespace(cluster: &Cluster, arguments: &[&str]) -> Result<(), MatrixError> {
    let arguments = [&["-n", NAMESPACE][..], arguments].concat();
    cluster.kubectl(arguments).await?;
    Ok(())
}

async fn apply(cluster: &Cluster, application: &Value) -> Result<(), MatrixError> {
    let apply = ["apply", "-f", "-"];
    let application = application.to_string();
    cluster.kubectl_with_input(apply, &application).await?;
    Ok(())
}

/// Waits until a commit is what the cluster has.
async fn is_synced(cluster: &Cluster, application: &str, commit: &str) -> Result<(), MatrixError> {
    reaches(cluster, application, "sync.revision", commit).await?;
    reaches(cluster, application, "sync.status", SYNCED).await
}

/// Waits until an Application's status has a value.
async fn reaches(
    cluster: &Cluster,
    application: &str,
    path: &str,
    value: &str,
) -> Result<(), MatrixError> {
    let reached = format!("--for=jsonpath={{.status.{path}}}={value}");
    in_namespace(cluster, &["wait", application, &reached, TIMEOUT]).await
}

fn folder(cluster: &Cluster) -> PathBuf {
    cluster.directory().join(FOLDER)
}

fn repository(cluster: &Cluster) -> PathBuf {
    folder(cluster).join("repository")
}

/// Commits the manifests alone; returns the commit.
async fn commit(cluster: &Cluster, manifests: &Path) -> Result<String, MatrixError> {
    let mut commit = Command::new("sh");
    commit.args(["-c", COMMIT, "sh"]);
    commit.arg(repository(cluster)).arg(manifests);
    let commit = tool::run("git", commit).await?;
    Ok(commit.trim().to_owned())
}

/// Returns an example with a repository and a commit of it, as a reader of the page writes them.
fn application(
    manifests: &Path,
    example: &str,
    repository: &Path,
    commit: &str,
) -> Result<Value, MatrixError> {
    let path = manifests.join("gitops/argocd").join(example);
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
    fn the_examples_take_a_repository_and_a_commit() {
        let manifests = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../manifests"));
        let folders = [
            "manifests/kustomize/base",
            "manifests/gitops/reports-server",
        ];
        let examples = [(OPERATOR_EXAMPLE, OPERATOR), (SERVER_EXAMPLE, SERVER)];
        for ((example, object), folder) in examples.into_iter().zip(folders) {
            let somewhere = Path::new("/somewhere");
            let application = application(manifests, example, somewhere, "abc").unwrap();
            assert_eq!(application["metadata"]["namespace"], NAMESPACE);
            let name = application["metadata"]["name"].as_str().unwrap();
            assert_eq!(format!("application/{name}"), object);
            let source = &application["spec"]["source"];
            assert_eq!(source["repoURL"], "file:///somewhere");
            assert_eq!(source["targetRevision"], "abc");
            assert_eq!(source["path"], folder);
        }
    }

    #[test]
    fn a_sync_has_the_settings_of_the_application_and_is_known_by_its_token() {
        let policy = json!({"automated": {"prune": true}, "syncOptions": ["A=true"]});
        let application = json!({"spec": {"syncPolicy": policy}});
        let order = order(&application, "token");
        let operation = &order["operation"];
        let settings = json!({"prune": true, "syncOptions": ["A=true"]});
        assert_eq!(operation["sync"], settings);
        let obeyed = json!({"status": {
            "operationState": {"operation": operation, "phase": "Succeeded"},
            "sync": {"status": "Synced"},
        }});
        assert!(has_obeyed(&obeyed, "token"));
        assert!(!has_obeyed(&obeyed, "another"));
        assert!(!has_obeyed(&application, "token"));
    }
}
