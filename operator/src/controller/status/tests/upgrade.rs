//! A major upgrade of a managed database, as it is told.

use super::*;
use crate::database::managed::Known;
use crate::database::managed::upgrade::{Database, Job, Outcome, Seen, Volume as Noted};
use crds::v1alpha1::status::MigrationPhase;

fn noted(name: &str, version: u32, upgrade: Option<&str>) -> Noted {
    Noted {
        name: name.into(),
        version: Some(version),
        image: Some(format!("postgres:{version}.1")),
        upgrade: upgrade.map(str::to_owned),
        ..Noted::default()
    }
}

fn told(
    database: Database,
    outcomes: &[Outcome],
    volumes: Vec<Noted>,
    before: Option<ReportsServerStatus>,
) -> ReportsServerStatus {
    let mut object = managed_object();
    object.status = before;
    let spec = json!({"apis": [{"group": GROUP, "owner": "Server"}],
        "database": {"mode": "Managed", "managed": {"version": "17"}}});
    let mut known = Known {
        volumes,
        seen: Seen {
            database,
            ..Seen::default()
        },
        ..Known::default()
    };
    let met = validated(spec.clone())
        .reconciled_with(known.clone())
        .unwrap();
    if let Some(upgrade) = &met.managed().unwrap().upgrade {
        let names = [upgrade.check.clone(), upgrade.copy.clone()];
        let jobs = names.into_iter().zip(outcomes);
        let jobs = jobs.map(|(name, outcome)| Job {
            name,
            outcome: *outcome,
        });
        known.seen.jobs = jobs.collect();
    }
    let spec = validated(spec).reconciled_with(known).unwrap();
    let mut applied = on_postgres(database == Database::Ready, None);
    let words = json!({"metadata": {"name": "u"}, "status": {"initContainerStatuses": [
        {"name": "dump", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": 1, "message": "no room"}}}]}});
    let failed = outcomes.last() == Some(&Outcome::Failed);
    applied.managed.as_mut().unwrap().upgrade = failed.then(|| Recovery {
        job: serde_json::from_value(json!({"metadata": {"name": "j"}})).unwrap(),
        pods: vec![serde_json::from_value(words).unwrap()],
    });
    let certs = issued();
    let state = State::Applied {
        spec: &spec,
        refusal: None,
        applied: &applied,
        certs: &certs,
        database: None,
    };
    let groups = [group(MigrationPhase::Completed, ServedBy::Server)];
    compute(&object, &state, &groups, at(0))
}

fn of_15() -> Vec<Noted> {
    vec![noted("simple-postgres-data", 15, None)]
}

fn message(status: &ReportsServerStatus) -> &str {
    let mut conditions = status.conditions.iter();
    let found = conditions.find(|condition| condition.type_ == types::DATABASE_UPGRADED);
    &found.unwrap().message
}

#[rstest]
#[case::checked(Database::Ready, &[Outcome::Running], reasons::UPGRADE_CHECKING, "True", "InProgress")]
#[case::refused(Database::Ready, &[Outcome::Failed], reasons::UPGRADE_FAILED, "True", "Current")]
#[case::stopped(Database::Stopped, &[Outcome::Succeeded], reasons::DATABASE_UPGRADING, "False", "InProgress")]
#[case::failed(Database::Ready, &[Outcome::Succeeded, Outcome::Failed], reasons::UPGRADE_FAILED, "True",
    "Current")]
fn an_upgrade_is_told_step_by_step(
    #[case] database: Database,
    #[case] outcomes: &[Outcome],
    #[case] reason: &str,
    #[case] ready: &str,
    #[case] judged: &str,
) {
    let status = told(database, outcomes, of_15(), None);
    assert_eq!(
        condition(&status, types::DATABASE_UPGRADED),
        Some(("False", reason))
    );
    assert_eq!(
        condition(&status, types::READY).map(|(is, _)| is),
        Some(ready)
    );
    assert_eq!(kstatus(&status, 3), judged);
    let words = message(&status);
    assert!(
        words.contains("PostgreSQL 15") && words.contains("17"),
        "{words}"
    );
    assert_eq!(
        words.contains("no room"),
        reason == reasons::UPGRADE_FAILED,
        "{words}"
    );
    let database = condition(&status, types::DATABASE_READY).unwrap();
    assert_eq!(database.0, ready);
    assert_eq!(database.1 == reasons::DATABASE_UPGRADING, ready == "False");
    let upgradeable = condition(&status, types::UPGRADEABLE).unwrap();
    assert_eq!(upgradeable.0, ready);
}

#[test]
fn the_end_names_what_is_kept() {
    let volumes = || {
        let new = noted("simple-postgres-data-17", 17, Some("15"));
        [of_15(), vec![new]].concat()
    };
    let before = told(Database::Stopped, &[Outcome::Succeeded], of_15(), None);
    let starting = told(Database::Unready, &[], volumes(), Some(before));
    assert_eq!(
        condition(&starting, types::DATABASE_UPGRADED),
        Some(("False", reasons::DATABASE_UPGRADING))
    );
    let done = told(Database::Ready, &[], volumes(), Some(starting));
    let upgraded = Some(("True", reasons::UPGRADED));
    assert_eq!(condition(&done, types::DATABASE_UPGRADED), upgraded);
    assert!(message(&done).ends_with("until you delete it: simple-postgres-data"));
    // A restart later on is no upgrade.
    let restart = told(Database::Unready, &[], volumes(), Some(done));
    assert_eq!(condition(&restart, types::DATABASE_UPGRADED), upgraded);
}

#[test]
fn a_database_that_was_never_upgraded_says_nothing_of_it() {
    let volumes = vec![noted("simple-postgres-data", 17, None)];
    let status = told(Database::Ready, &[], volumes, None);
    assert_eq!(condition(&status, types::DATABASE_UPGRADED), None);
}
