//! The objects that the examples make stand beside a kyverno/reports-server: none of them has a
//! name that its manifests give to one.

use crds::v1alpha1::ReportsServer;
use serde::Deserialize as _;
use serde_json::Value;

use super::{all, build, material, operator};
use crate::cert_manager;
use crate::controller::fixtures::read;
use crate::controller::found::{Dereferenced, Inside, ServingFound};
use crate::controller::validate::validate;
use crate::database::cloudnativepg;
use crate::database::managed::Known;

/// The namespace of a kyverno/reports-server, and the name of most of its objects.
const INCUMBENT: &str = "reports-server";
/// The names of its other objects, in `config/install.yaml` and `config/install-etcd.yaml`.
const MORE: [&str; 4] = [
    "etcd",
    "reports-server-headless",
    "reports-server-postgresql",
    "reports-server-postgresql-hl",
];

/// Returns the `ReportsServer` of every example, with the name of its file.
fn examples() -> Vec<(String, ReportsServer)> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../manifests/examples");
    let files = std::fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let of_file = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        let objects: Vec<Value> = serde_yaml::Deserializer::from_str(&text)
            .map(|document| Value::deserialize(document).unwrap())
            .filter(|object: &Value| object["kind"] == "ReportsServer")
            .collect();
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        objects.into_iter().map(move |mut object| {
            object["metadata"]["uid"] = "uid-1".into();
            (file.clone(), serde_json::from_value(object).unwrap())
        })
    };
    files.flat_map(of_file).collect()
}

/// Returns every child of an example, in a cluster that has the CRDs of `CloudNativePG` and
/// cert-manager.
fn children_of(example: &ReportsServer) -> Vec<(&'static str, Value)> {
    let inside = Inside {
        material: material(),
        serving: ServingFound {
            cert_manager: Some(cert_manager::Found {
                crd: true,
                certificate: None,
            }),
            ..ServingFound::default()
        },
        managed: Some(Known::default()),
        cloud_native_pg: Some(cloudnativepg::Found {
            crd: true,
            cluster: None,
        }),
        ..Inside::default()
    };
    let found = Dereferenced { inside, ..read() };
    let spec = validate(example, &found).unwrap();
    all(build(&spec, &material(), &operator()))
}

#[test]
fn no_example_makes_an_object_by_the_name_of_one_of_the_incumbents() {
    let examples = examples();
    assert!(examples.len() >= 20, "{examples:?}");
    for (file, example) in examples {
        assert_ne!(example.spec.target_namespace, INCUMBENT, "{file}");
        let children = children_of(&example);
        assert!(children.len() > 10, "{file}: {children:?}");
        for (child, object) in children {
            let name = object["metadata"]["name"].as_str().unwrap();
            let taken = name == INCUMBENT || MORE.contains(&name);
            assert!(!taken, "{file}: {child} {name}");
            let namespace = &object["metadata"]["namespace"];
            assert_ne!(*namespace, INCUMBENT, "{file}: {child} {name}");
        }
    }
}

/// The groups' APIServices name the same Service as that of the control API.
#[test]
fn the_apiservices_of_an_example_lead_to_a_service_of_its_own() {
    for (file, example) in examples() {
        let children = children_of(&example);
        let of = |wanted: &str| {
            let found = children.iter().find(|(child, _)| *child == wanted);
            found.unwrap().1.clone()
        };
        let service = of("control_api")["spec"]["service"].clone();
        assert_eq!(service["name"], of("service")["metadata"]["name"], "{file}");
        assert_ne!(service["name"], INCUMBENT, "{file}");
        assert_eq!(
            service["namespace"], example.spec.target_namespace,
            "{file}"
        );
    }
}
