//! Kustomizations of users, who take what they need of the base and the overlays.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use reports_server_operator::manifests;
use serde_json::Value;
use tempfile::TempDir;

use super::objects::{Objects, images, of_kind};
use super::tools::Tools;
use super::{MIRROR, NAMESPACE, without_namespace};

/// The folder with the base and the overlays.
const OURS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../manifests/kustomize");
/// Files of overlays that a user copies: kustomize reads none from outside of its folder.
const COPIED: [&str; 2] = ["monitoring/servicemonitor.yaml", "restricted/policies.yaml"];

/// Returns a folder of a user beside the base, with copies of the overlays' files.
fn folder(kustomization: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    symlink(Path::new(OURS).join("base"), folder.path().join("base")).unwrap();
    for file in COPIED {
        let (_, name) = file.split_once('/').unwrap();
        let from = Path::new(OURS).join("overlays").join(file);
        fs::copy(from, folder.path().join(name)).unwrap();
    }
    fs::write(folder.path().join("kustomization.yaml"), kustomization).unwrap();
    folder
}

/// Returns what kustomize makes of a user's folder.
fn made(tools: &Tools, kustomization: &str) -> Vec<Value> {
    let folder = folder(kustomization);
    tools.kustomize(folder.path().to_str().unwrap())
}

/// Returns the lines of an overlay's kustomization from a field on.
fn lines(overlay: &str, field: &str) -> String {
    let file = Path::new(OURS).join("overlays").join(overlay);
    let text = fs::read_to_string(file.join("kustomization.yaml")).unwrap();
    let (_, rest) = text.split_once(&format!("\n{field}:")).unwrap();
    format!("{field}:{rest}")
}

/// Two overlays cannot be named beside each other, as both bring the base.
#[test]
fn several_overlays_install_what_the_chart_does() {
    let Some(tools) = Tools::find() else { return };
    let namespace = lines("another-namespace", "namespace").replace("../../base", "base");
    let images = lines("mirror", "images");
    let files = "  - servicemonitor.yaml\n  - policies.yaml\n";
    let objects = made(&tools, &format!("{namespace}{files}{images}"));
    let namespaces = of_kind(&objects, "Namespace");
    assert_eq!(namespaces.len(), 1);
    assert_eq!(namespaces[0]["metadata"]["name"], NAMESPACE);
    let registry = format!("images.registry={MIRROR}");
    let values = [
        registry.as_str(),
        "monitoring.serviceMonitor.enabled=true",
        "policies.enabled=true",
    ];
    let values: Vec<&str> = values.into_iter().flat_map(|one| ["--set", one]).collect();
    let chart = tools.helm(NAMESPACE, &values);
    assert_eq!(of_kind(&chart, "ServiceMonitor").len(), 1);
    assert_eq!(of_kind(&chart, "ValidatingAdmissionPolicy").len(), 3);
    let objects = without_namespace(objects);
    assert_eq!(Objects::of(&objects), Objects::of(&chart));
}

/// The example of the page reaches the image that the operator starts, and leaves PostgreSQL alone.
#[test]
fn a_kustomization_names_our_images_by_their_digests() {
    let Some(tools) = Tools::find() else { return };
    let page = manifests::verify_page();
    let (_, rest) = page.split_once("```yaml\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let (head, rest) = example.split_once("  - https://").unwrap();
    let (_, below) = rest.split_once('\n').unwrap();
    let digest = format!("sha256:{}", "a".repeat(64));
    let example = format!("{head}  - base\n{below}").replace("sha256:…", &digest);
    let objects = made(&tools, &example);
    let all = images(&objects);
    let (ours, others): (Vec<&String>, Vec<&String>) = all
        .iter()
        .partition(|image| image.ends_with(digest.as_str()));
    assert_eq!(ours.len(), 2, "{all:?}");
    assert_eq!(others.len(), 1, "{all:?}");
    assert!(others[0].contains("/postgres:"), "{others:?}");
}
