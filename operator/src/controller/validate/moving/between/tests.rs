use crds::control::move_file;
use crds::v1alpha1::ReportsServerSpec;
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::json;

use super::*;
use crate::controller::fixtures::{object, read};
use crate::controller::validate::validate;
use crate::database::between::Found;
use crate::database::files::Objects;
use crate::database::place::Storage;

fn asked(database: &serde_json::Value) -> ReportsServer {
    let policy = json!({"enabled": true, "databaseCIDRs": ["192.0.2.0/24"]});
    object(json!({"database": database, "networkPolicy": policy}))
}

fn external(secret: &str) -> ReportsServer {
    asked(&json!({"mode": "External", "external": {
        "connectionSecretRef": {"name": secret}, "sslMode": "disable"}}))
}

/// Returns what leads to a database, with this port.
fn objects(secret: &str, port: &str) -> Objects {
    let keys = [
        ("host", "db.example"),
        ("port", port),
        ("dbname", "reports"),
        ("username", "writer"),
        ("password", "secret"),
    ];
    let values: Values = keys
        .iter()
        .map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()))
        .collect();
    Objects {
        secrets: [(secret.to_owned(), Some(values))].into(),
        ..Objects::default()
    }
}

/// The reports are in `old`, and are to move to `new`.
fn found(step: Step, secret: Option<Values>) -> Dereferenced {
    let mut found = read();
    found.inside.connection = objects("old", "6543");
    found.between = Found {
        step,
        secret,
        told: None,
        in_force: Some(external("old").spec),
        objects: objects("new", "7654"),
        is_way_unread: false,
    };
    found
}

fn decided(step: Step, secret: Option<Values>) -> Validated {
    validate(&external("new"), &found(step, secret)).unwrap()
}

fn secret_of(spec: &ReportsServerSpec) -> String {
    let external = spec.database.as_ref().unwrap().external.as_ref().unwrap();
    external.connection_secret_ref.name.clone()
}

fn ordered() -> Values {
    decided(Step::Tell, None).between.unwrap().secret.unwrap()
}

#[test]
fn the_servers_are_told_and_stay_what_they_are() {
    let spec = decided(Step::Tell, None);
    assert_eq!(secret_of(&spec.source), "old");
    assert_eq!(spec.move_progress, MoveProgress::UnderWay);
    let between = spec.between.unwrap();
    assert_eq!(between.stage, Stage::Moving);
    assert_eq!(between.source.name, "External (secret old)");
    assert_eq!(between.source.remains, "it stays as it was");
    let egress = between.egress.unwrap();
    assert_eq!(egress.cidrs, ["192.0.2.0/24"]);
    assert_eq!(egress.ports, BTreeSet::from([7654]));
    assert!(between.target.is_some());
    assert!(between.watched.contains(&Watched::Secret("new".to_owned())));

    let secret = between.secret.unwrap();
    assert_eq!(secret["port"], b"7654");
    assert_eq!(secret[move_file::ORDER], b"uid-1/3");
    let notes = Notes::read(&secret).unwrap();
    assert_eq!(secret_of(&notes.specification), "new");
    assert_eq!(notes.source.egress.ports, BTreeSet::from([6543]));
    assert_eq!(notes.moved_to, None);
}

#[test]
fn an_order_that_cannot_be_renewed_stays() {
    let before = ordered();
    let mut found = found(Step::Tell, Some(before.clone()));
    found.between.objects = Objects::default();
    let between = validate(&external("new"), &found).unwrap().between.unwrap();
    assert_eq!(between.secret, Some(before));
    assert!(between.waits_for.unwrap().contains("target/new is missing"));
}

#[test]
fn an_order_whose_notes_cannot_be_read_stays_and_its_user_is_told() {
    let mut secret = ordered();
    let notes = secret.get_mut("notes.json").unwrap();
    notes.truncate(9);
    let between = decided(Step::Keep, Some(secret.clone())).between.unwrap();
    assert_eq!(between.secret, Some(secret));
    assert!(between.waits_for.unwrap().contains("delete the Secret"));
    let readable = decided(Step::Keep, Some(ordered())).between.unwrap();
    assert_eq!(readable.waits_for, None);
}

#[test]
fn before_anything_is_known_there_is_no_order() {
    for step in [Step::Look, Step::Wait("it is away".to_owned())] {
        let waits = matches!(step, Step::Wait(_));
        let spec = decided(step, None);
        // One that waits for days is not looked at all the time.
        assert_eq!(spec.move_progress == MoveProgress::None, waits);
        let between = spec.between.unwrap();
        assert_eq!((between.secret, between.egress), (None, None));
        assert!(between.target.is_some(), "it is examined");
    }
}

/// The one of the move from an embedded database goes when no pod needs it.
#[test]
fn a_secret_of_another_move_goes_first() {
    for rolled_out in [false, true] {
        let mut found = found(Step::Clear, Some(Values::new()));
        found.inside.moving.rolled_out = rolled_out;
        let spec = validate(&external("new"), &found).unwrap();
        assert_eq!(spec.move_progress == MoveProgress::Over, rolled_out);
        let between = spec.between.unwrap();
        assert_eq!((between.stage, between.secret), (Stage::Looking, None));
    }
}

#[test]
fn an_order_is_not_taken_back_for_a_specification_that_is_refused() {
    let before = ordered();
    let mut found = found(Step::GiveUp, Some(before.clone()));
    let told = |found: &Dereferenced| {
        let spec = validate(&external("old"), found).unwrap();
        spec.between.unwrap().secret.unwrap()
    };
    assert!(told(&found).contains_key(move_file::GIVE_UP));
    found.kept = true;
    assert_eq!(told(&found), before);
}

#[test]
fn the_history_is_noted_before_anything_is_changed() {
    let spec = decided(Step::Note("new-history".to_owned()), Some(ordered()));
    assert_eq!(secret_of(&spec.source), "old");
    let between = spec.between.unwrap();
    let notes = Notes::read(&between.secret.unwrap()).unwrap();
    assert_eq!(notes.moved_to.as_deref(), Some("new-history"));
    assert!(between.target.is_some(), "it is examined once more");
}

/// The status still names the history of the database that the reports have left.
#[test]
fn the_new_history_counts_at_once_and_the_way_to_the_old_database_stays_open() {
    let mut object = external("new");
    let status = object.status.get_or_insert_default();
    status.database.get_or_insert_default().history = Some("old-history".to_owned());
    for (step, over) in [
        (Step::Switch("new-history".to_owned()), false),
        (Step::Finish("new-history".to_owned()), false),
        (Step::Over("new-history".to_owned()), true),
    ] {
        let mut found = found(step, Some(ordered()));
        found.between.in_force = None;
        found.inside.connection = objects("new", "8765");
        let spec = validate(&object, &found).unwrap();
        assert_eq!(spec.history.as_deref(), Some("new-history"));
        assert_eq!(secret_of(&spec.source), "new");
        assert_eq!(spec.move_progress == MoveProgress::Over, over);
        let between = spec.between.unwrap();
        if over {
            assert_eq!((between.stage, between.secret), (Stage::Over, None));
            assert_eq!(between.egress, None);
            continue;
        }
        assert_eq!(between.stage, Stage::Moved);
        assert_eq!(between.egress.unwrap().ports, BTreeSet::from([6543]));
        // Old pods hear of another port, too.
        let (before, secret) = (ordered(), between.secret.unwrap());
        assert_eq!(secret["port"], b"8765");
        assert_eq!(secret[move_file::ORDER], before[move_file::ORDER]);
        assert_eq!(Notes::read(&secret), Notes::read(&before));
    }
}

/// Old pods find the reports by it, whatever stands against the specification.
#[test]
fn the_order_by_which_the_reports_have_moved_stays_beside_a_refused_specification() {
    let mut object = external("new");
    let server = json!({"serviceAccount": {"name": "missing"}});
    object.spec.server = serde_json::from_value(server).unwrap();
    let history = "new-history".to_owned();
    for (step, moved) in [
        (Step::Tell, false),
        (Step::Switch(history.clone()), true),
        (Step::Finish(history), true),
    ] {
        let mut found = found(step, Some(ordered()));
        found.between.in_force = None;
        found.inside.connection = objects("new", "8765");
        let refused = validate(&object, &found).unwrap_err();
        assert_eq!(refused.refusal.reason, reasons::NOT_ALLOWED);
        let between = refused.spec.unwrap().between;
        assert_eq!(between.is_some(), moved);
        let Some(between) = between else { continue };
        assert_eq!(between.stage, Stage::Moved);
        assert_eq!(between.secret.unwrap()["port"], b"8765");
    }
}

#[test]
fn what_is_given_up_is_over() {
    let spec = decided(Step::GivenUp, Some(ordered()));
    assert_eq!(spec.move_progress, MoveProgress::Over);
    assert_eq!(secret_of(&spec.source), "old");
    // What is asked for instead is not in force before the Secret is gone.
    let between = spec.between.unwrap();
    assert_eq!((between.stage, between.secret), (Stage::Looking, None));
}

#[test]
fn what_cannot_be_done_is_refused() {
    let refused = validate(
        &external("new"),
        &found(Step::Refuse("no".to_owned()), None),
    );
    assert_eq!(refused.unwrap_err().refusal.message, "no");
}

#[test]
fn what_remains_of_a_database_of_ours_is_named() {
    let managed = object(json!({"database": {"mode": "Managed"}}));
    let mut found = found(Step::Tell, None);
    found.between.in_force = Some(managed.spec);
    let spec = validate(&external("new"), &found).unwrap();
    let source = spec.between.unwrap().source;
    assert_eq!(source.name, "Managed");
    let words = "kubectl -n target delete pvc simple-postgres-data";
    assert!(source.remains.ends_with(words), "{}", source.remains);
    assert_eq!(source.egress.ports, BTreeSet::from([managed::PORT]));
}

/// One that is only used is somebody else's.
#[test]
fn a_cluster_of_cloud_native_pg_that_was_made_is_named() {
    let cases = [
        (json!({"create": {}}), true),
        (json!({"clusterRef": {"name": "c"}}), false),
    ];
    for (given, own) in cases {
        let left = object(json!({"database": {"mode": "CloudNativePG", "cloudNativePG": given}}));
        let mut found = found(Step::Tell, None);
        found.between.in_force = Some(left.spec);
        found.inside.cloud_native_pg = Some(cloudnativepg::Found {
            crd: true,
            cluster: None,
        });
        let spec = validate(&external("new"), &found).unwrap();
        let command = format!(
            "kubectl -n target delete {} {}",
            cloudnativepg::CRD,
            spec.names.postgres_cluster()
        );
        let remains = spec.between.unwrap().source.remains;
        assert_eq!(remains.ends_with(&command), own, "{remains}");
    }
}

fn to_the_volume() -> ReportsServer {
    let embedded = json!({"mode": "Embedded", "embedded": {"storage": {"size": "7Gi"}}});
    object(json!({"database": embedded, "networkPolicy": {"enabled": true}}))
}

/// Returns the Deployment of servers with or without the volume.
fn deployed(has_file: bool) -> Deployment {
    let file = json!({"name": "REPORTS_SERVER_MOVE_FILE", "value": "/f"});
    let mut env = vec![json!({"name": "REPORTS_SERVER_MOVE_DIR", "value": "/m"})];
    env.extend(has_file.then_some(file));
    serde_json::from_value(json!({"metadata": {"name": "d"}, "spec": {"selector": {},
        "template": {"spec": {"containers": [{"name": "server", "env": env}]}}}}))
    .unwrap()
}

fn homeward(step: Step, secret: Option<Values>, has_file: bool) -> Between {
    let mut found = found(step, secret);
    found.inside.deployment = Some(deployed(has_file));
    let spec = validate(&to_the_volume(), &found).unwrap();
    assert_eq!(secret_of(&spec.source), "old");
    spec.between.unwrap()
}

#[test]
fn one_server_gets_the_volume_before_anything_is_moved() {
    let between = homeward(Step::Prepare("one is made".to_owned()), None, false);
    assert_eq!(between.stage, Stage::Waiting);
    assert_eq!((between.secret, between.egress), (None, None));
    assert_eq!(between.waits_for.as_deref(), Some("one is made"));
    let home = between.home.unwrap();
    let size = match home.storage.unwrap() {
        Storage::Claim { size, .. } => size.0,
        Storage::EmptyDir { .. } => panic!("it is gone with the pod"),
    };
    assert_eq!(size, "7Gi");
    assert_eq!(home.template, None);
    // Once it has it, its pod stays.
    let between = homeward(Step::Prepare("it is not ready".to_owned()), None, true);
    let template = between.home.unwrap().template;
    assert_eq!(template, Some(deployed(true).spec.unwrap().template));
}

#[test]
fn the_server_with_the_volume_is_told_and_keeps_it_until_the_end() {
    let told = homeward(Step::Tell, None, true);
    assert_eq!((told.stage, told.egress), (Stage::Moving, None));
    let secret = told.secret.unwrap();
    assert!(secret.contains_key(move_file::TO_FILE));
    assert!(told.home.unwrap().storage.is_some());
    for step in [
        Step::Keep,
        Step::GiveUp,
        Step::Note(String::new()),
        Step::TellAgain,
    ] {
        let between = homeward(step, Some(secret.clone()), true);
        assert!(between.home.unwrap().template.is_some());
    }
    for step in [Step::GivenUp, Step::Over(String::new())] {
        let between = homeward(step, Some(secret.clone()), true);
        assert_eq!((between.secret, between.home), (None, None));
    }
}

#[test]
fn the_embedded_server_follows_with_a_way_back_to_the_mark() {
    let secret = between::noted(homeward(Step::Tell, None, true).secret.unwrap(), "");
    let mut found = found(Step::Switch(String::new()), Some(secret.clone()));
    found.between.in_force = None;
    let spec = validate(&to_the_volume(), &found).unwrap();
    assert!(spec.database.postgres().is_none());
    assert_eq!(spec.history, None);
    let between = spec.between.unwrap();
    assert_eq!((between.stage, between.home), (Stage::Moved, None));
    assert_eq!(between.secret, Some(secret));
    assert_eq!(between.egress.unwrap().ports, BTreeSet::from([6543]));
}
