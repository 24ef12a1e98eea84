//! The places of programs and images of a cluster.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use super::error::IoContext;
use super::{Error, Shape};

/// Returns the root of the work tree that this was compiled from.
#[must_use]
pub fn work_tree() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}

/// Returns the folders of the parts of a cluster of this shape.
pub(super) async fn locate(shape: Shape) -> Result<Vec<PathBuf>, Error> {
    folders(shape.as_str()).await
}

/// Returns the program with the tests of client-go, to be run with [`super::Cluster::command`].
///
/// # Errors
/// If it cannot be built.
pub async fn client_go_tests() -> Result<PathBuf, Error> {
    let folder = folders("client-go").await?.into_iter().next();
    Ok(folder.unwrap_or_default().join("client-go.test"))
}

/// Returns the program that follows reports with client-go and prints the events, to be run as
/// [`client_go_tests`].
///
/// # Errors
/// If it cannot be built.
pub async fn client_go_watcher() -> Result<PathBuf, Error> {
    let folder = folders("client-go").await?.into_iter().next();
    Ok(folder.unwrap_or_default().join("watcher"))
}

/// Returns the folder with the incumbent, kyverno/reports-server: the program `reports-server`, its
/// manifests `install.yaml`, its image `image.tar` with the name in `image.name`. `None` where its
/// source is not present.
///
/// # Errors
/// If it cannot be built.
pub async fn incumbent() -> Result<Option<PathBuf>, Error> {
    Ok(folders("incumbent").await?.into_iter().next())
}

/// Returns the folders that `hack/cluster parts` prints, which builds the parts when they are not
/// in the cache; its progress goes to standard error. It takes the release of Kubernetes from
/// `REPORTS_SERVER_KUBERNETES`, as this process has it.
async fn folders(what: &str) -> Result<Vec<PathBuf>, Error> {
    let script = work_tree().join("hack/cluster");
    let command = format!("{} parts {what}", script.display());
    let output = Command::new(&script)
        .args(["parts", what])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .spawn()
        .context(|| command.clone())?
        .wait_with_output()
        .await
        .context(|| command.clone())?;
    if !output.status.success() {
        return Err(Error::Parts {
            command,
            status: output.status.to_string(),
        });
    }
    Ok(String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(PathBuf::from)
        .collect())
}

/// Returns `PATH` with the parts' programs first. The system directories are named because a user's
/// `PATH` often lacks them.
pub(super) fn search_path(parts: &[PathBuf]) -> OsString {
    let inherited = env::var_os("PATH").unwrap_or_default();
    let directories = parts
        .iter()
        .map(|part| part.join("bin"))
        .chain(env::split_paths(&inherited))
        .chain(["/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(PathBuf::from));
    env::join_paths(directories).unwrap_or(inherited)
}

/// Returns the program `cluster` of this workspace, whose subcommands run inside of clusters:
/// beside the running program, or one directory up when that is a test. Or the value of
/// `REPORTS_SERVER_CLUSTER_PROGRAM`.
pub(super) fn cluster_program() -> Result<PathBuf, Error> {
    if let Some(program) = env::var_os("REPORTS_SERVER_CLUSTER_PROGRAM") {
        return Ok(program.into());
    }
    let current = env::current_exe().context(|| "find the running program")?;
    current
        .ancestors()
        .skip(1)
        .take(2)
        .map(|directory| directory.join("cluster"))
        .find(|program| program.is_file())
        .ok_or_else(|| {
            Error::Machine(format!(
                "the program `cluster` is not beside {}; build it with `cargo build -p testcluster`",
                current.display()
            ))
        })
}
