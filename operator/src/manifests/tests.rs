//! The rendered text, read back as a cluster would get it.

use std::collections::BTreeSet;
use std::process::Command;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde::Deserialize as _;
use serde_json::Value;

use super::install;
use crate::names::{
    AUTH_DELEGATOR, AUTH_READER, OPERAND_CLUSTER_ROLE, OPERATOR_CONFIG, OPERATOR_NAMESPACE,
    SERVER_CLUSTER_ROLE,
};
use crate::security;

fn objects() -> Vec<Value> {
    let text = install().unwrap();
    let documents = serde_yaml::Deserializer::from_str(&text);
    documents
        .map(|document| Value::deserialize(document).unwrap())
        .collect()
}

fn of_kind(kind: &str) -> Vec<Value> {
    objects()
        .into_iter()
        .filter(|object| object["kind"] == kind)
        .collect()
}

fn rules(object: &Value) -> Vec<PolicyRule> {
    serde_json::from_value(object["rules"].clone()).unwrap_or_default()
}

#[test]
fn every_pod_passes_the_restricted_standard() {
    let deployments = of_kind("Deployment");
    assert_eq!(deployments.len(), 1);
    for object in deployments {
        let deployment: Deployment = serde_json::from_value(object).unwrap();
        let pod = deployment.spec.unwrap().template.spec.unwrap();
        assert_eq!(security::violations(&pod), Vec::<String>::new());
    }
}

/// Two operators, on two nodes where there are two. No budget holds up whoever drains the only node, and
/// a cluster that restricts the priority class finds a quota that admits it.
#[test]
fn an_operator_is_at_work_while_nodes_come_and_go() {
    let only = |kind: &str| {
        let mut found = of_kind(kind);
        assert_eq!(found.len(), 1, "{kind}");
        found.remove(0)
    };
    let (deployment, quota) = (only("Deployment"), only("ResourceQuota"));
    assert!(of_kind("PodDisruptionBudget").is_empty());
    assert_eq!(deployment["spec"]["replicas"], 2);
    let selector = &deployment["spec"]["selector"];
    let pod = &deployment["spec"]["template"]["spec"];
    let apart = &pod["affinity"]["podAntiAffinity"];
    // A wish, as a condition would leave one without a place on a cluster of one node.
    assert_eq!(apart.as_object().unwrap().len(), 1);
    let wish = &apart["preferredDuringSchedulingIgnoredDuringExecution"][0]["podAffinityTerm"];
    assert_eq!(wish["topologyKey"], "kubernetes.io/hostname");
    assert_eq!(wish["labelSelector"], *selector);
    let admitted = &quota["spec"]["scopeSelector"]["matchExpressions"][0];
    assert_eq!(admitted["values"][0], pod["priorityClassName"]);
    let namespace = &quota["metadata"]["namespace"];
    assert_eq!(*namespace, deployment["metadata"]["namespace"]);
}

/// The level of the operator's logs follows a `ConfigMap` that need not exist.
#[test]
fn the_file_of_the_log_level_is_a_key_of_the_operators_config() {
    let deployment = of_kind("Deployment").remove(0);
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let mount = &container["volumeMounts"][0];
    let file = format!("{}/logLevel", mount["mountPath"].as_str().unwrap());
    let args = container["args"].as_array().unwrap();
    let wanted = format!("--log-level-file={file}");
    assert!(args.iter().any(|arg| *arg == wanted.as_str()), "{args:?}");
    let volume = &pod["volumes"][0];
    assert_eq!(volume["name"], mount["name"]);
    assert_eq!(volume["configMap"]["name"], OPERATOR_CONFIG);
    assert_eq!(volume["configMap"]["optional"], true);
}

#[test]
fn every_rule_has_a_reason_beside_it() {
    let text = install().unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let mut found = 0;
    for (index, _) in lines
        .iter()
        .enumerate()
        .filter(|(_, l)| l.starts_with("- apiGroups:") || l.starts_with("- nonResourceURLs:"))
    {
        found += 1;
        assert!(
            lines[index - 1].starts_with("# "),
            "line {}: {}",
            index,
            lines[index]
        );
    }
    let expected: usize = ["Role", "ClusterRole"]
        .iter()
        .flat_map(|kind| of_kind(kind))
        .map(|o| rules(&o).len())
        .sum();
    assert_eq!(found, expected);
    assert!(found > 20, "{found}");
}

#[test]
fn no_rule_is_a_wildcard_and_none_can_escalate() {
    for object in ["Role", "ClusterRole"]
        .iter()
        .flat_map(|kind| of_kind(kind))
    {
        let name = object["metadata"]["name"].clone();
        for rule in rules(&object) {
            let all = [rule.api_groups, rule.resources, Some(rule.verbs.clone())];
            for value in all.into_iter().flatten().flatten() {
                assert!(!value.contains('*'), "{name}: {value}");
                assert!(
                    !["escalate", "impersonate"].contains(&value.as_str()),
                    "{name}: {value}"
                );
            }
            if rule.verbs.iter().any(|verb| verb == "bind") {
                assert!(rule.resource_names.is_some(), "{name}: bind without names");
            }
        }
    }
}

#[test]
fn secrets_are_reached_only_where_the_operand_role_is_bound() {
    for object in of_kind("ClusterRole") {
        let secrets = rules(&object).iter().any(|rule| {
            rule.resources
                .iter()
                .flatten()
                .any(|resource| resource == "secrets")
        });
        let operand = object["metadata"]["name"] == OPERAND_CLUSTER_ROLE;
        assert_eq!(secrets, operand, "{}", object["metadata"]["name"]);
    }
    for kind in ["ClusterRoleBinding", "RoleBinding"] {
        for object in of_kind(kind) {
            assert_ne!(object["roleRef"]["name"], OPERAND_CLUSTER_ROLE);
        }
    }
}

/// The operator writes no roles of the cluster, so none can be widened; what it binds is named.
#[test]
fn the_operator_binds_the_roles_of_its_servers_and_of_its_own() {
    let mut bound = BTreeSet::new();
    for rule in super::rules::cluster().into_iter().map(|r| r.rule) {
        let resources = rule.resources.unwrap_or_default();
        if rule.verbs.iter().any(|verb| verb == "bind") {
            bound.extend(rule.resource_names.unwrap());
        } else {
            assert!(!resources.iter().any(|resource| resource == "clusterroles"));
            assert!(!resources.iter().any(|resource| resource == "roles"));
        }
    }
    let expected = [
        AUTH_DELEGATOR,
        AUTH_READER,
        OPERAND_CLUSTER_ROLE,
        SERVER_CLUSTER_ROLE,
    ];
    let expected = BTreeSet::from(expected.map(str::to_owned));
    assert_eq!(bound, expected);
}

/// The installation grants every right that the preflight of a migration asks for.
#[test]
fn the_operator_has_every_right_that_a_migration_asks_for() {
    let own = |rules: Vec<super::rules::Reasoned>, namespace: Option<&'static str>| {
        rules
            .into_iter()
            .map(move |reasoned| (namespace, reasoned.rule))
    };
    let held: Vec<_> = own(super::rules::cluster(), None)
        .chain(own(super::rules::reports(), None))
        .chain(own(super::rules::own_namespace(), Some(OPERATOR_NAMESPACE)))
        .collect();
    let groups = super::rules::reports()
        .into_iter()
        .map(|reasoned| reasoned.rule);
    for rule in groups {
        let (group, plurals) = (rule.api_groups.unwrap(), rule.resources.unwrap());
        let namespace = OPERATOR_NAMESPACE;
        for right in crate::migration::rights::required(&group[0], &plurals, namespace) {
            let granted = held.iter().any(|(namespace, rule)| {
                let has = |list: &Option<Vec<String>>, value: &str| {
                    list.iter().flatten().any(|held| held == value)
                };
                (namespace.is_none() || *namespace == right.namespace.as_deref())
                    && rule.resource_names.is_none()
                    && has(&rule.api_groups, &right.group)
                    && has(&rule.resources, &right.resource)
                    && rule.verbs.iter().any(|verb| verb == right.verb)
            });
            assert!(granted, "{right}");
        }
    }
}

/// Returns the name of an object as `kubectl delete --output name` prints it.
fn printed(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).unwrap().as_str().unwrap();
    let (kind, name) = (text("/kind").to_lowercase(), text("/metadata/name"));
    match text("/apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

/// Whoever changes the way of installing keeps the CRD with each `ReportsServer`, and what the servers
/// need.
#[test]
fn the_command_of_the_page_leaves_what_a_server_needs() {
    let page = include_str!("../../../docs/uninstall.md");
    let (_, rest) = page.split_once("    grep ").unwrap();
    let (patterns, _) = rest.split_once(" |\n").unwrap();
    let all: Vec<String> = objects().iter().map(printed).collect();
    let script = format!("printf '%s\\n' \"$@\" | grep {patterns}");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, "sh"]).args(&all);
    let deleted = String::from_utf8(shell.output().unwrap().stdout).unwrap();
    let deleted: Vec<&str> = deleted.lines().collect();
    let kept: Vec<&String> = all
        .iter()
        .filter(|name| !deleted.contains(&name.as_str()))
        .collect();
    let expected = [
        format!("namespace/{OPERATOR_NAMESPACE}"),
        "customresourcedefinition.apiextensions.k8s.io/reportsservers.reports-server.io".to_owned(),
        format!("clusterrole.rbac.authorization.k8s.io/{SERVER_CLUSTER_ROLE}"),
    ];
    assert_eq!(kept, expected.iter().collect::<Vec<_>>());
    assert_eq!(deleted.len() + kept.len(), all.len());
}

/// `e2e/tests/clusters/policies.rs` applies them.
#[test]
fn every_policy_is_in_force_and_fails_closed() {
    let text = super::admission_policies().unwrap();
    let documents = serde_yaml::Deserializer::from_str(&text);
    let documents: Vec<Value> = documents
        .map(|document| Value::deserialize(document).unwrap())
        .collect();
    let (policies, bindings): (Vec<_>, Vec<_>) = documents
        .iter()
        .partition(|object| object["kind"] == "ValidatingAdmissionPolicy");
    assert_eq!(policies.len(), 2);
    for policy in policies {
        assert_eq!(policy["spec"]["failurePolicy"], "Fail");
        let name = &policy["metadata"]["name"];
        let bound = bindings.iter().any(|binding| {
            binding["spec"]["policyName"] == *name
                && binding["spec"]["validationActions"][0] == "Deny"
        });
        assert!(bound, "{name}");
    }
}

#[test]
fn bindings_refer_to_roles_that_are_installed() {
    let objects = objects();
    for kind in ["ClusterRoleBinding", "RoleBinding"] {
        for binding in of_kind(kind) {
            let role = &binding["roleRef"];
            let installed = objects.iter().any(|object| {
                object["kind"] == role["kind"]
                    && object["metadata"]["name"] == role["name"]
                    && (role["kind"] == "ClusterRole"
                        || object["metadata"]["namespace"] == binding["metadata"]["namespace"])
            });
            assert!(installed, "{role}");
        }
    }
}

#[test]
fn the_namespace_of_a_server_that_groups_depend_on_is_guarded() {
    let only = |kind: &str| {
        let found = of_kind(kind);
        assert_eq!(found.len(), 1, "{kind}");
        found[0].clone()
    };
    let policy = only("ValidatingAdmissionPolicy");
    let spec = &policy["spec"];
    let rule = &spec["matchConstraints"]["resourceRules"][0];
    assert_eq!(rule["operations"], serde_json::json!(["DELETE"]));
    assert_eq!(rule["resources"], serde_json::json!(["namespaces"]));
    assert_eq!(spec["failurePolicy"], "Ignore");
    let crd = only("CustomResourceDefinition");
    let served = &crd["spec"];
    let version = format!(
        "{}/{}",
        served["group"].as_str().unwrap(),
        served["versions"][0]["name"].as_str().unwrap()
    );
    assert_eq!(spec["paramKind"]["apiVersion"], version);
    assert_eq!(spec["paramKind"]["kind"], served["names"]["kind"]);
    let expression = spec["validations"][0]["expression"].as_str().unwrap();
    assert!(expression.contains(crds::names::FINALIZER), "{expression}");
    let binding = only("ValidatingAdmissionPolicyBinding");
    assert_eq!(binding["spec"]["policyName"], policy["metadata"]["name"]);
    assert_eq!(
        binding["spec"]["paramRef"],
        serde_json::json!({"selector": {}, "parameterNotFoundAction": "Allow"})
    );
}

/// Nothing in the installation lets the operator change a namespace: labels there decide what its
/// pods may do.
#[test]
fn the_operator_only_reads_namespaces() {
    for kind in ["Role", "ClusterRole"] {
        for object in of_kind(kind) {
            for rule in rules(&object) {
                let namespaces = rule.resources.iter().flatten().any(|r| r == "namespaces");
                let writes = |verb: &String| !["get", "list", "watch"].contains(&verb.as_str());
                assert!(!namespaces || !rule.verbs.iter().any(writes), "{object}");
            }
        }
    }
}

/// Returns the paths of all fields.
fn fields(value: &Value) -> BTreeSet<String> {
    let below = |name: String, value: &Value| {
        let inner = fields(value)
            .into_iter()
            .map(|path| format!("{name}/{path}"));
        inner.chain([name.clone()]).collect::<Vec<_>>()
    };
    match value {
        Value::Object(map) => map
            .iter()
            .flat_map(|(key, v)| below(key.clone(), v))
            .collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .flat_map(|(i, v)| below(i.to_string(), v))
            .collect(),
        _ => BTreeSet::new(),
    }
}

#[test]
fn examples_are_accepted_and_whole() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../manifests/examples");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let documents: Vec<Value> = serde_yaml::Deserializer::from_str(&text)
            .map(|document| Value::deserialize(document).unwrap())
            .collect();
        let server = documents
            .iter()
            .find(|object| object["kind"] == "ReportsServer")
            .unwrap();
        let namespace = &server["spec"]["targetNamespace"];
        let has = documents.iter().any(|object| {
            object["kind"] == "Namespace" && object["metadata"]["name"] == *namespace
        });
        assert!(has, "{}: brings its namespace along", path.display());
        let typed: crds::v1alpha1::ReportsServer = serde_json::from_value(server.clone()).unwrap();
        // A field that is misspelt would be lost on the way there and back.
        let back = serde_json::to_value(&typed).unwrap();
        assert_eq!(
            fields(&back["spec"]),
            fields(&server["spec"]),
            "{}",
            path.display()
        );
        assert_eq!(crds::v1alpha1::support::unsupported_fields(&typed.spec), []);
        names.push(path.file_name().unwrap().to_owned());
    }
    assert!(names.len() >= 20, "{names:?}");
}
