//! A user who may do what the installed operator may, or less.

use anyhow::Context as _;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde::Deserialize as _;
use serde_json::{Value, json};

/// The user, and the name of role and binding.
pub const USER: &str = "migrator";
const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../manifests/install.yaml");

/// Rights that a migration cannot do without, there or back: verb and resource.
pub const NEEDED: [(&str, &str); 2] = [
    ("patch", "customresourcedefinitions"),
    ("delete", "apiservices"),
];

/// Lets [`USER`] do what the installed roles say, without the rights `but`.
pub async fn grant(admin: &Client, but: Option<&[(&str, &str)]>) -> anyhow::Result<()> {
    let mut rules = installed()?;
    for (verb, resource) in but.into_iter().flatten() {
        let of_resource = |rule: &&mut PolicyRule| {
            let mut resources = rule.resources.iter().flatten();
            resources.any(|one| one == resource)
        };
        let of_resource = rules.iter_mut().filter(of_resource);
        of_resource.for_each(|rule| rule.verbs.retain(|one| one != verb));
    }
    rules.retain(|rule| !rule.verbs.is_empty());
    let params = PatchParams::apply("test").force();
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": USER}, "rules": rules});
    let cluster_roles: Api<ClusterRole> = Api::all(admin.clone());
    cluster_roles
        .patch(USER, &params, &Patch::Apply(role))
        .await?;
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding", "metadata": {"name": USER},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": USER},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}]});
    let bindings: Api<ClusterRoleBinding> = Api::all(admin.clone());
    bindings
        .patch(USER, &params, &Patch::Apply(binding))
        .await?;
    Ok(())
}

/// The rules of every role of the operator, those of namespaces for all of them.
fn installed() -> anyhow::Result<Vec<PolicyRule>> {
    let text = std::fs::read_to_string(MANIFEST).context(MANIFEST)?;
    let mut rules = Vec::new();
    for document in serde_yaml::Deserializer::from_str(&text) {
        let mut object = Value::deserialize(document)?;
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let is_role = matches!(object["kind"].as_str(), Some("ClusterRole" | "Role"));
        if is_role && name.starts_with("reports-server-operator") && object["rules"].is_array() {
            let found: Vec<PolicyRule> = serde_json::from_value(object["rules"].take())?;
            rules.extend(found);
        }
    }
    Ok(rules)
}
