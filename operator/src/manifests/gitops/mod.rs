//! Examples for Argo CD and Flux: the operator and a `ReportsServer`, each out of a folder of this
//! repository, the health of a `ReportsServer` for Argo CD, and what whoever owns the CRDs of reports
//! has to leave alone.

#[cfg(test)]
mod tests;

use crds::names::API_GROUP;

use super::fill::{filled, indented};
use super::installation::Files;
use super::place::Place;
use crate::names::OPERATOR;

/// Files that are copied, with their marks filled in.
const FILES: [(&str, &str); 8] = [
    (
        "argocd/operator.yaml",
        include_str!("files/argocd/operator.yaml"),
    ),
    (
        "argocd/reports-server.yaml",
        include_str!("files/argocd/reports-server.yaml"),
    ),
    (
        "argocd/report-crds.yaml",
        include_str!("files/argocd/report-crds.yaml"),
    ),
    (
        "argocd/health.yaml",
        include_str!("files/argocd/health.yaml"),
    ),
    (
        "flux/operator.yaml",
        include_str!("files/flux/operator.yaml"),
    ),
    (
        "flux/reports-server.yaml",
        include_str!("files/flux/reports-server.yaml"),
    ),
    (
        "flux/report-crds.yaml",
        include_str!("files/flux/report-crds.yaml"),
    ),
    (
        "reports-server/kustomization.yaml",
        include_str!("files/kustomization.yaml"),
    ),
];

/// The check that Argo CD runs, by the rules of kstatus.
const HEALTH: &str = include_str!("files/health.lua");

/// The `ReportsServer` that the examples apply, which is an example itself.
const REPORTS_SERVER: &str = include_str!("../../../../manifests/examples/minimal.yaml");

/// Returns the files of the folder for Argo CD and Flux.
#[must_use]
pub fn gitops() -> Files {
    let place = Place::default();
    let marks = [
        ("@OPERATOR@", OPERATOR.to_owned()),
        ("@NAMESPACE@", place.namespace),
        ("@VERSION@", env!("CARGO_PKG_VERSION").to_owned()),
        ("@GROUP@", API_GROUP.to_owned()),
        ("@HEALTH@", indented(HEALTH, 4).trim_end().to_owned()),
    ];
    let mut files = Files::new();
    for (path, text) in FILES {
        files.insert(path.to_owned(), filled(text, &marks));
    }
    files.insert(
        "reports-server/reports-server.yaml".to_owned(),
        REPORTS_SERVER.to_owned(),
    );
    files
}
