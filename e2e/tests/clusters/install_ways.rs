//! Helm, the manifest, kustomize, Flux, Argo CD and OLM v0, on a real cluster: installed, with
//! reports on the server, installed over or upgraded, rolled back, refused to be uninstalled, and
//! uninstalled as the page says; where a release before is upgraded, in the wrong orders first.

use std::path::{Path, PathBuf};

use crate::common::{full, helm, options, say};
use e2e::matrix::{self, Previous, Way};
use e2e::takeover::Database;
use testreports::Input;

/// Returns the release before, which is upgraded where there is one: the folder that
/// `hack/previous` prints.
fn previous() -> Option<Previous> {
    let folder = std::env::var_os("REPORTS_SERVER_PREVIOUS")?;
    Some(Previous::read(Path::new(&folder)).unwrap())
}

async fn tried(way: Way) {
    let reports = if full() { 1000 } else { 300 };
    let mut options = options(Input::Generated { seed: 1 }, reports);
    let previous = previous();
    if previous.is_some() {
        // The servers are exchanged one by one.
        options.database = Database::Managed;
    }
    let outcome = matrix::run(&way, options, previous, say).await.unwrap();
    assert!(outcome.is_clean(), "{outcome:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn helm_installs_and_uninstalls() {
    if let Some(helm) = helm() {
        tried(Way::Helm(helm)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_helm_installs_and_uninstalls() {
    if let Some(helm) = parts("REPORTS_SERVER_HELM3") {
        tried(Way::Helm(helm)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_manifest_installs_and_uninstalls() {
    tried(Way::Manifest).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kustomize_installs_and_uninstalls() {
    // Its base has the objects of the manifest, as `operator/tests/ways` shows.
    if !full() {
        println!("only with E2E_FULL=1");
        return;
    }
    tried(Way::Kustomize).await;
}

/// Returns the folder or program that a variable names, which `hack/test --full` sets.
fn parts(variable: &str) -> Option<PathBuf> {
    let parts = std::env::var_os(variable).map(PathBuf::from);
    if parts.is_none() {
        println!("left out: {variable} is not set");
    }
    parts
}

#[tokio::test(flavor = "multi_thread")]
async fn flux_installs_and_uninstalls() {
    if let Some(parts) = parts("REPORTS_SERVER_FLUX") {
        tried(Way::Flux(parts)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn argo_cd_installs_and_uninstalls() {
    if let Some(parts) = parts("REPORTS_SERVER_ARGOCD") {
        tried(Way::ArgoCd(parts)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn olm_installs_and_uninstalls() {
    if let Some(parts) = parts("REPORTS_SERVER_OLM0") {
        tried(Way::Olm(parts)).await;
    }
}
