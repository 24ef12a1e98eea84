//! Objects as a cluster has them, and whether they are named.

use crds::control::GateState;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::migration::cluster::door;
use crate::migration::observe::state::Observed;
use crate::migration::plan::tests as states;

const GROUP: &str = "wgpolicyk8s.io";

/// The writes of a namespaced resource with two versions, and of a cluster-scoped one.
fn requests() -> Requests {
    let mut requests = Requests::new(GROUP);
    let versions = ["v1alpha2".to_owned(), "v1beta1".to_owned()];
    requests.add("policyreports", true, versions.iter());
    requests.add("clusterpolicyreports", false, versions.iter().take(1));
    requests
}

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

/// A rule for `resources` of the group, as the kube-apiserver completes it.
fn rule(resources: &[&str]) -> Value {
    json!({"apiGroups": [GROUP], "apiVersions": ["v1alpha2"], "operations": ["CREATE", "UPDATE"],
        "resources": resources, "scope": "*"})
}

fn with(mut rule: Value, member: &str, value: Value) -> Value {
    rule[member] = value;
    rule
}

fn constraints(rules: &Value) -> Value {
    json!({"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {},
        "resourceRules": rules})
}

fn policy(name: &str, constraints: &Value) -> DynamicObject {
    object(json!({"apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
        "spec": {"failurePolicy": "Fail", "matchConstraints": constraints,
            "validations": [{"expression": "object.metadata.name != 'a'"}]}}))
}

fn binding(policy: &str, resources: Option<Value>) -> DynamicObject {
    let mut spec = json!({"policyName": policy, "validationActions": ["Audit"]});
    if let Some(resources) = resources {
        spec["matchResources"] = resources;
    }
    object(json!({"apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "binding"}, "spec": spec}))
}

fn webhook(name: &str, rules: &Value) -> DynamicObject {
    object(json!({"apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration", "metadata": {"name": name},
        "webhooks": [{"name": "a.example.com", "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "matchPolicy": "Equivalent", "timeoutSeconds": 3,
            "clientConfig": {"service": {"namespace": "n", "name": "s", "port": 443}},
            "rules": rules}]}))
}

fn quota(hard: &Value) -> DynamicObject {
    object(json!({"apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": "reports", "namespace": "team"}, "spec": {"hard": hard}}))
}

/// Returns the objects that are named, of those added in this order.
fn named(objects: Vec<(Kind, bool, DynamicObject)>) -> Vec<String> {
    let requests = requests();
    let mut found = Found::default();
    for (kind, binds, object) in objects {
        found.add(&requests, kind, binds, object);
    }
    found.finish(&requests).named
}

fn named_webhook(rules: &Value) -> Vec<String> {
    named(vec![(Kind::ValidatingWebhook, false, webhook("a", rules))])
}

/// Returns whether a policy is named that has one rule, and the binding's resources.
fn named_policy(constraints: &Value, bound: Option<Value>) -> bool {
    let objects = vec![
        (Kind::ValidatingPolicy, true, binding("a", bound)),
        (Kind::ValidatingPolicy, false, policy("a", constraints)),
    ];
    !named(objects).is_empty()
}

#[rstest]
#[case::by_name(rule(&["policyreports"]), true)]
#[case::another_resource(rule(&["pods"]), false)]
#[case::every_resource(rule(&["*"]), true)]
#[case::with_subresources(rule(&["*/*"]), true)]
#[case::its_subresources(rule(&["policyreports/*"]), true)]
#[case::only_a_subresource(rule(&["policyreports/status", "*/scale"]), false)]
#[case::another_group(with(rule(&["*"]), "apiGroups", json!(["apps", ""])), false)]
#[case::the_other_version(with(rule(&["policyreports"]), "apiVersions", json!(["v1beta1"])), true)]
#[case::not_of_this_resource(with(rule(&["clusterpolicyreports"]), "apiVersions", json!(["v1beta1"])), false)]
#[case::every_version(with(rule(&["policyreports"]), "apiVersions", json!(["*"])), true)]
#[case::no_served_version(with(rule(&["policyreports"]), "apiVersions", json!(["v1"])), false)]
#[case::deletions(with(rule(&["policyreports"]), "operations", json!(["DELETE"])), true)]
#[case::every_operation(with(rule(&["policyreports"]), "operations", json!(["*"])), true)]
#[case::connections(with(rule(&["policyreports"]), "operations", json!(["CONNECT"])), false)]
#[case::of_its_scope(with(rule(&["policyreports"]), "scope", json!("Namespaced")), true)]
#[case::of_the_other_scope(with(rule(&["policyreports"]), "scope", json!("Cluster")), false)]
#[case::one_of_both_scopes(with(rule(&["*"]), "scope", json!("Cluster")), true)]
#[case::without_a_scope(with(rule(&["policyreports"]), "scope", Value::Null), true)]
fn a_webhook_and_a_policy_are_named_where_a_rule_matches(
    #[case] rule: Value,
    #[case] matches: bool,
) {
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"],
        "resources": ["pods"]}, rule]);
    let expected: &[&str] = if matches {
        &["ValidatingWebhookConfiguration a"]
    } else {
        &[]
    };
    assert_eq!(named_webhook(&rules), expected);
    assert_eq!(named_policy(&constraints(&rules), None), matches);
}

#[test]
fn what_is_for_every_group_is_named_last_and_told_as_such() {
    let everything = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"],
        "operations": ["CREATE", "UPDATE"], "scope": "*"}]);
    let both = json!([everything[0], rule(&["policyreports"])]);
    let objects = vec![
        (
            Kind::ValidatingWebhook,
            false,
            webhook("gatekeeper", &everything),
        ),
        (Kind::MutatingWebhook, false, webhook("kyverno", &both)),
        (
            Kind::Quota,
            false,
            quota(&json!({"count/policyreports.wgpolicyk8s.io": "5"})),
        ),
    ];
    let expected = [
        "MutatingWebhookConfiguration kyverno",
        "ResourceQuota team/reports",
        "ValidatingWebhookConfiguration gatekeeper (a rule for every API group)",
    ];
    assert_eq!(named(objects), expected);
}

#[rstest]
#[case::counts_reports(json!({"count/policyreports.wgpolicyk8s.io": "100", "pods": "4"}), true)]
#[case::counts_others(json!({"count/policyreports.example.com": "100", "pods": "4"}), false)]
#[case::of_no_namespace(json!({"count/clusterpolicyreports.wgpolicyk8s.io": "1"}), false)]
#[case::nothing(json!({}), false)]
fn a_quota_is_named_where_it_counts_reports(#[case] hard: Value, #[case] counts: bool) {
    let named = named(vec![(Kind::Quota, false, quota(&hard))]);
    assert_eq!(!named.is_empty(), counts, "{named:?}");
}

#[test]
fn a_policy_counts_where_a_binding_puts_it_in_force() {
    let reports = || constraints(&json!([rule(&["policyreports"])]));
    let unbound = (Kind::ValidatingPolicy, false, policy("a", &reports()));
    assert_eq!(named(vec![unbound]), [""; 0]);
    let other = vec![
        (Kind::ValidatingPolicy, false, policy("a", &reports())),
        (Kind::ValidatingPolicy, true, binding("b", None)),
        // Bindings of the other kind of policy.
        (Kind::MutatingPolicy, true, binding("a", None)),
    ];
    assert_eq!(named(other), [""; 0]);
    // A binding without rules is for all that the policy is for.
    assert!(named_policy(&reports(), Some(constraints(&json!([])))));
    let deletions = with(rule(&["policyreports"]), "operations", json!(["DELETE"]));
    let bound = constraints(&json!([deletions]));
    assert!(!named_policy(&reports(), Some(bound)), "never both");
}

#[rstest]
#[case::all_of_it(rule(&["*"]), false)]
#[case::only_creations(with(rule(&["*"]), "operations", json!(["CREATE"])), true)]
#[case::some_names(with(rule(&["*"]), "resourceNames", json!(["a"])), true)]
#[case::something_else(with(rule(&["*"]), "apiGroups", json!(["apps"])), true)]
fn what_a_policy_or_its_binding_excludes_does_not_count(
    #[case] excluded: Value,
    #[case] named: bool,
) {
    let excludes = with(
        constraints(&json!([with(
            rule(&["policyreports"]),
            "apiVersions",
            json!(["v1alpha2"])
        )])),
        "excludeResourceRules",
        json!([excluded]),
    );
    let reports = constraints(&json!([rule(&["policyreports"])]));
    assert_eq!(named_policy(&excludes, None), named);
    assert_eq!(named_policy(&reports, Some(excludes)), named);
}

#[test]
fn what_its_owner_gives_up_and_what_the_operator_makes_is_not_named() {
    let mut accepted = quota(&json!({"count/policyreports.wgpolicyk8s.io": "5"}));
    let annotations = accepted.metadata.annotations.get_or_insert_default();
    annotations.insert(ANNOTATION_ACCEPT_BYPASS.to_owned(), "true".to_owned());
    assert_eq!(named(vec![(Kind::Quota, false, accepted)]), [""; 0]);
    let guard = door::objects::policy(GROUP, "operator", door::objects::OPERATIONS);
    let name = guard["metadata"]["name"].as_str().unwrap().to_owned();
    let objects = vec![
        (Kind::ValidatingPolicy, false, object(guard)),
        (Kind::ValidatingPolicy, true, binding(&name, None)),
    ];
    assert_eq!(named(objects), [""; 0]);
}

fn annotated(mut object: DynamicObject, value: &str) -> DynamicObject {
    let annotations = object.metadata.annotations.get_or_insert_default();
    annotations.insert(ANNOTATION_ACCEPT_BYPASS.to_owned(), value.to_owned());
    object
}

#[rstest]
#[case::accepted("true", 0)]
#[case::not_accepted("false", 3)]
#[case::without_a_value("", 3)]
fn an_object_of_any_kind_is_accepted_by_one_value_alone(#[case] value: &str, #[case] count: usize) {
    let rules = json!([rule(&["policyreports"])]);
    let hard = json!({"count/policyreports.wgpolicyk8s.io": "5"});
    let of_policy = policy("a", &constraints(&rules));
    let objects = vec![
        (Kind::ValidatingPolicy, false, annotated(of_policy, value)),
        (Kind::ValidatingPolicy, true, binding("a", None)),
        (
            Kind::MutatingWebhook,
            false,
            annotated(webhook("a", &rules), value),
        ),
        (Kind::Quota, false, annotated(quota(&hard), value)),
    ];
    let named = named(objects);
    assert_eq!(named.len(), count, "{named:?}");
}

#[test]
fn a_mutating_policy_counts_where_it_is_bound() {
    let reports = constraints(&json!([rule(&["policyreports"])]));
    let policy = || (Kind::MutatingPolicy, false, policy("a", &reports));
    let bound = vec![policy(), (Kind::MutatingPolicy, true, binding("a", None))];
    assert_eq!(named(bound), ["MutatingAdmissionPolicy a"]);
    let unbound = vec![policy(), (Kind::ValidatingPolicy, true, binding("a", None))];
    assert_eq!(named(unbound), [""; 0]);
}

/// Such an object may be named although it never decides about a report.
#[test]
fn selectors_and_conditions_are_not_evaluated() {
    let nothing = || json!({"matchLabels": {"of": "nothing"}});
    let never = json!([{"name": "never", "expression": "false"}]);
    let rules = json!([rule(&["policyreports"])]);
    let selected = |rules: &Value| {
        let selected = with(constraints(rules), "namespaceSelector", nothing());
        with(selected, "objectSelector", nothing())
    };
    let mut of_policy = policy("a", &selected(&rules));
    of_policy.data["spec"]["matchConditions"] = never.clone();
    let mut of_webhook = webhook("a", &rules);
    let one = &mut of_webhook.data["webhooks"][0];
    one["namespaceSelector"] = nothing();
    one["objectSelector"] = nothing();
    one["matchConditions"] = never;
    let bound = binding("a", Some(selected(&json!([]))));
    let objects = vec![
        (Kind::ValidatingPolicy, false, of_policy),
        (Kind::ValidatingPolicy, true, bound),
        (Kind::ValidatingWebhook, false, of_webhook),
    ];
    let expected = [
        "ValidatingAdmissionPolicy a",
        "ValidatingWebhookConfiguration a",
    ];
    assert_eq!(named(objects), expected);
}

#[test]
fn rules_are_matched_against_the_served_versions_without_the_side_door() {
    let mut resource = states::resource("policyreports", GateState::Closed, false, None);
    resource.stored.status.namespaced = true;
    let served = ["v1alpha2".to_owned(), "v1beta1".to_owned()];
    let versions = served.iter().cloned();
    let door = door::objects::VERSION.to_owned();
    resource.stored.status.versions = versions.chain([door]).collect();
    let o = Observed {
        resources: vec![resource],
        ..Observed::default()
    };
    let mut expected = Requests::new(GROUP);
    expected.add("policyreports", true, served.iter());
    assert_eq!(o.writes(GROUP), expected);
}

#[test]
fn many_are_counted_and_the_first_named() {
    let requests = requests();
    let mut found = Found::default();
    for number in 0..25 {
        let hard = json!({"count/policyreports.wgpolicyk8s.io": "5"});
        let mut quota = quota(&hard);
        quota.metadata.namespace = Some(format!("team-{number:02}"));
        found.add(&requests, Kind::Quota, false, quota);
    }
    let bypass = found.finish(&requests);
    let words = bypass.to_string();
    assert!(
        words.starts_with("ResourceQuota team-00/reports, "),
        "{words}"
    );
    assert!(
        words.ends_with("ResourceQuota team-09/reports and 15 more"),
        "{words}"
    );
}

#[test]
fn what_cannot_be_read_is_left_out() {
    let odd = object(json!({"apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": "a"}, "spec": {"hard": 5}}));
    let none = object(json!({"apiVersion": "v1", "kind": "x", "metadata": {"name": "b"}}));
    let objects = vec![
        (Kind::Quota, false, odd),
        (Kind::ValidatingPolicy, false, none.clone()),
        (Kind::ValidatingWebhook, false, none),
    ];
    assert_eq!(named(objects), [""; 0]);
}
