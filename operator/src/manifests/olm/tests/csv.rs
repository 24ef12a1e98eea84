//! The `ClusterServiceVersion`: everything is said, and said right.

use std::collections::BTreeSet;

use k8s_openapi::ByteString;
use serde_json::Value;

use super::{annotation, examples, files, list, service_version, text};
use crate::manifests::chart;
use crate::manifests::olm::csv::CHILDREN;
use crate::manifests::olm::release;
use crate::manifests::rules;

/// Fields of the specification whose schema below is Kubernetes'.
const OPAQUE: [&str; 4] = [
    "affinity",
    "resources",
    "tolerations",
    "topologySpreadConstraints",
];

/// Returns the paths of all fields below one.
fn fields(schema: &Value, path: &str, opaque: &[&str]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        if !opaque.contains(&name.as_str()) {
            found.extend(fields(field, &path, opaque));
            found.extend(fields(&field["items"], &format!("{path}[0]"), opaque));
        }
        found.insert(path);
    }
    found
}

#[test]
fn every_field_of_the_crd_has_a_descriptor_that_is_filled() {
    let version = service_version(&files());
    let owned = list(&version, "/spec/customresourcedefinitions/owned");
    let crd = crds::v1alpha1::reports_server_crd().unwrap();
    let crd = serde_json::to_value(crd).unwrap();
    let versions = list(&crd, "/spec/versions");
    assert_eq!(owned.len(), versions.len());
    for (owned, version) in owned.iter().zip(versions) {
        assert_eq!(owned["version"], version["name"]);
        text(owned, "/displayName");
        text(owned, "/description");
        for (part, key, opaque) in [
            ("spec", "/specDescriptors", &OPAQUE[..]),
            ("status", "/statusDescriptors", &OPAQUE[..0]),
        ] {
            let schema = &version["schema"]["openAPIV3Schema"]["properties"][part];
            let mut described = BTreeSet::new();
            for descriptor in list(owned, key) {
                let path = text(descriptor, "/path");
                assert!(
                    described.insert(format!(".{path}")),
                    "{path} is there twice"
                );
                for filled in ["/displayName", "/description", "/x-descriptors/0"] {
                    text(descriptor, filled);
                }
            }
            assert_eq!(described, fields(schema, "", opaque), "{part}");
            assert!(described.len() > 40, "{part}: {}", described.len());
        }
    }
}

#[test]
fn every_descriptor_of_the_release_is_filled() {
    let version = service_version(&files());
    for pointer in [
        "/spec/displayName",
        "/spec/description",
        "/spec/provider/name",
        "/spec/provider/url",
        "/spec/maintainers/0/name",
        "/spec/links/0/name",
        "/spec/maturity",
        "/spec/keywords/0",
    ] {
        text(&version, pointer);
    }
    for key in [
        "alm-examples",
        "containerImage",
        "support",
        "operatorframework.io/suggested-namespace",
        "features.operators.openshift.io/disconnected",
    ] {
        annotation(&version, key);
    }
    assert!(text(&version, "/spec/maintainers/0/email").contains('@'));
    assert!(text(&version, "/spec/links/0/url").starts_with("https://"));
    // Catalogs cut it there.
    assert!(annotation(&version, "description").len() <= 135);
}

/// Before a release there is no time to say.
#[test]
fn the_time_is_that_of_the_release() {
    let version = service_version(&files());
    let created = version["metadata"]["annotations"].get("createdAt");
    let created = created.map(|created| created.as_str().unwrap());
    assert_eq!(created, release::created_at().as_deref());
    if let Some(created) = created {
        assert!(created.parse::<jiff::Timestamp>().is_ok(), "{created}");
    }
}

/// A cluster without the registries pulls from mirrors what is named by a digest.
#[test]
fn disconnected_clusters_are_promised_only_with_digests() {
    let version = service_version(&files());
    let images = list(&version, "/spec/relatedImages");
    let by_digest = |image: &Value| text(image, "/image").contains("@sha256:");
    let promised = annotation(&version, "features.operators.openshift.io/disconnected");
    assert_eq!(promised, images.iter().all(by_digest).to_string());
}

#[test]
fn the_icon_is_one_square_picture() {
    let version = service_version(&files());
    let icons = list(&version, "/spec/icon");
    assert_eq!(icons.len(), 1);
    assert_eq!(icons[0]["mediatype"], "image/svg+xml");
    let data: ByteString = serde_json::from_value(icons[0]["base64data"].clone()).unwrap();
    let picture = String::from_utf8(data.0).unwrap();
    assert!(picture.starts_with("<svg "), "{picture}");
    assert!(picture.contains(r#"width="128" height="128""#), "{picture}");
}

/// The words that `operator-sdk bundle validate` knows.
#[test]
fn level_and_categories_are_known_ones() {
    let version = service_version(&files());
    let levels = [
        "Basic Install",
        "Seamless Upgrades",
        "Full Lifecycle",
        "Deep Insights",
        "Auto Pilot",
    ];
    let level = annotation(&version, "capabilities");
    assert!(levels.contains(&level), "{level}");
    let known = ["Database", "Monitoring", "Security"];
    for category in annotation(&version, "categories").split(',') {
        assert!(known.contains(&category), "{category}");
    }
}

/// Each way says the same of a release.
#[test]
fn level_and_kubernetes_are_those_of_the_chart() {
    let version = service_version(&files());
    let chart: Value = serde_yaml::from_str(&chart().unwrap()["Chart.yaml"]).unwrap();
    let level = text(&chart, "/annotations/artifacthub.io~1operatorCapabilities");
    assert_eq!(annotation(&version, "capabilities"), level);
    let oldest = text(&version, "/spec/minKubeVersion");
    assert_eq!(chart["kubeVersion"], format!(">={oldest}-0"));
    let module = include_str!("../../../../../testcluster/kubernetes-oldest/go.mod");
    let minor = oldest.trim_end_matches(".0");
    assert!(module.contains(&format!("k8s.io/kubernetes v{minor}.")));
}

/// Returns the rows of a section's tables.
fn rows<'a>(page: &'a str, section: &str) -> Vec<&'a str> {
    let (_, after) = page.split_once(section).unwrap();
    let section = after.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| "));
    rows.skip(1).collect()
}

/// `hack/house` looks for the functions that a page names.
#[test]
fn the_level_has_a_test_for_every_question() {
    let page = include_str!("../../../../../docs/capability-levels.md");
    let version = service_version(&files());
    let level = annotation(&version, "capabilities");
    assert!(page.contains(&format!("claims **{level}**")), "{level}");
    let rows = rows(page, &format!("\n## {level}\n"));
    assert!(rows.len() >= 9, "{rows:?}");
    for row in rows {
        let evidence = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        assert!(evidence.contains("()`"), "{row}");
    }
}

#[test]
fn every_example_is_offered_under_its_own_name() {
    let version = service_version(&files());
    let offered: Vec<Value> = serde_json::from_str(annotation(&version, "alm-examples")).unwrap();
    let mut names = BTreeSet::new();
    for example in &offered {
        assert_eq!(example["apiVersion"], "reports-server.io/v1alpha1");
        assert_eq!(example["kind"], "ReportsServer");
        names.insert(format!("{}.yaml", text(example, "/metadata/name")));
    }
    let files: BTreeSet<String> = examples().into_keys().collect();
    assert_eq!(names, files);
    assert_eq!(names.len(), offered.len());
    let first = annotation(&version, "operatorframework.io/initialization-resource");
    let first: Value = serde_json::from_str(first).unwrap();
    assert!(offered.contains(&first));
    assert_eq!(first["metadata"]["name"], "minimal");
}

/// Consoles show the children of the kinds that are named. Those of other projects need not exist.
#[test]
fn every_kind_of_child_is_named() {
    let foreign = [
        "cert-manager.io",
        "monitoring.coreos.com",
        "postgresql.cnpg.io",
    ];
    let plurals: Vec<String> = CHILDREN.iter().map(|(kind, _)| plural(kind)).collect();
    for rule in rules::operand().into_iter().map(|reasoned| reasoned.rule) {
        let groups = rule.api_groups.unwrap();
        if foreign.contains(&groups[0].as_str()) {
            continue;
        }
        for resource in rule.resources.unwrap() {
            assert!(plurals.contains(&resource), "{resource}");
        }
    }
}

fn plural(kind: &str) -> String {
    let lower = kind.to_lowercase();
    match lower.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{lower}s"),
    }
}
