//! The bundle, by the rules of OLM v0 and of OLM v1, whose newest releases cannot be built here.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    MIRROR, annotation, documents, examples, files, images, list, objects, olm, related,
    service_version, text,
};
use crate::manifests::olm::release;
use crate::names::IMAGE_REGISTRY;

/// The kinds of our bundle; OLM installs all of them.
const HELD: [&str; 6] = [
    "ClusterRole",
    "ClusterServiceVersion",
    "CustomResourceDefinition",
    "Role",
    "RoleBinding",
    "Service",
];

/// Fields of a `ClusterServiceVersion` with which OLM v1 refuses it, or OLM v0 does what the operator
/// does: it would register APIs by itself.
const NEVER: [&str; 4] = [
    "/spec/apiservicedefinitions",
    "/spec/webhookdefinitions",
    "/spec/customresourcedefinitions/required",
    "/spec/nativeAPIs",
];

#[test]
fn a_bundle_has_its_folders_and_annotations() {
    let files = files();
    let annotations = documents(&files, "bundle/metadata/annotations.yaml").remove(0);
    for (key, expected) in [
        ("mediatype.v1", "registry+v1"),
        ("manifests.v1", "manifests/"),
        ("metadata.v1", "metadata/"),
        ("package.v1", release::PACKAGE),
        ("channels.v1", release::CHANNEL),
        ("channel.default.v1", release::CHANNEL),
    ] {
        let key = format!("operators.operatorframework.io.bundle.{key}");
        assert_eq!(annotations["annotations"][&key], expected, "{key}");
    }
    // OLM reads the labels of the image first.
    let image = &files["bundle.Containerfile"];
    for (key, value) in annotations["annotations"].as_object().unwrap() {
        let label = format!("LABEL {key}={}\n", value.as_str().unwrap());
        assert!(image.contains(&label), "{label}");
    }
    // By convention: what is promised of upgrades within it.
    let known = ["candidate", "fast", "stable"];
    assert!(known.iter().any(|name| release::CHANNEL.starts_with(name)));
    let scorecard = documents(&files, "bundle/tests/scorecard/config.yaml").remove(0);
    assert_eq!(list(&scorecard, "/stages/0/tests").len(), 6);
    // OLM v1 resolves no dependencies.
    for path in files.keys() {
        assert!(!path.ends_with("dependencies.yaml"), "{path}");
        assert!(!path.ends_with("properties.yaml"), "{path}");
    }
}

#[test]
fn the_name_is_that_of_the_version() {
    let version = service_version(&files());
    let name = text(&version, "/metadata/name");
    let number = text(&version, "/spec/version");
    assert_eq!(name, format!("reports-server-operator.v{number}"));
    assert_eq!(number, env!("CARGO_PKG_VERSION"));
    // It becomes the value of a label.
    assert!(name.len() <= 63, "{name}");
}

/// The APIs of reports are of the whole cluster, and OLM v1 knows no other mode.
#[test]
fn it_is_installed_for_all_namespaces_only() {
    let version = service_version(&files());
    let modes = list(&version, "/spec/installModes");
    assert_eq!(modes.len(), 4);
    for mode in modes {
        let all = mode["type"] == "AllNamespaces";
        assert_eq!(mode["supported"], all, "{mode}");
    }
}

#[test]
fn nothing_is_in_it_that_olm_refuses_or_takes_over() {
    let files = files();
    let version = service_version(&files);
    for pointer in NEVER {
        assert_eq!(version.pointer(pointer), None, "{pointer}");
    }
    let mut seen = BTreeSet::new();
    for (path, object) in objects(&files) {
        let kind = text(&object, "/kind");
        assert!(HELD.contains(&kind), "{path}: {kind}");
        assert_eq!(object.pointer("/metadata/namespace"), None, "{path}");
        assert_eq!(object.pointer("/aggregationRule"), None, "{path}");
        let name = text(&object, "/metadata/name").to_owned();
        assert!(
            seen.insert((kind.to_owned(), name)),
            "{path} is there twice"
        );
    }
}

/// OLM grants a `permission` in the whole cluster, as the mode is for all namespaces: the operator
/// would write every `ConfigMap`.
#[test]
fn rights_in_the_own_namespace_stay_there() {
    let files = files();
    let version = service_version(&files);
    let install = &version["spec"]["install"]["spec"];
    assert_eq!(install.get("permissions"), None);
    let granted = list(install, "/clusterPermissions");
    assert_eq!(granted.len(), 1);
    for rule in list(&granted[0], "/rules") {
        let resources = rule["resources"].as_array().into_iter().flatten();
        let resources: Vec<&Value> = resources.collect();
        let names = |wanted: &str| resources.iter().any(|resource| **resource == wanted);
        assert!(!names("configmaps") && !names("secrets"), "{rule}");
        // Those of the kube-apiservers are counted.
        let only_lists = list(rule, "/verbs").iter().all(|verb| verb == "list");
        assert!(!names("leases") || only_lists, "{rule}");
    }
    let roles = objects(&files);
    let roles = roles.iter().filter(|(_, object)| object["kind"] == "Role");
    assert_eq!(roles.count(), 1);
}

#[test]
fn every_rule_has_its_reason_beside_it() {
    let files = files();
    let path = "bundle/manifests/reports-server-operator.clusterserviceversion.yaml";
    let lines: Vec<&str> = files[path].lines().map(str::trim_start).collect();
    let rules = lines.iter().enumerate();
    let rules = rules.filter(|(_, line)| line.starts_with("- apiGroups:"));
    let mut found = 0;
    for (index, line) in rules {
        assert!(lines[index - 1].starts_with("# "), "line {index}: {line}");
        found += 1;
    }
    assert!(found > 15, "{found}");
}

/// The rules of OLM v1 for what a `ClusterServiceVersion` refers to.
#[test]
fn what_is_referred_to_is_there_once() {
    let files = files();
    let version = service_version(&files);
    let held = objects(&files);
    let crds = held.iter().map(|(_, object)| object);
    let crds = crds.filter(|object| object["kind"] == "CustomResourceDefinition");
    let names: Vec<&str> = crds.map(|crd| text(crd, "/metadata/name")).collect();
    let owned = list(&version, "/spec/customresourcedefinitions/owned");
    let owned: Vec<&str> = owned.iter().map(|crd| text(crd, "/name")).collect();
    assert_eq!(names, owned);
    let install = &version["spec"]["install"]["spec"];
    let deployments = list(install, "/deployments");
    assert_eq!(deployments.len(), 1);
    let pod = &deployments[0]["spec"]["template"]["spec"];
    let account = &install["clusterPermissions"][0]["serviceAccountName"];
    assert_eq!(pod["serviceAccountName"], *account);
}

/// Mirrors copy what is listed, and nothing else.
#[test]
fn every_image_is_listed_and_honours_a_mirror() {
    for registry in [None, Some(MIRROR)] {
        let files = olm(&examples(), registry).unwrap();
        let version = service_version(&files);
        let mut run = BTreeSet::new();
        for deployment in list(&version, "/spec/install/spec/deployments") {
            images(&deployment["spec"]["template"]["spec"], &mut run);
        }
        assert_eq!(run.len(), 3, "{run:?}");
        let listed = related(list(&version, "/spec/relatedImages"));
        assert_eq!(run, listed);
        assert!(run.contains(annotation(&version, "containerImage")));
        if let Some(registry) = registry {
            let all = files.values().flat_map(|text| text.split_whitespace());
            let elsewhere = [IMAGE_REGISTRY, "docker.io"];
            for word in all {
                let foreign = elsewhere.iter().any(|other| word.starts_with(other));
                assert!(!foreign, "{word} is not in {registry}");
            }
        }
    }
}

/// OLM v0 keeps an unpacked bundle in a `ConfigMap`, which takes a mebibyte.
#[test]
fn the_bundle_fits_into_an_object() {
    let files = files();
    let bundle = files.iter();
    let bundle = bundle.filter(|(path, _)| path.starts_with("bundle/"));
    let bytes: usize = bundle.map(|(_, text)| text.len()).sum();
    assert!(bytes < 700_000, "{bytes} bytes");
}
