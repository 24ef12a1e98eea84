//! The tools of the ways: programs that `hack/lib/tools.sh` builds.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use super::objects::parse;

/// The repository's manifests.
const MANIFESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../manifests");
/// Name of release and chart.
const NAME: &str = "reports-server-operator";

/// Helm and kustomize.
pub struct Tools {
    helm: PathBuf,
    kustomize: PathBuf,
}

impl Tools {
    /// Returns the tools, or none where they are not there, which is a failure with `CI=true`.
    pub fn find() -> Option<Self> {
        let named = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let helm = named("REPORTS_SERVER_HELM");
        let kustomize = named("REPORTS_SERVER_KUSTOMIZE");
        if let (Some(helm), Some(kustomize)) = (helm, kustomize) {
            return Some(Self { helm, kustomize });
        }
        let why = "REPORTS_SERVER_HELM and REPORTS_SERVER_KUSTOMIZE are not set: see hack/ways";
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{why}");
        eprintln!("skipped: {why}");
        None
    }

    /// Returns what the chart installs into a namespace, without its hooks.
    pub fn helm(&self, namespace: &str, arguments: &[&str]) -> Vec<Value> {
        let without_hooks = [arguments, &["--no-hooks"]].concat();
        self.helm_with_hooks(namespace, &without_hooks)
    }

    /// Returns what the chart has, hooks and tests included.
    pub fn helm_with_hooks(&self, namespace: &str, arguments: &[&str]) -> Vec<Value> {
        parse(&printed(self.template(namespace, arguments)))
    }

    /// Returns what Helm says about values that it refuses, or lets pass.
    pub fn helm_refuses(&self, arguments: &[&str]) -> String {
        let output = self.template("default", arguments);
        assert!(!output.status.success(), "{arguments:?} are accepted");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Returns what a chart has as the release of a name, hooks and tests included.
    pub fn helm_as(&self, release: &str, chart: &Path, arguments: &[&str]) -> Vec<Value> {
        parse(&printed(self.rendered(release, chart, arguments)))
    }

    fn template(&self, namespace: &str, arguments: &[&str]) -> Output {
        let arguments = [&["--namespace", namespace][..], arguments].concat();
        self.rendered(NAME, &chart(), &arguments)
    }

    fn rendered(&self, release: &str, chart: &Path, arguments: &[&str]) -> Output {
        let mut helm = Command::new(&self.helm);
        helm.args(["template", release]).arg(chart).args(arguments);
        helm.output().expect("helm runs")
    }

    /// Returns what a folder for kustomize makes: one of ours, or another by its whole path.
    pub fn kustomize(&self, folder: &str) -> Vec<Value> {
        let folder = Path::new(MANIFESTS).join("kustomize").join(folder);
        let output = Command::new(&self.kustomize).arg(folder).output();
        parse(&printed(output.expect("kustomize runs")))
    }
}

/// Returns the folder of the chart.
pub fn chart() -> PathBuf {
    Path::new(MANIFESTS).join("helm").join(NAME)
}

fn printed(output: Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout).unwrap()
}
