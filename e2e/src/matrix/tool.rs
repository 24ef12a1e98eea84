//! Programs that are run to their end, and the CRDs that tools bring.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::await_condition;
use kube::{Api, ResourceExt as _};
use testcluster::{Cluster, Error, run_command};
use tokio::process::Command;

use super::error::MatrixError;
use crate::request::RequestError;
use crate::takeover::TakeoverError;

/// Longest time until a CRD is served.
const LIMIT: Duration = Duration::from_mins(1);

/// Runs a program, which errors call `name`; returns what it printed.
///
/// # Errors
/// If it cannot be started, or fails.
pub async fn run(name: &str, command: Command) -> Result<String, MatrixError> {
    let program = name.to_owned();
    let output = run_command(command, "").await;
    output.map_err(|error| match error {
        Error::Io { source, .. } => MatrixError::Start { program, source },
        Error::Command { stderr, .. } => MatrixError::Refused {
            program,
            said: stderr,
        },
        error => error.into(),
    })
}

/// Creates the CRDs of a file or folder, and waits until the kube-apiserver serves all that there are.
/// (`kubectl wait` fails on one that has no conditions yet.)
///
/// # Errors
/// If they cannot be created, or are not served in time.
pub async fn create_crds(cluster: &Cluster, path: &Path) -> Result<(), MatrixError> {
    let create = ["create".as_ref(), "-f".as_ref(), path.as_os_str()];
    cluster.kubectl(create).await?;
    let crds: Api<CustomResourceDefinition> = Api::all(cluster.client().await?);
    let all = crds.list_metadata(&ListParams::default()).await;
    let all = all.map_err(RequestError::of("list the CRDs"));
    for crd in all.map_err(TakeoverError::from)? {
        let name = crd.name_any();
        let served = await_condition(crds.clone(), &name, is_crd_established());
        let why = match tokio::time::timeout(LIMIT, served).await {
            Ok(Ok(_)) => continue,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("not served within {LIMIT:?}"),
        };
        return Err(TakeoverError::Answer(format!("CRD {name}: {why}")).into());
    }
    Ok(())
}
