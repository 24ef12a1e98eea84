//! The move from one PostgreSQL to another.

use serde_json::json;

use super::{build, material, on_postgres, operator, value};
use crate::controller::fixtures::between;
use crate::controller::validate::{Between, Stage};

/// The servers hear of a destination without another pod.
#[test]
fn an_order_lies_beside_pods_that_stay_as_they_are() {
    let mut spec = on_postgres(json!({}), 2);
    let before = build(&spec, &material(), &operator());
    assert!(before.database_move.is_none());
    let pod = value(&before.deployment)["spec"]["template"]["spec"].clone();
    let server = &pod["containers"][0];
    // A server of the release before would not start with the flag.
    let variable = json!({"name": "REPORTS_SERVER_MOVE_DIR", "value": "/etc/reports-server/move"});
    assert!(server["env"].as_array().unwrap().contains(&variable));
    let args = server["args"].to_string();
    assert!(!args.contains("--move-database-dir"), "{args}");
    let mounts = server["volumeMounts"].as_array().unwrap();
    let mount = json!({"name": "move", "mountPath": "/etc/reports-server/move", "readOnly": true});
    assert!(mounts.contains(&mount), "{mounts:?}");
    let volumes = pod["volumes"].as_array().unwrap();
    let volume = volumes.iter().find(|volume| volume["name"] == "move");
    let secret = &volume.unwrap()["secret"];
    assert_eq!(secret["secretName"], "simple-database-move");
    assert_eq!(secret["optional"], true);

    spec.between = Some(Between {
        secret: Some([("host".to_owned(), b"h".to_vec())].into()),
        ..between(Stage::Moving)
    });
    let built = build(&spec, &material(), &operator());
    assert_eq!(value(&built.deployment), value(&before.deployment));
    assert_eq!(value(&built.accepted), value(&before.accepted));
    let secret = built.database_move.unwrap();
    assert_eq!(
        secret.metadata.name.as_deref(),
        Some("simple-database-move")
    );
    assert_eq!(secret.data.unwrap()["host"].0, b"h");
}
