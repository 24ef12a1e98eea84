//! The specifications that are refused, and the words to the user.

mod groups;
mod identity;
mod managed;
mod migration;
mod upgrade;

use crds::v1alpha1::reasons;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use rstest::rstest;
use serde_json::{Value, json};

use super::specification;
use crate::controller::fixtures::{IMAGE, object, read, try_validate, validated};
use crate::controller::found::{Dereferenced, NamespaceState};
use crate::database::place::{Database, Storage};

fn apis(group: &str) -> Value {
    json!({"apis": [{"group": group, "owner": "Server"}]})
}

#[test]
fn the_smallest_specification_gets_every_default() {
    let spec = validated(apis("wgpolicyk8s.io"));
    assert_eq!(spec.pod.image, IMAGE);
    assert_eq!(
        spec.database,
        Database::Embedded(Storage::Claim {
            size: Quantity("10Gi".into()),
            class: None
        })
    );
    assert!(spec.retain_data);
    assert_eq!(
        spec.owner.as_ref().map(|owner| owner.controller),
        Some(Some(true))
    );
    let prune = Some(std::time::Duration::from_hours(24));
    assert_eq!(spec.migration.prune_after, prune);
    assert_eq!(
        spec.certs.dns_names,
        [
            "simple-server.target.svc",
            "simple-server.target.svc.cluster.local"
        ]
    );
}

#[rstest]
#[case(json!({"images": {"postgres": {"tag": "17"}}}), "spec.images.postgres can only be set with")]
#[case(json!({"database": {"mode": "External", "external": {"connectionSecretRef": {"name": "s"}}, "backup": {}}}), "spec.database.backup can only be set with")]
#[case(json!({"database": {"embedded": {"ephemeral": "EmptyDir", "bootstrap": {"recovery": {"backupName": "a"}}}}}), "spec.database.embedded.bootstrap cannot be set with ephemeral")]
#[case(json!({"clusterIdentity": {"id": "x"}}), "spec.clusterIdentity needs PostgreSQL")]
#[case(json!({"server": {"replicas": 2}}), "spec.server.replicas: more than 1 needs PostgreSQL")]
#[case(json!({"server": {"autoscaling": {"maxReplicas": 1}}}), "spec.server.autoscaling needs")]
#[case(json!({"database": {"pool": {"maxConnections": 2}}}), "spec.database.pool needs")]
fn fields_without_effect_are_refused(#[case] spec: Value, #[case] message: &str) {
    let refusal = try_validate(spec).unwrap_err();
    assert_eq!(refusal.reason, reasons::NOT_SUPPORTED);
    assert!(refusal.message.starts_with(message), "{}", refusal.message);
}

#[test]
fn every_unsupported_field_is_named_at_once() {
    let refusal = try_validate(json!({
        "server": {"replicas": 2}, "database": {"pool": {}}, "clusterIdentity": {},
        "networkPolicy": {"databaseCIDRs": ["192.0.2.0/24"], "additionalPorts": [6432]},
    }));
    let message = refusal.unwrap_err().message;
    for field in [
        "spec.server.replicas",
        "spec.database.pool",
        "spec.clusterIdentity",
        "spec.networkPolicy.databaseCIDRs",
        "spec.networkPolicy.additionalPorts",
    ] {
        assert!(message.contains(field), "{message}");
    }
}

#[rstest]
#[case(json!({"caValidity": "3h", "certValidity": "2h"}), "spec.tls.operator.caValidity")]
#[case(json!({"certValidity": "2h", "renewBefore": "2h"}), "spec.tls.operator.renewBefore")]
fn lifetimes_that_leave_no_time_are_refused(#[case] lifetimes: Value, #[case] field: &str) {
    let refusal = try_validate(json!({"tls": {"operator": lifetimes}})).unwrap_err();
    assert_eq!(refusal.reason, reasons::INVALID_SPEC);
    assert!(refusal.message.starts_with(field), "{}", refusal.message);
}

#[rstest]
#[case(NamespaceState::Missing, "kubectl create namespace target")]
#[case(NamespaceState::Terminating, "is being deleted")]
#[case(NamespaceState::Terminating, "kubectl delete reportsserver simple")]
fn a_namespace_that_cannot_be_used_is_named(
    #[case] namespace: NamespaceState,
    #[case] words: &str,
) {
    let refusal = specification(
        &object(json!({})),
        &Dereferenced {
            namespace,
            ..read()
        },
    )
    .unwrap_err();
    assert_eq!(refusal.reason, reasons::TARGET_NAMESPACE_MISSING);
    assert!(refusal.message.contains(words), "{}", refusal.message);
}

#[test]
fn a_metric_that_is_none_is_named() {
    let refusal = try_validate(
        json!({"database": {"mode": "Managed"}, "server": {"autoscaling": {
        "maxReplicas": 3, "metrics": [{"type": 5}]}}}),
    );
    let message = refusal.unwrap_err().message;
    assert!(
        message.starts_with("spec.server.autoscaling.metrics[0]: "),
        "{message}"
    );
}

#[test]
fn annotations_are_for_a_service_account_of_ours() {
    let account = json!({"name": "own", "annotations": {"a": "b"}});
    let refusal = try_validate(json!({"server": {"serviceAccount": account}})).unwrap_err();
    let start = "spec.server.serviceAccount.annotations: ";
    assert!(refusal.message.starts_with(start), "{}", refusal.message);
}
