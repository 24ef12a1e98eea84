//! The CEL rules of the published `ReportsServer` CRD, evaluated as the kube-apiserver does.
#![expect(
    clippy::unwrap_used,
    reason = "clippy takes helpers outside #[test] functions for production code"
)]

use crds::v1alpha1::reports_server_crd;
use kube::core::cel::Validator;
use rstest::rstest;
use serde_json::{Value, json};

fn schema() -> Value {
    let crd = serde_json::to_value(reports_server_crd().unwrap()).unwrap();
    crd.pointer("/spec/versions/0/schema/openAPIV3Schema")
        .unwrap()
        .clone()
}

fn object(mut spec: Value) -> Value {
    if spec.get("targetNamespace").is_none() {
        spec["targetNamespace"] = json!("reports-server");
    }
    json!({
        "apiVersion": "reports-server.io/v1alpha1",
        "kind": "ReportsServer",
        "metadata": {"name": "main"},
        "spec": spec,
    })
}

/// The messages with which an object is refused, as the new one or in place of an old one.
fn refusals(new: &Value, old: Option<&Value>) -> Vec<String> {
    match Validator::new().validate(&schema(), new, old) {
        Ok(()) => Vec::new(),
        Err(errors) => errors.iter().map(|error| error.message.clone()).collect(),
    }
}

fn assert_refused(found: &[String], part: &str) {
    assert!(
        found.len() == 1 && found[0].contains(part),
        "wanted {part:?}, found {found:?}"
    );
}

#[rstest]
#[case::nothing(json!({}))]
#[case::embedded(json!({"database": {"mode": "Embedded", "embedded": {"storage": {"size": "1Gi", "storageClassName": "fast"}}}}))]
#[case::embedded_by_default(json!({"database": {"embedded": {}}}))]
#[case::ephemeral(json!({"database": {"embedded": {"ephemeral": "EmptyDir", "storage": {"size": "1Gi"}}}, "migration": {"source": {"policy": "Keep"}}}))]
#[case::embedded_backed_up(json!({"database": {"backup": {"destination": {"pvc": {}}}, "embedded": {"bootstrap": {"recovery": {"backupName": "a", "volumeClaimRef": {"name": "b"}}}}}}))]
#[case::managed(json!({"database": {"mode": "Managed"}}))]
#[case::external(json!({"database": {"mode": "External", "external": {"connectionSecretRef": {"name": "s"}, "keys": {"uri": "url"}}}}))]
#[case::cloud_native_pg(json!({"database": {"mode": "CloudNativePG", "cloudNativePG": {"clusterRef": {"name": "c"}}}}))]
#[case::manual(json!({"migration": {"approval": "Manual", "approvedPlan": "sha256:0"}}))]
#[case::durations(json!({"migration": {"soak": "1h30m", "source": {"policy": "Prune", "after": "0s"}}}))]
#[case::durations_of_a_typed_client(json!({"migration": {"source": {"policy": "Prune", "after": "0ns"}}}))]
#[case::drain_window(json!({"migration": {"drainWindow": "1h"}}))]
#[case::restart(json!({"migration": {"restart": [{"kind": "Deployment", "namespace": "a", "name": "b.c"}, {"kind": "DaemonSet", "namespace": "a", "name": "b", "when": "IfNeeded"}]}}))]
#[case::validities(json!({"tls": {"operator": {"caValidity": "48h", "certValidity": "24h", "renewBefore": "8h"}}}))]
#[case::autoscaling(json!({"server": {"autoscaling": {"minReplicas": 2, "maxReplicas": 2}}}))]
#[case::replicas(json!({"server": {"replicas": 1}}))]
#[case::from_server(json!({"apis": [{"group": "a.b", "owner": "Server", "from": {"server": {"namespace": "n", "name": "s"}}}]}))]
#[case::from_database(json!({"apis": [{"group": "a.b", "owner": "Server", "from": {"database": {"connectionSecretRef": {"name": "s"}, "clusterID": "0Aa00000-0000-0000-0000-000000000000"}}}]}))]
#[case::network_policy(json!({"networkPolicy": {"enabled": true, "apiServerCIDRs": ["10.0.0.0/24", "fd00::/64"], "additionalPorts": [6432]}}))]
#[case::monitoring(json!({"monitoring": {"prometheusRule": true, "labels": {"release": "a"}, "maxBackupAge": "192h"}}))]
#[case::tracing(json!({"monitoring": {"tracing": {"endpoint": "http://collector:4318", "samplingRatePerMillion": 1_000_000}}}))]
#[case::tracing_with_cas(json!({"monitoring": {"tracing": {"endpoint": "https://collector:4318", "caSecretRef": {"name": "ca"}}}}))]
fn accepted(#[case] spec: Value) {
    assert_eq!(refusals(&object(spec), None), Vec::<String>::new());
}

#[rstest]
#[case(json!({"database": {"mode": "External"}}), "external must be set with mode External")]
#[case(json!({"database": {"external": {"connectionSecretRef": {"name": "s"}}}}), "external must be set with mode External")]
#[case(json!({"database": {"mode": "CloudNativePG"}}), "cloudNativePG must be set with mode")]
#[case(json!({"database": {"mode": "CloudNativePG", "cloudNativePG": {}}}), "exactly one of clusterRef and create")]
#[case(json!({"database": {"mode": "Managed", "embedded": {}}}), "embedded can only be set with mode Embedded")]
#[case(json!({"database": {"managed": {}}}), "managed can only be set with mode Managed")]
#[case(json!({"database": {"mode": "External", "external": {"connectionSecretRef": {"name": "s"}, "keys": {"uri": "a", "host": "b"}}}}), "uri cannot be combined with host")]
#[case(json!({"database": {"embedded": {"ephemeral": "EmptyDir", "storage": {"storageClassName": "a"}}}}), "storageClassName cannot be set with ephemeral")]
#[case(json!({"database": {"embedded": {"ephemeral": "EmptyDir"}}, "migration": {"source": {"policy": "Prune"}}}), "source.policy must be Keep")]
#[case(json!({"database": {"backup": {"destination": {}}}}), "exactly one of pvc and s3")]
#[case(json!({"database": {"mode": "Managed", "managed": {"bootstrap": {"recovery": {"backupName": "a", "volumeClaimRef": {"name": "b"}, "s3": {"bucket": "abc", "credentialsSecretRef": {"name": "c"}}}}}}}), "at most one of volumeClaimRef and s3")]
#[case(json!({"database": {"embedded": {"bootstrap": {"recovery": {"backupName": "a", "volumeClaimRef": {"name": "b"}, "s3": {"bucket": "abc", "credentialsSecretRef": {"name": "c"}}}}}}}), "at most one of volumeClaimRef and s3")]
#[case(json!({"migration": {"approvedPlan": "sha256:0"}}), "only with approval: Manual")]
#[case(json!({"migration": {"approval": "Automatic", "approvedPlan": "sha256:0"}}), "only with approval: Manual")]
#[case(json!({"migration": {"soak": "9000h"}}), "must not be longer than 8784h")]
#[case(json!({"monitoring": {"maxBackupAge": "9000h"}}), "must not be longer than 8784h")]
#[case(json!({"monitoring": {"tracing": {"endpoint": "http://collector:4318", "caSecretRef": {"name": "ca"}}}}), "caSecretRef can only be set with an endpoint that begins with https://")]
#[case(json!({"migration": {"drainWindow": "61m"}}), "must not be longer than 1h")]
#[case(json!({"migration": {"source": {"after": "9000h"}}}), "must not be longer than 8784h")]
#[case(json!({"tls": {"mode": "CertManager"}}), "certManager must be set with mode CertManager")]
#[case(json!({"tls": {"provided": {"secretRef": {"name": "s"}}}}), "provided must be set with mode Provided")]
#[case(json!({"tls": {"mode": "Provided", "provided": {"secretRef": {"name": "s"}}, "operator": {}}}), "operator can only be set with mode Operator")]
#[case(json!({"tls": {"mode": "CertManager", "certManager": {"issuerRef": {"name": "i"}, "certValidity": "24h", "renewBefore": "24h"}}}), "renewBefore must be shorter")]
#[case(json!({"tls": {"mode": "Provided", "provided": {"secretRef": {"name": "s"}, "renewBefore": "1s"}}}), "must be between 1m and")]
#[case(json!({"tls": {"operator": {"certValidity": "1s"}}}), "must be between 1m and")]
#[case(json!({"tls": {"operator": {"caValidity": "24h", "certValidity": "24h"}}}), "certValidity must be shorter")]
#[case(json!({"tls": {"operator": {"certValidity": "24h", "renewBefore": "25h"}}}), "renewBefore must be shorter")]
#[case(json!({"server": {"replicas": 2, "autoscaling": {"maxReplicas": 3}}}), "replicas and autoscaling are mutually exclusive")]
#[case(json!({"server": {"autoscaling": {"minReplicas": 3, "maxReplicas": 2}}}), "minReplicas must not be above")]
#[case(json!({"server": {"podDisruptionBudget": {}}}), "exactly one of minAvailable and maxUnavailable")]
#[case(json!({"apis": [{"group": "a.b", "owner": "Server", "from": {}}]}), "exactly one of server and database")]
#[case(json!({"apis": [{"group": "a.b", "owner": "Server", "from": {"server": {"namespace": "n", "name": "s"}, "database": {"connectionSecretRef": {"name": "s"}}}}]}), "exactly one of server and database")]
fn refused(#[case] spec: Value, #[case] message: &str) {
    assert_refused(&refusals(&object(spec), None), message);
}

#[rstest]
#[case::short("a", true)]
#[case::longest("a123456789012345678901234567890123456789", true)]
#[case::too_long("a1234567890123456789012345678901234567890", false)]
#[case::dots("a.b", false)]
#[case::digit_first("1a", false)]
#[case::dash_last("a-", false)]
fn names(#[case] name: &str, #[case] accepted: bool) {
    let mut named = object(json!({}));
    named["metadata"]["name"] = json!(name);
    assert_eq!(refusals(&named, None).is_empty(), accepted);
}

/// The identity in force may be named, where the specification names none.
#[rstest]
#[case(json!({"database": {"clusterIdentity": "uid"}}), json!({}), "uid", "")]
#[case(json!({}), json!({}), "mine", "")]
// Of a status that was lost, or is from before it told of the identity.
#[case(json!({"database": {"clusterIdentity": "uid"}}), json!({"id": "mine"}), "mine", "")]
#[case(json!({"database": {"clusterIdentity": "uid"}}), json!({}), "mine", "can only be set to status.database")]
fn the_identity_in_force_stays(
    #[case] status: Value,
    #[case] before: Value,
    #[case] id: &str,
    #[case] message: &str,
) {
    let of = |identity: Value| {
        let mut object = object(json!({"clusterIdentity": identity}));
        object["status"] = status.clone();
        object
    };
    let found = refusals(&of(json!({"id": id})), Some(&of(before)));
    if message.is_empty() {
        assert_eq!(found, Vec::<String>::new());
    } else {
        assert_refused(&found, message);
    }
}

#[rstest]
#[case::api_added(json!({}), json!({"apis": [{"group": "a.b", "owner": "Server"}]}))]
#[case::api_given_back(json!({"apis": [{"group": "a.b", "owner": "Server"}]}), json!({"apis": [{"group": "a.b", "owner": "CRD"}]}))]
#[case::api_left_out(json!({"apis": [{"group": "a.b", "owner": "CRD"}]}), json!({}))]
#[case::id_set(json!({}), json!({"clusterIdentity": {"id": "a"}}))]
#[case::display_name(json!({"clusterIdentity": {"id": "a"}}), json!({"clusterIdentity": {"id": "a", "displayName": "b"}}))]
#[case::default_to_managed(json!({}), json!({"database": {"mode": "Managed"}}))]
#[case::embedded_to_managed(json!({"database": {"mode": "Embedded", "embedded": {}}}), json!({"database": {"mode": "Managed"}}))]
#[case::managed_to_external(json!({"database": {"mode": "Managed"}}), json!({"database": {"mode": "External", "external": {"connectionSecretRef": {"name": "a"}}}}))]
#[case::cloud_native_pg_to_external(json!({"database": {"mode": "CloudNativePG", "cloudNativePG": {"create": {}}}}), json!({"database": {"mode": "External", "external": {"connectionSecretRef": {"name": "a"}}}}))]
#[case::managed_to_embedded(json!({"database": {"mode": "Managed"}}), json!({"database": {"mode": "Embedded", "embedded": {"storage": {"size": "5Gi"}}}}))]
#[case::external_to_embedded(json!({"database": {"mode": "External", "external": {"connectionSecretRef": {"name": "a"}}}}), json!({"database": {"mode": "Embedded"}}))]
#[case::another_external(json!({"database": {"mode": "External", "external": {"connectionSecretRef": {"name": "a"}}}}), json!({"database": {"mode": "External", "external": {"connectionSecretRef": {"name": "b"}}}}))]
#[case::ephemeral_to_managed(json!({"database": {"embedded": {"ephemeral": "EmptyDir"}}}), json!({"database": {"mode": "Managed"}}))]
#[case::grown(json!({"database": {"embedded": {"storage": {"size": "1Gi"}}}}), json!({"database": {"embedded": {"storage": {"size": "2048Mi"}}}}))]
#[case::grown_to_the_default(json!({"database": {"embedded": {"storage": {"size": "1Gi"}}}}), json!({}))]
#[case::grown_from_the_default(json!({}), json!({"database": {"embedded": {"storage": {"size": "11Gi"}}}}))]
#[case::another_volume(json!({"database": {"embedded": {"storage": {"size": "20Gi", "storageClassName": "a"}}}}), json!({"database": {"mode": "Managed", "managed": {"storage": {"size": "1Gi"}}}}))]
#[case::backups_to_a_bucket(json!({"database": {"mode": "Managed", "backup": {"destination": {"pvc": {"storage": {"size": "20Gi"}}}}}}), json!({"database": {"mode": "Managed", "backup": {"destination": {"s3": {"bucket": "abc", "credentialsSecretRef": {"name": "c"}}}}}}))]
#[case::a_volume_that_goes_with_its_pod(json!({"database": {"embedded": {"ephemeral": "EmptyDir"}}}), json!({"database": {"embedded": {"ephemeral": "EmptyDir", "storage": {"size": "1Gi"}}}}))]
fn accepted_update(#[case] old: Value, #[case] new: Value) {
    assert_eq!(
        refusals(&object(new), Some(&object(old))),
        Vec::<String>::new()
    );
}

#[rstest]
#[case(json!({"targetNamespace": "a"}), json!({"targetNamespace": "b"}), "targetNamespace is immutable")]
#[case(json!({"clusterIdentity": {"id": "a"}}), json!({"clusterIdentity": {"id": "b"}}), "clusterIdentity.id is immutable")]
#[case(json!({"clusterIdentity": {"id": "a"}}), json!({"clusterIdentity": {}}), "clusterIdentity.id is immutable")]
#[case(json!({"clusterIdentity": {"id": "a"}}), json!({}), "clusterIdentity.id is immutable")]
#[case(json!({"database": {"mode": "Managed"}}), json!({}), "only be changed from Embedded")]
#[case(json!({"database": {"mode": "External", "external": {"connectionSecretRef": {"name": "a"}}}}), json!({"database": {"mode": "Managed"}}), "only be changed from Embedded")]
#[case(json!({"database": {"mode": "Managed"}}), json!({"database": {"mode": "CloudNativePG", "cloudNativePG": {"create": {}}}}), "only be changed from Embedded")]
#[case(json!({"database": {"embedded": {}}}), json!({"database": {"embedded": {"ephemeral": "EmptyDir"}}}), "cannot be added or removed")]
#[case(json!({"database": {"embedded": {"ephemeral": "EmptyDir"}}}), json!({}), "cannot be added or removed")]
#[case(json!({"apis": [{"group": "a.b", "owner": "Server"}]}), json!({"apis": []}), "cannot be left out of apis")]
#[case(json!({"apis": [{"group": "a.b", "owner": "Server"}]}), json!({}), "cannot be left out of apis")]
#[case(json!({"apis": [{"group": "a.b", "owner": "Server"}]}), json!({"apis": [{"group": "c.d", "owner": "Server"}]}), "cannot be left out of apis")]
#[case(json!({"database": {"embedded": {"storage": {"size": "2Gi"}}}}), json!({"database": {"embedded": {"storage": {"size": "2047Mi"}}}}), "database.embedded.storage.size can only grow")]
#[case(json!({"database": {"embedded": {"storage": {"size": "20Gi"}}}}), json!({"database": {"embedded": {"storage": {}}}}), "database.embedded.storage.size can only grow")]
#[case(json!({"database": {"embedded": {"storage": {"size": "20Gi"}}}}), json!({"database": {"mode": "Embedded"}}), "database.embedded.storage.size can only grow")]
#[case(json!({"database": {"embedded": {"storage": {"size": "20Gi"}}}}), json!({}), "database.embedded.storage.size can only grow")]
#[case(json!({}), json!({"database": {"embedded": {"storage": {"size": "9Gi"}}}}), "database.embedded.storage.size can only grow")]
#[case(json!({"database": {"mode": "Managed", "managed": {"storage": {"size": "20Gi"}}}}), json!({"database": {"mode": "Managed"}}), "database.managed.storage.size can only grow")]
#[case(json!({"database": {"mode": "Managed"}}), json!({"database": {"mode": "Managed", "managed": {"storage": {"size": "5Gi"}}}}), "database.managed.storage.size can only grow")]
#[case(json!({"database": {"mode": "Managed", "backup": {"destination": {"pvc": {"storage": {"size": "20Gi"}}}}}}), json!({"database": {"mode": "Managed", "backup": {}}}), "database.backup.destination.pvc.storage.size can only grow")]
#[case(json!({"database": {"mode": "CloudNativePG", "cloudNativePG": {"create": {"storage": {"size": "20Gi"}}}}}), json!({"database": {"mode": "CloudNativePG", "cloudNativePG": {"create": {}}}}), "database.cloudNativePG.create.storage.size can only grow")]
#[case(json!({"database": {"embedded": {"storage": {"storageClassName": "a"}}}}), json!({"database": {"embedded": {"storage": {"storageClassName": "b"}}}}), "database.embedded.storage.storageClassName is immutable")]
#[case(json!({"database": {"embedded": {"storage": {"storageClassName": "a"}}}}), json!({"database": {"embedded": {"storage": {}}}}), "database.embedded.storage.storageClassName is immutable")]
#[case(json!({"database": {"embedded": {"storage": {"storageClassName": "a"}}}}), json!({}), "database.embedded.storage.storageClassName is immutable")]
#[case(json!({"database": {"mode": "Managed", "managed": {"storage": {"storageClassName": "a"}}}}), json!({"database": {"mode": "Managed"}}), "database.managed.storage.storageClassName is immutable")]
#[case(json!({"database": {"mode": "Managed", "backup": {}}}), json!({"database": {"mode": "Managed", "backup": {"destination": {"pvc": {"storage": {"storageClassName": "a"}}}}}}), "database.backup.destination.pvc.storage.storageClassName is immutable")]
#[case(json!({"database": {"mode": "CloudNativePG", "cloudNativePG": {"create": {"storage": {"storageClassName": "a"}}}}}), json!({"database": {"mode": "CloudNativePG", "cloudNativePG": {"create": {}}}}), "database.cloudNativePG.create.storage.storageClassName is immutable")]
fn refused_update(#[case] old: Value, #[case] new: Value, #[case] message: &str) {
    assert_refused(&refusals(&object(new), Some(&object(old))), message);
}

/// A volume that would be gone with the pod is none to move reports to.
#[test]
fn reports_are_not_moved_to_an_ephemeral_volume() {
    let old = object(json!({"database": {"mode": "Managed"}}));
    let ephemeral = json!({"mode": "Embedded", "embedded": {"ephemeral": "EmptyDir"}});
    let new = object(json!({"database": ephemeral}));
    assert_refused(&refusals(&new, Some(&old)), "cannot be added or removed");
}

/// Until the reports are moved, whoever asked for it may change their mind.
#[test]
fn a_move_can_be_given_up_until_it_is_done() {
    let mut old = object(json!({"database": {"mode": "Managed"}}));
    let new = object(json!({}));
    old["status"] = json!({"database": {"mode": "Embedded"}});
    assert_eq!(refusals(&new, Some(&old)), Vec::<String>::new());
    old["status"] = json!({"database": {"mode": "Managed"}});
    assert_refused(&refusals(&new, Some(&old)), "only be changed from Embedded");
}

/// The same of a move from one PostgreSQL to another.
#[test]
fn a_move_to_another_postgresql_can_be_given_up_until_it_is_done() {
    let external = json!({"mode": "External", "external": {"connectionSecretRef": {"name": "a"}}});
    let mut old = object(json!({"database": external}));
    let new = object(json!({"database": {"mode": "Managed"}}));
    old["status"] = json!({"database": {"mode": "Managed"}});
    assert_eq!(refusals(&new, Some(&old)), Vec::<String>::new());
    old["status"] = json!({"database": {"mode": "External"}});
    assert_refused(&refusals(&new, Some(&old)), "only be changed from Embedded");
}

/// The advice of the condition can be followed: the volume has kept its size.
#[rstest]
#[case("VolumeCannotGrow", true)]
#[case("DatabaseIsReady", false)]
fn a_size_that_the_volume_did_not_get_can_be_set_back(
    #[case] reason: &str,
    #[case] accepted: bool,
) {
    let sized = |size: &str| object(json!({"database": {"embedded": {"storage": {"size": size}}}}));
    let mut old = sized("20Gi");
    old["status"] = json!({"conditions": [{"type": "DatabaseReady", "status": "True",
        "reason": reason, "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}]});
    let found = refusals(&sized("10Gi"), Some(&old));
    if accepted {
        assert_eq!(found, Vec::<String>::new());
    } else {
        assert_refused(&found, "can only grow");
    }
}

/// A rule that no case above breaks would be a rule that nobody has tried.
#[test]
fn every_rule_has_a_case() {
    fn rules(schema: &Value, found: &mut std::collections::BTreeSet<String>) {
        for rule in schema["x-kubernetes-validations"]
            .as_array()
            .into_iter()
            .flatten()
        {
            found.insert(rule["message"].as_str().unwrap().to_owned());
        }
        for child in schema["properties"]
            .as_object()
            .into_iter()
            .flat_map(|fields| fields.values())
        {
            rules(child, found);
        }
        for key in ["items", "additionalProperties"] {
            if schema[key].is_object() {
                rules(&schema[key], found);
            }
        }
    }
    let mut found = std::collections::BTreeSet::new();
    rules(&schema(), &mut found);
    let cases = include_str!("reports_server_rules.rs");
    let untried: Vec<_> = found
        .iter()
        .filter(|message| !message.starts_with("name must be"))
        .filter(|message| !cases.lines().any(|line| names_message(line, message)))
        .collect();
    assert!(untried.is_empty(), "{untried:#?}");
}

/// Returns whether the last string of a `#[case]` line is a part of the message.
fn names_message(line: &str, message: &str) -> bool {
    let Some(case) = line
        .strip_prefix("#[case")
        .and_then(|line| line.strip_suffix("\")]"))
    else {
        return false;
    };
    case.rsplit_once('"')
        .is_some_and(|(_, part)| part.len() > 8 && message.contains(part))
}
