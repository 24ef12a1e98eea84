//! The upgrade of a PostgreSQL that the operator runs, from the version of its volume to another.

use crds::v1alpha1::reasons;
use serde_json::{Value, json};

use super::managed::{managed, settings};
use crate::database::managed::Known;
use crate::database::managed::upgrade::{self, Outcome, Seen, Stage, Volume};

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
