//! OLM: the objects that it makes of the bundle, by its rules, and those that are applied beside it.

use std::path::Path;

use reports_server_operator::manifests::{self, Files};
use reports_server_operator::names::{
    METRICS_ACCESS_CLUSTER_ROLE, OPERATOR, OPERATOR_NAMESPACE, REPORTS_CLUSTER_ROLE,
};
use serde_json::{Value, json};

use super::objects::{Objects, images, of_kind, parse};
use super::{MIRROR, installed, mirrored};

/// Returns the files for OLM.
fn files(registry: Option<&str>) -> Files {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests/examples");
    let entries = std::fs::read_dir(folder).unwrap();
    let examples = entries.map(|entry| {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        (name, std::fs::read_to_string(entry.path()).unwrap())
    });
    manifests::olm(&examples.collect(), registry).unwrap()
}

/// Returns what is in a cluster after the installation: what OLM makes of the bundle, and what is
/// applied beside. The names of the role and binding that OLM makes are those of the manifest here.
fn rendered(files: &Files) -> Vec<Value> {
    let mut objects = parse(&files["beside.yaml"]);
    for (_, text) in files.range("bundle/manifests/".to_owned().."bundle/metadata/".to_owned()) {
        for object in parse(text) {
            if object["kind"] == "ClusterServiceVersion" {
                objects.extend(made(&object["spec"]["install"]["spec"]));
            } else {
                objects.push(placed(object));
            }
        }
    }
    objects
}

/// Returns the objects that OLM makes of an install strategy.
fn made(install: &Value) -> Vec<Value> {
    let mut objects = Vec::new();
    for permission in install["clusterPermissions"].as_array().unwrap() {
        let account = &permission["serviceAccountName"];
        objects.push(json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": account, "namespace": OPERATOR_NAMESPACE},
        }));
        objects.push(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": OPERATOR},
            "rules": permission["rules"],
        }));
        objects.push(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": OPERATOR},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": OPERATOR,
            },
            "subjects": [{
                "kind": "ServiceAccount",
                "name": account,
                "namespace": OPERATOR_NAMESPACE,
            }],
        }));
    }
    for deployment in install["deployments"].as_array().unwrap() {
        objects.push(json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": deployment["name"],
                "namespace": OPERATOR_NAMESPACE,
                "labels": deployment["label"],
            },
            "spec": deployment["spec"],
        }));
    }
    objects
}

/// Returns an object of the bundle in the namespace of the installation.
fn placed(mut object: Value) -> Value {
    let namespaced = ["Role", "RoleBinding", "Service"];
    if namespaced.contains(&object["kind"].as_str().unwrap()) {
        object["metadata"]["namespace"] = json!(OPERATOR_NAMESPACE);
    }
    object
}

/// Returns the objects of the manifest as OLM has them: the operator's rules on reports, and those on
/// readers of its metrics, are among its own, in no roles beside it; and what OLM makes by itself has no
/// labels, and a token in no pod that does not ask for it.
fn expected(manifest: Vec<Value>) -> Vec<Value> {
    let (granted, mut objects): (Vec<Value>, Vec<Value>) =
        manifest.into_iter().partition(|object| {
            let labels = object["metadata"]["labels"].as_object();
            let is_gathered = labels.is_some_and(|labels| {
                labels
                    .keys()
                    .any(|key| key.ends_with("/aggregate-to-operator"))
            });
            is_gathered || object["metadata"]["name"] == METRICS_ACCESS_CLUSTER_ROLE
        });
    let more: Vec<Value> = granted
        .iter()
        .filter(|object| object["kind"] == "ClusterRole")
        .flat_map(|role| role["rules"].as_array().unwrap().clone())
        .collect();
    // Two roles, and a binding.
    assert_eq!(granted.len(), 3);
    for object in &mut objects {
        let kind = object["kind"].as_str().unwrap().to_owned();
        let by_olm = ["ClusterRole", "ClusterRoleBinding", "ServiceAccount"];
        if object["metadata"]["name"] != OPERATOR || !by_olm.contains(&kind.as_str()) {
            continue;
        }
        object["metadata"].as_object_mut().unwrap().remove("labels");
        match kind.as_str() {
            "ClusterRole" => {
                object["rules"].as_array_mut().unwrap().extend(more.clone());
            }
            "ServiceAccount" => {
                let fields = object.as_object_mut().unwrap();
                fields.remove("automountServiceAccountToken");
            }
            _ => {}
        }
    }
    objects
}

#[test]
fn olm_installs_what_the_manifest_does() {
    let objects = rendered(&files(None));
    assert_eq!(Objects::of(&objects), Objects::of(&expected(installed())));
    let objects = rendered(&files(Some(MIRROR)));
    assert_eq!(Objects::of(&objects), Objects::of(&expected(mirrored())));
    for image in images(&objects) {
        assert!(image.starts_with(MIRROR), "{image}");
    }
}

/// Whoever brings rights on another report group finds the role that gathers them.
#[test]
fn what_a_bundle_cannot_hold_is_beside_it() {
    let beside = parse(&files(None)["beside.yaml"]);
    let gathers = of_kind(&beside, "ClusterRole");
    assert_eq!(gathers.len(), 1);
    assert_eq!(gathers[0]["metadata"]["name"], REPORTS_CLUSTER_ROLE);
    assert!(gathers[0]["aggregationRule"].is_object());
    let bound = of_kind(&beside, "ClusterRoleBinding");
    assert_eq!(bound[0]["roleRef"]["name"], REPORTS_CLUSTER_ROLE);
    for kind in ["Namespace", "ResourceQuota", "ValidatingAdmissionPolicy"] {
        assert_eq!(of_kind(&beside, kind).len(), 1, "{kind}");
    }
    assert_eq!(of_kind(&beside, "Deployment").len(), 0);
}
