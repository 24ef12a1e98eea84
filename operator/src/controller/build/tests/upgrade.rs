//! A major upgrade of a PostgreSQL that the operator runs, step by step.

use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Value, json};

use super::managed::all_of;
use super::{value, yaml};
use crate::controller::fixtures::{material, operator, validated};
use crate::database::managed::upgrade::{
    Database, Job, Outcome, PENDING, Run, Seen, UPGRADE_ANNOTATION, Volume,
};
use crate::database::managed::{Children, Known, STOPPED_ANNOTATION};
use crate::security;

fn volume(name: &str, version: u32, upgrade: Option<&str>) -> Volume {
    Volume {
        name: name.into(),
        version: Some(version),
        image: Some(format!("registry.example/library/postgres:{version}.1")),
        upgrade: upgrade.map(str::to_owned),
        ..Volume::default()
    }
}

/// From 15 to 17, when so much of it is done.
fn at(database: Database, outcomes: &[Outcome], filled: bool) -> Children {
    let spec = || {
        validated(
            json!({"database": {"mode": "Managed", "backup": {"schedule": "30 1 * * *"},
            "managed": {"version": "17"}}}),
        )
    };
    let mut known = Known {
        volumes: vec![volume("simple-postgres-data", 15, None)],
        seen: Seen {
            database,
            ..Seen::default()
        },
        ..Known::default()
    };
    let met = spec().reconciled_with(known.clone()).unwrap();
    let upgrade = met.managed().unwrap().upgrade.clone().unwrap();
    let names = [upgrade.check, upgrade.copy];
    let jobs = names.into_iter().zip(outcomes);
    let jobs = jobs.map(|(name, outcome)| Job {
        name,
        outcome: *outcome,
    });
    known.seen.jobs = jobs.collect();
    let note = if filled { "15" } else { PENDING };
    known
        .volumes
        .push(volume("simple-postgres-data-17", 17, Some(note)));
    let met = spec().reconciled_with(known).unwrap();
    let children = super::build(&met, &material(), &operator());
    let kept = format!("{:?}", children.kept());
    let managed = children.managed.unwrap();
    for name in managed.upgrade.iter().flat_map(|upgrade| &upgrade.jobs) {
        assert!(kept.contains(&format!("{name:?}")), "{name} in {kept}");
    }
    managed
}

/// Replicas, image and claim of the database, and whether backups wait.
fn runs(children: &Children) -> (Option<i32>, Value, Value, Option<bool>) {
    let annotations = children.stateful_set.metadata.annotations.as_ref();
    let noted = annotations.is_some_and(|notes| notes.contains_key(STOPPED_ANNOTATION));
    let set = children.stateful_set.spec.clone().unwrap();
    assert_eq!(noted, set.replicas == Some(0), "{annotations:?}");
    let pod = value(&set.template.spec);
    let backup = children.backup.clone().unwrap().spec.unwrap();
    (
        set.replicas,
        pod["containers"][0]["image"].clone(),
        pod["volumes"][0]["persistentVolumeClaim"]["claimName"].clone(),
        backup.suspend,
    )
}

fn pod(children: &Children) -> PodSpec {
    let run = children.upgrade.as_ref().unwrap().run.clone();
    let Some(Run::Begin(job)) = run else {
        panic!("{run:?}");
    };
    job.spec.unwrap().template.spec.unwrap()
}

#[test]
fn the_database_is_away_from_the_stop_until_the_copy_is_done() {
    use Outcome::{Failed, Running, Succeeded};
    let old = (
        json!("registry.example/library/postgres:15.1"),
        json!("simple-postgres-data"),
    );
    let serves = (Some(1), old.0.clone(), old.1.clone(), Some(false));
    let away = (Some(0), old.0, old.1, Some(true));
    assert_eq!(runs(&at(Database::Ready, &[Running], false)), serves);
    assert_eq!(runs(&at(Database::Ready, &[Failed], false)), serves);
    assert_eq!(runs(&at(Database::Ready, &[Succeeded], false)), away);
    assert_eq!(runs(&at(Database::Stopped, &[Succeeded], false)), away);
    assert_eq!(
        runs(&at(Database::Stopped, &[Succeeded, Running], false)),
        away
    );
    assert_eq!(
        runs(&at(Database::Stopped, &[Succeeded, Failed], false)),
        serves
    );
}

#[test]
fn the_new_volume_is_in_use_when_it_is_noted_to_be_filled() {
    let spec = validated(json!({"database": {"mode": "Managed", "managed": {"version": "17"}}}));
    let known = Known {
        volumes: vec![
            volume("simple-postgres-data", 15, None),
            volume("simple-postgres-data-17", 17, Some("15")),
        ],
        ..Known::default()
    };
    let met = spec.reconciled_with(known).unwrap();
    let earlier = &met.managed().unwrap().present.volumes.earlier;
    assert_eq!(earlier[0].name, "simple-postgres-data");
    let children = super::build(&met, &material(), &operator())
        .managed
        .unwrap();
    assert!(children.upgrade.is_none());
    let pod = value(&children.stateful_set.spec.unwrap().template.spec);
    let claim = &pod["volumes"][0]["persistentVolumeClaim"]["claimName"];
    assert_eq!(claim, "simple-postgres-data-17");
    let image = "registry.example/library/postgres:17.11-bookworm";
    assert_eq!(pod["containers"][0]["image"], image);
    // The note is not ours to take back.
    let notes = children.data.metadata.annotations.unwrap();
    assert!(!notes.contains_key(UPGRADE_ANNOTATION));
}

#[test]
fn what_an_upgrade_is_made_of() {
    let of = |children: Children| {
        let all = all_of(children).into_iter();
        let mut own: Vec<_> = all
            .filter(|(name, _)| name.starts_with("upgrade"))
            .collect();
        for (_, object) in &mut own {
            // The files have tests of their own.
            if object["kind"] == "ConfigMap" {
                let files = object["data"].as_object().unwrap().keys().cloned();
                object["data"] = files.collect::<Vec<_>>().into();
            }
        }
        own
    };
    let check = of(at(Database::Ready, &[], false));
    let copy = of(at(Database::Stopped, &[Outcome::Succeeded], false));
    let copy = copy.into_iter().filter(|(name, _)| *name == "upgrade_job");
    insta::assert_snapshot!(yaml(&check.into_iter().chain(copy).collect::<Vec<_>>()));
}

/// A Job that somebody has deleted since it was seen is not made again on what was seen before.
#[test]
fn a_job_is_made_once() {
    use Outcome::{Failed, Running, Succeeded};
    for outcomes in [
        &[Running][..],
        &[Failed],
        &[Succeeded, Running],
        &[Succeeded, Failed],
    ] {
        let children = at(Database::Stopped, outcomes, false);
        let run = children.upgrade.unwrap().run;
        assert!(matches!(run, Some(Run::Follow(_))), "{outcomes:?}: {run:?}");
    }
}

#[test]
fn its_pods_pass_the_restricted_standard() {
    let check = at(Database::Ready, &[], false);
    let copy = at(Database::Stopped, &[Outcome::Succeeded], false);
    for pod in [pod(&check), pod(&copy)] {
        assert_eq!(security::violations(&pod), Vec::<String>::new());
    }
}
