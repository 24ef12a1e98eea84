//! CRDs of others, which are no part of this repository: `hack/foreign-crds` fetches them from
//! their own module, once.

use std::path::PathBuf;
use std::process::Stdio;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use tokio::process::Command;

use super::ConformError;
use super::case::read_yaml;
use testcluster::work_tree;

/// Group of the foreign CRDs: vulnerabilities as Trivy's operator reports them.
pub const GROUP: &str = "aquasecurity.github.io";

/// Returns the foreign CRDs.
///
/// # Errors
/// If they can neither be found nor fetched.
pub async fn crds() -> Result<Vec<CustomResourceDefinition>, ConformError> {
    let folder = fetched().await?;
    let read = |source| ConformError::Read {
        path: folder.clone(),
        source,
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(read)? {
        paths.push(entry.map_err(read)?.path());
    }
    paths.sort();
    paths.iter().map(|path| read_yaml(path)).collect()
}

/// Returns the folder with them.
async fn fetched() -> Result<PathBuf, ConformError> {
    let script = work_tree().join("hack/foreign-crds");
    let failed = |why: String| ConformError::Foreign {
        script: script.clone(),
        why,
    };
    let output = Command::new(&script)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let folder = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(PathBuf::from(folder))
}
