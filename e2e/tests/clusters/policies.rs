//! The admission policies of `manifests/security`, on a control plane without nodes: whoever asks for
//! a server gets nothing by it that RBAC does not give, and the operator's account cannot spread its
//! rights.

use std::time::Duration;

use crds::names::LABEL_TARGET;
use crds::v1alpha1::reports_server_crd;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::await_condition;
use kube::{Api, ResourceExt as _};
use reports_server_operator::manifests;
use reports_server_operator::names::{
    AUTH_DELEGATOR, OPERAND_CLUSTER_ROLE, OPERATOR, OPERATOR_NAMESPACE,
};
use serde_json::{Value, json};
use testcluster::{Cluster, ClusterOptions};

const LIMIT: Duration = Duration::from_mins(1);
const PAUSE: Duration = Duration::from_millis(500);
/// A namespace with the label, in which the user may do what a server needs.
const TEAM: &str = "team";
/// A namespace with the label, in which the user may do nothing.
const OTHER: &str = "other";
/// A namespace without the label.
const CLOSED: &str = "closed";
const USER: &str = "jane";

#[tokio::test]
async fn rights_give_no_more_than_they_say() {
    let cluster = Cluster::start(ClusterOptions::default()).await.unwrap();
    lay(&cluster).await;
    in_force(&cluster).await;
    for (what, spec, refused) in asked() {
        let said = ask(&cluster, Some(USER), spec.clone()).await;
        expect(what, said, refused);
        if what != "of Kubernetes" {
            let said = ask(&cluster, None, spec).await;
            expect(what, said, None);
        }
    }
    for (arguments, refused) in bound() {
        let said = binds(&cluster, &arguments).await;
        expect(&arguments.join(" "), said, refused);
    }
}

/// The installation, the policies, and a user who may create `ReportsServer`s.
async fn lay(cluster: &Cluster) {
    for text in [
        manifests::install().unwrap(),
        manifests::admission_policies().unwrap(),
    ] {
        let applied = cluster
            .kubectl_with_input(["apply", "-f", "-"], &text)
            .await;
        applied.unwrap();
    }
    let crds: Api<CustomResourceDefinition> = Api::all(cluster.client().await.unwrap());
    let name = reports_server_crd().unwrap().name_any();
    let established = await_condition(crds, &name, is_crd_established());
    established.await.unwrap();
    let namespace = |name: &str, label: &str| {
        json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {LABEL_TARGET: label}}})
    };
    let rbac = "rbac.authorization.k8s.io/v1";
    let subjects = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}]);
    let refer =
        |kind: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": USER});
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        namespace(TEAM, "true"),
        namespace(OTHER, "true"),
        namespace(CLOSED, "false"),
        {"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": USER}, "rules": [
            {"apiGroups": ["reports-server.io"], "resources": ["reportsservers"],
                "verbs": ["get", "create"]}]},
        {"apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": {"name": USER},
            "roleRef": refer("ClusterRole"), "subjects": subjects},
        {"apiVersion": rbac, "kind": "Role", "metadata": {"name": USER, "namespace": TEAM},
            "rules": [
                {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["create"]},
                {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]},
        {"apiVersion": rbac, "kind": "RoleBinding", "metadata": {"name": USER, "namespace": TEAM},
            "roleRef": refer("Role"), "subjects": subjects},
    ]});
    let applied = cluster
        .kubectl_with_input(["apply", "-f", "-"], &objects.to_string())
        .await;
    applied.unwrap();
}

/// Waits until both policies are asked, and the authorizer knows the user.
async fn in_force(cluster: &Cluster) {
    let everywhere = &bound()[0].0;
    let reached = async {
        loop {
            let asked = ask(
                cluster,
                Some(USER),
                json!({"targetNamespace": "kube-system"}),
            )
            .await;
            let binds = binds(cluster, everywhere).await;
            let plain = ask(cluster, Some(USER), json!({"targetNamespace": TEAM})).await;
            let refused = |said: &Result<String, String>, words: &str| {
                said.as_ref().is_err_and(|said| said.contains(words))
            };
            if refused(&asked, "belongs to Kubernetes")
                && refused(&binds, "binds no other role")
                && plain.is_ok()
            {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    let reached = tokio::time::timeout(LIMIT, reached).await;
    reached.expect("the policies are in force");
}

/// Returns specifications, each with its name and the words of its refusal.
fn asked() -> Vec<(&'static str, Value, Option<&'static str>)> {
    let server = |server: Value| json!({"targetNamespace": TEAM, "server": server});
    let pod = |spec: Value| server(json!({"podTemplate": {"spec": spec}}));
    let context = |context: Value| {
        pod(json!({"containers": [{"name": "server", "securityContext": context}]}))
    };
    let privileges = Some("privileges and ports of the host");
    vec![
        ("plain", server(json!({})), None),
        (
            "an ordinary template",
            pod(
                json!({"containers": [{"name": "server", "env": [{"name": "A", "value": "b"}]}],
                "volumes": [{"name": "a", "emptyDir": {}}]}),
            ),
            None,
        ),
        (
            "of Kubernetes",
            json!({"targetNamespace": "kube-system"}),
            Some("belongs to Kubernetes"),
        ),
        (
            "where the user may do nothing",
            json!({"targetNamespace": OTHER}),
            Some("needs the rights to create deployments"),
        ),
        (
            "a certificate",
            json!({"targetNamespace": TEAM, "tls": {"mode": "CertManager",
                "certManager": {"issuerRef": {"name": "corporate", "kind": "ClusterIssuer"}}}}),
            Some("needs the right to create certificates.cert-manager.io"),
        ),
        (
            "an account",
            server(json!({"serviceAccount": {"name": "default"}})),
            Some("impersonate the account"),
        ),
        (
            "processes",
            pod(json!({"hostPID": true})),
            Some("a namespace of the host"),
        ),
        (
            "network",
            pod(json!({"hostNetwork": true})),
            Some("a namespace of the host"),
        ),
        (
            "files",
            pod(json!({"volumes": [{"name": "a", "hostPath": {"path": "/"}}]})),
            Some("a path of the host"),
        ),
        ("all", context(json!({"privileged": true})), privileges),
        (
            "more",
            context(json!({"allowPrivilegeEscalation": true})),
            privileges,
        ),
        (
            "a capability",
            context(json!({"capabilities": {"add": ["SYS_ADMIN"]}})),
            privileges,
        ),
        (
            "a port",
            pod(json!({"containers": [{"name": "server",
                "ports": [{"containerPort": 1, "hostPort": 1}]}]})),
            privileges,
        ),
    ]
}

/// Bindings that RBAC lets the operator make, and the words of a refusal.
fn bound() -> Vec<(Vec<String>, Option<&'static str>)> {
    let operand = format!("--clusterrole={OPERAND_CLUSTER_ROLE}");
    let delegator = format!("--clusterrole={AUTH_DELEGATOR}");
    let itself = format!("--serviceaccount={OPERATOR_NAMESPACE}:{OPERATOR}");
    let theirs = format!("--serviceaccount={TEAM}:default");
    let of =
        |arguments: &[&str]| -> Vec<String> { arguments.iter().map(|a| (*a).to_owned()).collect() };
    let wide = |role: &str, account: &str| of(&["clusterrolebinding", "a", role, account]);
    let inside = |namespace: &str, role: &str, account: &str| {
        of(&["rolebinding", "a", "-n", namespace, role, account])
    };
    let label = Some("in a namespace with the label");
    vec![
        (wide(&operand, &itself), Some("binds no other role")),
        (wide(&delegator, &theirs), None),
        (
            wide(&delegator, "--user=jane"),
            Some("accounts of pods only"),
        ),
        (
            inside("kube-system", &operand, &itself),
            Some("in a namespace of Kubernetes"),
        ),
        (inside(CLOSED, &operand, &itself), label),
        (inside(TEAM, &operand, &theirs), label),
        (inside(TEAM, &operand, &itself), None),
    ]
}

/// Asks for a server without making one, as a user or as the administrator.
async fn ask(cluster: &Cluster, user: Option<&str>, spec: Value) -> Result<String, String> {
    let object = json!({"apiVersion": "reports-server.io/v1alpha1", "kind": "ReportsServer",
        "metadata": {"name": "asked"}, "spec": spec});
    let mut arguments = vec!["create", "--dry-run=server", "-f", "-"];
    if let Some(user) = user {
        arguments.extend(["--as", user]);
    }
    let said = cluster
        .kubectl_with_input(arguments, &object.to_string())
        .await;
    said.map_err(|error| error.to_string())
}

/// Makes a binding as the operator, without keeping it.
async fn binds(cluster: &Cluster, arguments: &[String]) -> Result<String, String> {
    let account = format!("--as=system:serviceaccount:{OPERATOR_NAMESPACE}:{OPERATOR}");
    let mut all = vec!["create".to_owned()];
    all.extend_from_slice(arguments);
    all.extend(["--dry-run=server".to_owned(), account]);
    let said = cluster.kubectl(all).await;
    said.map_err(|error| error.to_string())
}

fn expect(what: &str, said: Result<String, String>, refused: Option<&str>) {
    match (said, refused) {
        (Ok(_), None) => {}
        (Err(said), Some(words)) => assert!(said.contains(words), "{what}: {said}"),
        (said, refused) => panic!("{what}: {said:?} instead of {refused:?}"),
    }
}
