//! `manifests/security/policies.yaml`: admission policies that say at the kube-apiserver what the
//! operator decides too, and what RBAC cannot say about the operator itself.

use crds::names::LABEL_TARGET;
use serde_json::{Value, json};

use crate::names::{
    AUTH_DELEGATOR, AUTH_READER, KUBE_SYSTEM, OPERAND_CLUSTER_ROLE, SERVER_CLUSTER_ROLE,
};

/// The checks of those who ask for a server.
const ASKED: &str = "reports-server-asked-for";
/// The checks of the operator's bindings.
const BINDINGS: &str = "reports-server-operator-bindings";
const ADMISSION: &str = "admissionregistration.k8s.io/v1";

/// An expression that has to hold, and what is said where it does not.
type Rule = (String, &'static str);

/// Returns both policies, each with its binding. The operator is known by the name of its account,
/// in any namespace, so that no text has to follow where the namespace is changed.
pub(super) fn objects(account: &str) -> Vec<Value> {
    let mut objects = policy(
        ASKED,
        &json!({"apiGroups": ["reports-server.io"], "apiVersions": ["*"],
            "operations": ["CREATE", "UPDATE"], "resources": ["reportsservers"]}),
        // The operator sets and removes the finalizer.
        &json!([{"name": "changed",
            "expression": "request.operation == 'CREATE' || object.spec != oldObject.spec"}]),
        &variables(),
        asked(),
    );
    objects.extend(policy(
        BINDINGS,
        &json!({"apiGroups": ["rbac.authorization.k8s.io"], "apiVersions": ["*"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["rolebindings", "clusterrolebindings"]}),
        &json!([
            {"name": "by-the-operator",
                "expression": format!(
                    "request.userInfo.username.startsWith('system:serviceaccount:') && \
                     request.userInfo.username.endsWith(':{account}')")},
            {"name": "changed", "expression": "request.operation == 'CREATE' || \
                object.roleRef != oldObject.roleRef || object.subjects != oldObject.subjects"},
        ]),
        &json!([]),
        bindings(),
    ));
    objects
}

fn policy(
    name: &str,
    resources: &Value,
    conditions: &Value,
    variables: &Value,
    rules: Vec<Rule>,
) -> Vec<Value> {
    let validations: Vec<Value> = rules
        .into_iter()
        .map(|(expression, message)| {
            json!({"expression": expression, "message": message, "reason": "Forbidden"})
        })
        .collect();
    vec![
        json!({"apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [resources]},
                "matchConditions": conditions, "variables": variables,
                "validations": validations}}),
        json!({"apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]}}),
    ]
}

fn variables() -> Value {
    json!([
        {"name": "pod", "expression": "object.spec.?server.?podTemplate.?spec.orValue({})"},
        {"name": "account", "expression": "object.spec.?server.?serviceAccount.?name.orValue('')"},
        {"name": "containers", "expression":
            "variables.pod.?containers.orValue([]) + variables.pod.?initContainers.orValue([])"},
        {"name": "trusted", "expression":
            "authorizer.group('reports-server.io').resource('reportsservers')\
             .check('host-access').allowed()"},
    ])
}

fn asked() -> Vec<Rule> {
    let may = |group: &str, resource: &str, verb: &str| {
        format!(
            "authorizer.group('{group}').resource('{resource}')\
             .namespace(object.spec.targetNamespace).check('{verb}').allowed()"
        )
    };
    vec![
        (
            "!object.spec.targetNamespace.startsWith('kube-')".to_owned(),
            "spec.targetNamespace: belongs to Kubernetes",
        ),
        (
            format!(
                "{} && {}",
                may("apps", "deployments", "create"),
                may("", "secrets", "get")
            ),
            "spec.targetNamespace: needs the rights to create deployments and to get secrets there",
        ),
        (
            format!(
                "object.spec.?tls.?mode.orValue('') != 'CertManager' || {}",
                may("cert-manager.io", "certificates", "create")
            ),
            "spec.tls.certManager: needs the right to create certificates.cert-manager.io there",
        ),
        (
            "variables.account == '' || authorizer.group('').resource('serviceaccounts')\
             .namespace(object.spec.targetNamespace).name(variables.account)\
             .check('impersonate').allowed()"
                .to_owned(),
            "spec.server.serviceAccount.name: needs the right to impersonate the account",
        ),
        (
            "variables.trusted || !(variables.pod.?hostPID.orValue(false) || \
             variables.pod.?hostIPC.orValue(false) || variables.pod.?hostNetwork.orValue(false))"
                .to_owned(),
            "spec.server.podTemplate: a namespace of the host needs the verb host-access",
        ),
        (
            "variables.trusted || \
             variables.pod.?volumes.orValue([]).all(v, !has(v.hostPath))"
                .to_owned(),
            "spec.server.podTemplate: a path of the host needs the verb host-access",
        ),
        (
            "variables.trusted || variables.containers.all(c, \
             !c.?securityContext.?privileged.orValue(false) && \
             !c.?securityContext.?allowPrivilegeEscalation.orValue(false) && \
             c.?securityContext.?procMount.orValue('Default') == 'Default' && \
             c.?securityContext.?capabilities.?add.orValue([]).all(a, a == 'NET_BIND_SERVICE') && \
             c.?ports.orValue([]).all(p, p.?hostPort.orValue(0) == 0))"
                .to_owned(),
            "spec.server.podTemplate: privileges and ports of the host need the verb host-access",
        ),
    ]
}

fn bindings() -> Vec<Rule> {
    let cluster_wide = "request.resource.resource == 'clusterrolebindings'";
    vec![
        (
            format!(
                "!({cluster_wide}) || \
                 object.roleRef.name in ['{AUTH_DELEGATOR}', '{SERVER_CLUSTER_ROLE}']"
            ),
            "the operator binds no other role in the whole cluster",
        ),
        (
            format!(
                "{cluster_wide} || !object.metadata.namespace.startsWith('kube-') || \
                 (object.metadata.namespace == '{KUBE_SYSTEM}' && \
                 object.roleRef.kind == 'Role' && object.roleRef.name == '{AUTH_READER}')"
            ),
            "the operator binds no other role in a namespace of Kubernetes",
        ),
        (
            format!(
                "{cluster_wide} || object.roleRef.kind != 'ClusterRole' || \
                 (object.roleRef.name == '{OPERAND_CLUSTER_ROLE}' && \
                 object.subjects.all(s, s.kind == 'ServiceAccount' && \
                 request.userInfo.username == \
                 'system:serviceaccount:' + s.namespace + ':' + s.name) && \
                 has(namespaceObject.metadata.labels) && \
                 '{LABEL_TARGET}' in namespaceObject.metadata.labels && \
                 namespaceObject.metadata.labels['{LABEL_TARGET}'] == 'true')"
            ),
            "the operator binds its role for target namespaces to itself only, in a namespace with \
             the label",
        ),
        (
            "object.subjects.all(s, s.kind == 'ServiceAccount')".to_owned(),
            "the operator gives rights to accounts of pods only",
        ),
    ]
}
