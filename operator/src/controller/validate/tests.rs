//! The specifications that are refused, and the words to the user.

use crds::v1alpha1::reasons;
use crds::v1alpha1::spec::Verification;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::controller::fixtures::{IMAGE, object, read, try_validate, validated};
use crate::controller::found::{Claim, Dereferenced, NamespaceState};
use crate::database::managed::upgrade::{self, Outcome, Seen, Stage, Volume};
use crate::database::managed::{Known, Managed};
use crate::database::place::{Database, Storage};

fn claim(name: &str, created: &str, groups: &[&str]) -> Claim {
    Claim {
        name: name.into(),
        created: Some(created.parse().unwrap()),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
    }
}

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
#[case("control.reports-server.io", "this project")]
#[case("reports-server.io", "this project")]
#[case("apiextensions.k8s.io", "Kubernetes")]
#[case("kube.kubernetes.io", "Kubernetes")]
#[case("apps", "Kubernetes")]
fn groups_of_the_cluster_and_our_own_are_refused(#[case] group: &str, #[case] whose: &str) {
    let refusal = try_validate(apis(group)).unwrap_err();
    assert_eq!(refusal.reason, reasons::INVALID_SPEC);
    assert!(
        refusal
            .message
            .starts_with(&format!("spec.apis[0].group: {group} belongs to {whose}"))
    );
}

#[rstest]
#[case("wgpolicyk8s.io")]
#[case("kyverno.io")]
#[case("aquasecurity.github.io")]
fn report_groups_are_accepted(#[case] group: &str) {
    assert_eq!(try_validate(apis(group)).map(|spec| spec.apis.len()), Ok(1));
}

#[rstest]
#[case("wgpolicyk8s.io", json!({"database": {"connectionSecretRef": {"name": "s"}}}), None)]
#[case("wgpolicyk8s.io", json!({"server": {"namespace": "n", "name": "s"}}), None)]
#[case("kyverno.io", json!({"database": {"connectionSecretRef": {"name": "s"}}}), Some("spec.apis[0].from.database: "))]
#[case("wgpolicyk8s.io", json!({}), Some("spec.apis[0].from: set exactly one"))]
#[case("wgpolicyk8s.io", json!({"server": {"namespace": "n", "name": "s"}, "database": {"connectionSecretRef": {"name": "s"}}}), Some("spec.apis[0].from: set exactly one"))]
#[case("wgpolicyk8s.io", json!({"server": {"namespace": "target", "name": "simple-server"}}), Some("spec.apis[0].from.server: "))]
fn a_source_is_another_server_or_the_database_of_one(
    #[case] group: &str,
    #[case] from: Value,
    #[case] refused: Option<&str>,
) {
    let mut spec = apis(group);
    spec["apis"][0]["from"] = from;
    let refusal = try_validate(spec).err();
    let message = refusal.map(|refusal| refusal.message);
    match refused {
        None => assert_eq!(message, None),
        Some(start) => assert!(message.is_some_and(|m| m.starts_with(start)), "{start}"),
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

#[test]
fn how_a_copy_is_verified_and_settled_is_taken_over() {
    let spec = validated(
        json!({"migration": {"verification": "Sample", "drainWindow": "1h", "requireAdmission": true,
        "restart": [
            {"kind": "Deployment", "namespace": "kyverno", "name": "a", "when": "IfNeeded"},
            {"kind": "DaemonSet", "namespace": "agents", "name": "b"},
        ]}}),
    );
    let settings = spec.migration;
    assert_eq!(settings.verification, Verification::Sample);
    assert_eq!(settings.drain_window, std::time::Duration::from_hours(1));
    assert!(settings.require_admission);
    let names: Vec<String> = settings.restart.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["Deployment kyverno/a", "DaemonSet agents/b"]);
    let spec = validated(json!({}));
    assert_eq!(spec.migration.verification, Verification::Full);
    assert!(spec.migration.drain_window.is_zero() && spec.migration.restart.is_empty());
    assert!(!spec.migration.require_admission);
}

#[test]
fn a_drain_window_from_before_the_crds_rule_is_refused() {
    let refusal = try_validate(json!({"migration": {"drainWindow": "61m"}})).unwrap_err();
    assert_eq!(refusal.reason, reasons::INVALID_SPEC);
    let field = "spec.migration.drainWindow";
    assert!(refusal.message.starts_with(field), "{}", refusal.message);
}

#[rstest]
#[case::older_and_same_group("2026-01-01T00:00:00Z", "other", &["a.b"], Some("a.b claimed by"))]
#[case::older_other_group("2026-01-01T00:00:00Z", "other", &["c.d"], Some("holds control."))]
#[case::younger("2026-01-03T00:00:00Z", "other", &["a.b"], None)]
#[case::same_age_earlier_name("2026-01-02T00:00:00Z", "a", &["a.b"], Some("a.b claimed by"))]
#[case::same_age_later_name("2026-01-02T00:00:00Z", "z", &["a.b"], None)]
#[case::itself("2026-01-01T00:00:00Z", "simple", &["a.b"], None)]
fn the_oldest_wins(
    #[case] created: &str,
    #[case] name: &str,
    #[case] groups: &[&str],
    #[case] refused: Option<&str>,
) {
    let claims = [claim(name, created, groups)];
    let result = specification(
        &object(apis("a.b")),
        &Dereferenced {
            claims: claims.to_vec(),
            ..read()
        },
    );
    match refused {
        None => assert!(result.is_ok()),
        Some(words) => {
            let refusal = result.unwrap_err();
            assert_eq!(refusal.reason, reasons::API_GROUP_CLAIMED);
            assert!(refusal.message.contains(words), "{}", refusal.message);
            assert!(refusal.message.contains(name), "{}", refusal.message);
        }
    }
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
fn an_ephemeral_database_prunes_nothing() {
    let spec = validated(json!({"database": {"embedded": {"ephemeral": "EmptyDir"}}}));
    assert_eq!(spec.migration.prune_after, None);
    assert!(matches!(
        spec.database,
        Database::Embedded(Storage::EmptyDir { .. })
    ));
    assert!(!spec.backend().is_persistent());
}

fn managed(managed: &Value, image: &Value) -> Result<Validated, Refusal> {
    try_validate(json!({"database": {"mode": "Managed", "managed": managed},
        "images": {"postgres": image}}))
}

fn settings(spec: &Validated) -> &Managed {
    spec.database.postgres().unwrap().managed.as_ref().unwrap()
}

#[rstest]
#[case::default(json!({}), json!({}), "registry.example/library/postgres:17.11-bookworm", 17)]
#[case::version(json!({"version": "15"}), json!({}), "registry.example/library/postgres:15.19-bookworm", 15)]
#[case::tag(json!({}), json!({"tag": "16.1"}), "registry.example/library/postgres:16.1", 16)]
#[case::own(json!({"version": "15"}), json!({"repository": "tools/postgres", "tag": "e2e"}),
    "registry.example/tools/postgres:e2e", 15)]
#[case::digest(json!({"version": "16"}), json!({"digest": "sha256:ab", "tag": "17"}),
    "registry.example/library/postgres@sha256:ab", 16)]
fn version_and_image_follow_from_each_other(
    #[case] spec: Value,
    #[case] image: Value,
    #[case] expected: &str,
    #[case] version: u32,
) {
    let spec = managed(&spec, &image).unwrap();
    let settings = settings(&spec);
    assert_eq!(
        (settings.image().as_str(), settings.version()),
        (expected, version)
    );
}

#[rstest]
#[case(json!({"version": "13"}), json!({}), "is not one of 14, 15, 16, 17, 18")]
#[case(json!({"version": "16"}), json!({"tag": "17.1"}), "make them agree")]
fn versions_that_cannot_be_run_are_refused(
    #[case] spec: Value,
    #[case] image: Value,
    #[case] words: &str,
) {
    let refusal = managed(&spec, &image).unwrap_err();
    assert_eq!(refusal.reason, reasons::INVALID_SPEC);
    assert!(
        refusal
            .message
            .starts_with("spec.database.managed.version: ")
    );
    assert!(refusal.message.contains(words), "{}", refusal.message);
}

#[rstest]
#[case::same("17", 17, Ok(17))]
#[case::older("15", 17, Err("the volume is of PostgreSQL 17, and 15 is older"))]
#[case::newer("17", 15, Ok(15))]
fn a_volume_keeps_its_major_version(
    #[case] wanted: &str,
    #[case] present: u32,
    #[case] expected: Result<u32, &str>,
) {
    let known = Known {
        volumes: vec![Volume {
            name: "simple-postgres-data".into(),
            version: Some(present),
            ..Volume::default()
        }],
        ..Known::default()
    };
    let met = managed(&json!({"version": wanted}), &json!({}))
        .unwrap()
        .reconciled_with(known);
    match expected {
        Ok(version) => assert_eq!(settings(&met.unwrap()).version(), version),
        Err(words) => {
            let refusal = met.unwrap_err();
            assert_eq!(refusal.reason, reasons::NOT_SUPPORTED);
            assert!(refusal.message.contains(words), "{}", refusal.message);
        }
    }
}

/// A new release with another default must not meet an old volume with it.
#[test]
fn a_version_that_nobody_asked_for_is_that_of_the_volume() {
    let known = Known {
        volumes: vec![Volume {
            name: "simple-postgres-data".into(),
            version: Some(15),
            ..Volume::default()
        }],
        ..Known::default()
    };
    let spec = managed(&json!({}), &json!({}))
        .unwrap()
        .reconciled_with(known)
        .unwrap();
    let image = settings(&spec).image();
    assert_eq!(image, "registry.example/library/postgres:15.19-bookworm");
}

/// Returns a database of version 15 on the volume that it began with, in the image `i:15`.
fn of_15(jobs: &[(&str, Outcome)]) -> Known {
    let jobs = jobs.iter().map(|(name, outcome)| upgrade::Job {
        name: (*name).to_owned(),
        outcome: *outcome,
    });
    Known {
        volumes: vec![Volume {
            name: "simple-postgres-data".into(),
            version: Some(15),
            image: Some("i:15".into()),
            ..Volume::default()
        }],
        seen: Seen {
            database: upgrade::Database::Ready,
            jobs: jobs.collect(),
            ..Seen::default()
        },
        ..Known::default()
    }
}

#[test]
fn until_it_is_copied_a_database_runs_as_it_did() {
    let spec = managed(&json!({"version": "17"}), &json!({})).unwrap();
    let met = spec.reconciled_with(of_15(&[])).unwrap();
    let settings = settings(&met);
    assert_eq!(settings.image(), "i:15");
    assert_eq!(settings.claim(), "simple-postgres-data");
    let upgrade = settings.upgrade.as_ref().unwrap();
    assert_eq!(upgrade.stage, Stage::Checking);
    assert_eq!(upgrade.target.version(), 17);
    assert_eq!(
        upgrade.target.image(),
        "registry.example/library/postgres:17.11-bookworm"
    );
}

#[test]
fn a_correction_is_another_try() {
    let upgrade = |spec: Value, image: Value| {
        let met = managed(&spec, &image)
            .unwrap()
            .reconciled_with(of_15(&[]))
            .unwrap();
        settings(&met).upgrade.clone().unwrap()
    };
    let first = upgrade(json!({"version": "17"}), json!({}));
    assert_eq!(first, upgrade(json!({"version": "17"}), json!({})));
    let larger = upgrade(
        json!({"version": "17", "storage": {"size": "20Gi"}}),
        json!({}),
    );
    let other = upgrade(json!({"version": "17"}), json!({"tag": "17.1"}));
    assert_ne!(first.copy, larger.copy);
    assert_ne!(first.copy, other.copy);
    // What was begun with the first goes before the second begins.
    let known = of_15(&[(&first.copy, Outcome::Failed)]);
    let spec = managed(&json!({"version": "17"}), &json!({"tag": "17.1"})).unwrap();
    let met = spec.reconciled_with(known).unwrap();
    let stage = settings(&met).upgrade.as_ref().unwrap().stage;
    assert_eq!(stage, Stage::Clearing { stopped: false });
    assert!(settings(&met).present.clear);
}

/// Else a copy that was finished in the meantime could be taken for one of the database as it is
/// when the upgrade is asked for again.
#[test]
fn an_upgrade_that_is_given_up_leaves_no_job_behind_when_the_database_runs_again() {
    let mut known = of_15(&[("simple-upgrade-copy-01234567", Outcome::Succeeded)]);
    known.seen.database = upgrade::Database::Stopped;
    known.volumes.push(Volume {
        name: "simple-postgres-data-17".into(),
        version: Some(17),
        upgrade: Some(upgrade::PENDING.into()),
        ..Volume::default()
    });
    let met = |known: Known| {
        let spec = managed(&json!({"version": "15"}), &json!({})).unwrap();
        settings(&spec.reconciled_with(known).unwrap()).clone()
    };
    let first = met(known.clone());
    assert_eq!((first.version(), first.upgrade), (15, None));
    assert!(first.present.stopped && first.present.clear);
    known.seen.jobs.clear();
    let then = met(known);
    assert!(!then.present.stopped && !then.present.clear);
}

/// A deletion asks for this, since it reads the reports once more.
#[test]
fn a_database_that_is_to_stay_as_it_is_gives_an_upgrade_up() {
    let spec = || {
        managed(&json!({}), &json!({"tag": "17.1"}))
            .unwrap()
            .staying()
    };
    let met = spec().reconciled_with(of_15(&[])).unwrap();
    assert_eq!(settings(&met).version(), 15);
    assert_eq!(settings(&met).image(), "i:15");
    assert_eq!(settings(&met).upgrade, None);
    assert!(!settings(&met).present.clear);
    let mut known = of_15(&[("simple-upgrade-copy-01234567", Outcome::Running)]);
    known.seen.database = upgrade::Database::Stopped;
    known.seen.live = true;
    let met = spec().reconciled_with(known.clone()).unwrap();
    assert!(settings(&met).present.stopped && settings(&met).present.clear);
    known.seen = Seen::default();
    known.seen.database = upgrade::Database::Stopped;
    let met = spec().reconciled_with(known).unwrap();
    assert!(!settings(&met).present.stopped);
}

#[test]
fn a_volume_from_before_an_upgrade_is_not_used_in_place_of_one_that_is_gone() {
    let mut known = of_15(&[]);
    known.volumes[0].retired = Some("upgraded to simple-postgres-data-17".into());
    let spec = managed(&json!({"version": "17"}), &json!({})).unwrap();
    let refusal = spec.reconciled_with(known).unwrap_err();
    assert_eq!(refusal.reason, reasons::VOLUME_MISSING);
    assert!(
        refusal.message.contains("simple-postgres-data;"),
        "{}",
        refusal.message
    );
}

#[test]
fn the_cluster_is_named_by_the_user_or_by_its_uid() {
    let identity = |identity: Value| {
        let spec = validated(json!({"database": {"mode": "Managed"}, "clusterIdentity": identity}));
        let postgres = spec.database.postgres().unwrap();
        (
            postgres.cluster_identity.clone(),
            postgres.cluster_name.clone(),
        )
    };
    assert_eq!(identity(json!({})), ("uid-of-kube-system".to_owned(), None));
    let named = identity(json!({"id": "west-1", "displayName": "West"}));
    assert_eq!(named, ("west-1".to_owned(), Some("West".to_owned())));
}

#[test]
fn the_identity_that_reports_carry_stays() {
    let managed = |identity: Value| {
        let spec = json!({"database": {"mode": "Managed"}, "clusterIdentity": identity});
        let mut object = object(spec);
        object.status =
            serde_json::from_value(json!({"database": {"clusterIdentity": "west-1"}})).unwrap();
        specification(&object, &read())
    };
    assert!(managed(json!({"id": "west-1"})).is_ok());
    // By default it is the uid of kube-system.
    for other in [json!({"id": "west-2"}), json!({})] {
        let refusal = managed(other).unwrap_err();
        assert_eq!(refusal.reason, reasons::INVALID_SPEC);
        assert!(
            refusal.message.contains("set it to west-1"),
            "{}",
            refusal.message
        );
    }
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

#[rstest]
#[case::exists(true, None, "this database exists already")]
#[case::another(
    true,
    Some("done:other"),
    "this database has started with other already"
)]
fn a_backup_is_restored_into_a_new_database_only(
    #[case] exists: bool,
    #[case] recovery: Option<&str>,
    #[case] words: &str,
) {
    let present = exists.then(|| Volume {
        name: "simple-postgres-data".into(),
        recovery: recovery.map(str::to_owned),
        ..Volume::default()
    });
    let known = Known {
        volumes: present.into_iter().collect(),
        ..Known::default()
    };
    let bootstrap = json!({"bootstrap": {"recovery": {"backupName": "nightly"}}});
    let refusal = managed(&bootstrap, &json!({}))
        .unwrap()
        .reconciled_with(known)
        .unwrap_err();
    assert_eq!(refusal.reason, reasons::INVALID_SPEC);
    assert!(refusal.message.contains(words), "{}", refusal.message);
}
