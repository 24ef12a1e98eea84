//! The content of git: the manifests of the repository, the CRDs of the reports as their vendor ships them,
//! and a `ReportsServer` whose groups are served by the server or by the CRDs.

use std::fs;
use std::path::{Path, PathBuf};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;
use testcluster::Cluster;
use tokio::process::Command;

use crate::matrix::error::MatrixError;
use crate::matrix::tool;

/// Folder in that of the cluster.
const FOLDER: &str = "git";
/// The `ReportsServer` that the examples apply.
const SERVER: &str = "gitops/reports-server/reports-server.yaml";
/// The part that a test adds to its specification, so that everything happens soon, but each phase
/// lasts long enough on a busy machine to be seen.
const SOON: &str = "  migration:
    soak: 20s
    maxRequestsPerSecond: 200
    source:
      policy: Prune
      after: 0s
";
/// Served by the server, as the example has it.
const SERVED: &str = "owner: Server";

/// A copy of the manifests, to be committed.
#[derive(Clone, Debug)]
pub struct Tree {
    manifests: PathBuf,
    /// The `ReportsServer` of the example.
    shipped: String,
}

impl Tree {
    /// The folder of the CRDs, as a tool is told it.
    pub const CRDS: &'static str = "manifests/gitops/crds";
    /// The label that the CRDs have in git, and its value.
    pub const LABEL: (&'static str, &'static str) = ("app.kubernetes.io/part-of", "kyverno");

    /// Copies `manifests` into the folder of the cluster, and adds these CRDs.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub async fn make(
        cluster: &Cluster,
        manifests: &Path,
        crds: &[CustomResourceDefinition],
    ) -> Result<Self, MatrixError> {
        let root = cluster.directory().join(FOLDER);
        make_folder(&root)?;
        let copy = root.join("manifests");
        let mut cp = Command::new("cp");
        cp.arg("-rT").arg(manifests).arg(&copy);
        tool::run("cp", cp).await?;
        add_crds(&root.join(Self::CRDS), crds)?;
        let path = copy.join(SERVER);
        let shipped = fs::read_to_string(&path);
        let shipped = shipped.map_err(|source| MatrixError::File { path, source })?;
        Ok(Self {
            manifests: copy,
            shipped,
        })
    }

    /// Returns the folder of the manifests.
    #[must_use]
    pub fn manifests(&self) -> &Path {
        &self.manifests
    }

    /// Writes the `ReportsServer` with all groups served by `owner`: `Server` or `CRD`.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn serve_by(&self, owner: &str) -> Result<(), MatrixError> {
        write(
            &self.manifests.join(SERVER),
            &served_by(&self.shipped, owner),
        )
    }
}

/// Makes a folder for kustomize with these CRDs.
fn add_crds(folder: &Path, crds: &[CustomResourceDefinition]) -> Result<(), MatrixError> {
    make_folder(folder)?;
    let mut resources = Vec::new();
    for crd in crds {
        let name = crd.metadata.name.as_deref().unwrap_or_default();
        let resource = format!("{name}.yaml");
        let mut crd = crd.clone();
        let (label, value) = Tree::LABEL;
        let labels = crd.metadata.labels.get_or_insert_default();
        labels.insert(label.to_owned(), value.to_owned());
        // JSON is YAML, and no text in it can be taken for anything else.
        write(&folder.join(&resource), &json!(crd).to_string())?;
        resources.push(resource);
    }
    let kustomization = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": resources,
    });
    let path = folder.join("kustomization.yaml");
    write(&path, &kustomization.to_string())
}

/// Returns the example with another owner, and the settings of the test.
fn served_by(shipped: &str, owner: &str) -> String {
    let owner = format!("owner: {owner}");
    format!("{}{SOON}", shipped.replace(SERVED, &owner))
}

fn make_folder(path: &Path) -> Result<(), MatrixError> {
    fs::create_dir_all(path).map_err(|source| MatrixError::File {
        path: path.to_owned(),
        source,
    })
}

fn write(path: &Path, text: &str) -> Result<(), MatrixError> {
    fs::write(path, text).map_err(|source| MatrixError::File {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use crds::v1alpha1::ReportsServer;
    use serde::Deserialize as _;
    use serde_json::Value;

    use super::*;

    fn server(text: &str) -> Value {
        let documents = serde_yaml::Deserializer::from_str(text);
        let objects = documents.map(|document| Value::deserialize(document).unwrap());
        objects.last().unwrap()
    }

    #[test]
    fn the_example_takes_an_owner_and_settings() {
        let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../manifests")).join(SERVER);
        let shipped = fs::read_to_string(path).unwrap();
        let mut wanted = server(&shipped);
        let changed = server(&served_by(&shipped, "CRD"));
        let migration = changed["spec"]["migration"].clone();
        assert_eq!(migration["soak"], "20s");
        wanted["spec"]["migration"] = migration;
        for api in wanted["spec"]["apis"].as_array_mut().unwrap() {
            assert_eq!(api["owner"], "Server");
            api["owner"] = json!("CRD");
        }
        assert_eq!(changed, wanted);
        serde_json::from_value::<ReportsServer>(changed).unwrap();
    }
}
