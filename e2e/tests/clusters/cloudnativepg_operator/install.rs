//! The installation of `CloudNativePG` as its users do it, by the manifest of its release.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::full;
use e2e::takeover::Takeover;
use serde_json::{Value, json};

const NAMESPACE: &str = "cnpg-system";
const DEPLOYMENT: &str = "deployment/cnpg-controller-manager";
/// The archives of the operator, and of PostgreSQL in two versions.
const IMAGES: [&str; 3] = ["operator.tar", "postgres.tar", "postgres-next.tar"];

/// Returns the folder that `hack/cluster parts cloudnativepg` prints, or nothing where the tests
/// are to be left out.
pub fn parts() -> Option<PathBuf> {
    if !full() {
        println!("left out: the real CloudNativePG runs only with E2E_FULL (hack/test --full)");
        return None;
    }
    let parts = std::env::var_os("CLOUDNATIVEPG_PARTS").expect(
        "CLOUDNATIVEPG_PARTS is what `hack/cluster parts cloudnativepg` prints; see hack/test",
    );
    if parts.is_empty() {
        println!("skipped: the source of CloudNativePG is absent; see CONTRIBUTING.md");
        return None;
    }
    Some(PathBuf::from(parts))
}

/// The images of PostgreSQL that the node has.
pub struct Catalog {
    name: String,
    /// Their major versions, the older one first.
    pub majors: [i64; 2],
}

impl Catalog {
    /// Reads the catalog among the parts.
    pub fn read(parts: &Path) -> Self {
        let text = fs::read_to_string(parts.join("catalog.yaml")).unwrap();
        let catalog: Value = serde_yaml::from_str(&text).unwrap();
        let major = |index: usize| catalog["spec"]["images"][index]["major"].as_i64().unwrap();
        Self {
            name: catalog["metadata"]["name"].as_str().unwrap().to_owned(),
            majors: [major(0), major(1)],
        }
    }

    /// Returns the member `imageCatalogRef` of a `ReportsServer` for the older version.
    pub fn reference(&self) -> Value {
        json!({"kind": "ClusterImageCatalog", "name": self.name, "major": self.majors[0]})
    }

    /// Returns the same of a `Cluster`.
    pub fn reference_of_a_cluster(&self) -> Value {
        let mut reference = self.reference();
        reference["apiGroup"] = json!("postgresql.cnpg.io");
        reference
    }
}

/// Installs `CloudNativePG` and waits until it runs.
pub async fn install(line: &Takeover, parts: &Path) {
    line.say("installing CloudNativePG");
    for image in IMAGES {
        let archive = parts.join("images").join(image);
        line.cluster.load_image(&archive).await.unwrap();
    }
    apply(line, &parts.join("cloudnative-pg.yaml")).await;
    rolled_out(line).await;
    apply(line, &parts.join("catalog.yaml")).await;
}

/// Server-side, as its documentation says: the CRDs are too large for the annotation of the other
/// way.
async fn apply(line: &Takeover, file: &Path) {
    let mut args = ["apply", "--server-side", "-f"]
        .map(OsString::from)
        .to_vec();
    args.push(file.into());
    line.cluster.kubectl(args).await.unwrap();
}

async fn rolled_out(line: &Takeover) {
    kubectl(line, &["rollout", "status", DEPLOYMENT, "--timeout=300s"]).await;
}

/// Ends the operator of `CloudNativePG`; the instances run on.
pub async fn end(line: &Takeover) {
    kubectl(line, &["scale", DEPLOYMENT, "--replicas=0"]).await;
    let pods = "app.kubernetes.io/name=cloudnative-pg";
    let gone = ["wait", "--for=delete", "pod", "-l", pods, "--timeout=120s"];
    kubectl(line, &gone).await;
}

/// Starts it again.
pub async fn start_again(line: &Takeover) {
    kubectl(line, &["scale", DEPLOYMENT, "--replicas=1"]).await;
    rolled_out(line).await;
}

/// kubectl in its namespace.
async fn kubectl(line: &Takeover, args: &[&str]) {
    line.cluster
        .kubectl(["-n", NAMESPACE].iter().chain(args))
        .await
        .unwrap_or_else(|error| panic!("kubectl {args:?}: {error}"));
}
