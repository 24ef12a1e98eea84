//! The registry of the project's images is named once: a fork changes one line.

use std::path::{Path, PathBuf};

use super::{chart, install, kustomize, verify_page};
use crate::names::{IMAGE_REGISTRY, operator_image, server_image};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// The file with the constant.
const SOURCE: &str = "operator/src/names.rs";
/// The files and folders that `hack/gen` writes with the registry in them.
const GENERATED: [&str; 5] = [
    "manifests/install.yaml",
    "manifests/helm/",
    "manifests/kustomize/",
    "manifests/olm/",
    "docs/verify.md",
];
/// Images that are made for tests alone. Nobody publishes them, so a fork leaves them as they are.
const OF_TESTS: [&str; 2] = ["tools:", "incumbent:"];

/// Adds the paths of all files below a folder.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_symlink() || [".git", "target", ".cluster"].contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.push(path);
        }
    }
}

/// Returns the paths of the files that name the registry.
fn naming() -> Vec<String> {
    let mut files = Vec::new();
    collect(Path::new(ROOT), &mut files);
    let mut found = Vec::new();
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        for image in OF_TESTS {
            text = text.replace(&format!("{IMAGE_REGISTRY}/{image}"), "");
        }
        if text.contains(IMAGE_REGISTRY) {
            let path = file.strip_prefix(ROOT).unwrap();
            found.push(path.to_string_lossy().into_owned());
        }
    }
    found
}

#[test]
fn no_file_that_is_written_by_hand_names_the_registry() {
    let found = naming();
    assert!(found.iter().any(|path| path == SOURCE), "{found:?}");
    for path in found {
        let generated = GENERATED.iter().any(|known| path.starts_with(known));
        assert!(
            generated || path == SOURCE,
            "{path} names {IMAGE_REGISTRY}; take it from IMAGE_REGISTRY"
        );
    }
}

/// `image_registry` of `hack/lib/common.sh` reads this very line.
#[test]
fn scripts_find_the_registry() {
    let source = std::fs::read_to_string(format!("{ROOT}/{SOURCE}")).unwrap();
    let line = format!("pub const IMAGE_REGISTRY: &str = \"{IMAGE_REGISTRY}\";");
    assert_eq!(source.lines().filter(|found| *found == line).count(), 1);
    let script = std::fs::read_to_string(format!("{ROOT}/hack/lib/common.sh")).unwrap();
    assert!(script.contains("s/^pub const IMAGE_REGISTRY: &str = "));
    // The manifests of the release before have the registry of their own source.
    let previous = std::fs::read_to_string(format!("{ROOT}/hack/previous")).unwrap();
    assert!(previous.contains("\tROOT=$1 image_registry\n"));
    assert!(previous.contains("registry=$(registry_of \"$source\")\n"));
}

/// `hack/release` pushes the chart there, and the page about signatures names the same address.
#[test]
fn the_readme_of_the_chart_installs_it_from_the_registry() {
    let chart = chart().unwrap();
    let address = format!("{IMAGE_REGISTRY}/charts/reports-server-operator");
    let command = format!(
        "helm install reports-server-operator oci://{address} \\\n    --version {} ",
        env!("CARGO_PKG_VERSION")
    );
    assert!(chart["README.md"].contains(&command), "{command}");
    assert!(verify_page().contains(&address), "{address}");
}

#[test]
fn every_way_has_the_images_of_the_registry() {
    let ways = [
        install().unwrap(),
        chart().unwrap()["values.yaml"].clone() + &chart().unwrap()["Chart.yaml"],
        kustomize().unwrap()["base/deployment.yaml"].clone(),
    ];
    for text in &ways {
        assert!(text.contains(IMAGE_REGISTRY.split('/').next().unwrap()));
    }
    for image in [operator_image(), server_image()] {
        assert!(ways[0].contains(&image), "{image}");
        assert!(ways[1].contains(&image), "{image}");
        assert!(ways[2].contains(&image), "{image}");
    }
}
