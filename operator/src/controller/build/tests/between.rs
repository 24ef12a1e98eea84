//! The move from a PostgreSQL.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::json;

use super::{Validated, build, material, on_postgres, operator, value};
use crate::controller::fixtures::between;
use crate::controller::validate::{Autoscaling, Between, Home, Replicas, Stage};
use crate::database::place::Storage;

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

/// Returns the specification of servers whose reports are to move to a volume.
fn going_home(template: Option<PodTemplateSpec>) -> Validated {
    let storage = Storage::Claim {
        size: Quantity("7Gi".to_owned()),
        class: None,
    };
    let home = Home {
        storage: Some(storage),
        template,
    };
    let mut spec = on_postgres(json!({}), 2);
    spec.between = Some(Between {
        home: Some(home),
        ..between(Stage::Waiting)
    });
    spec
}

/// The new pod is beside the old ones until it is ready, and the only one then.
#[test]
fn one_server_has_the_volume_beside_its_database() {
    let built = build(&going_home(None), &material(), &operator());
    let claim = value(&built.data);
    assert_eq!(claim["metadata"]["name"], "simple-data");
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "7Gi");
    let deployment = value(&built.deployment)["spec"].clone();
    assert_eq!(deployment["replicas"], 1);
    assert_eq!(deployment["strategy"]["type"], "RollingUpdate");
    let pod = &deployment["template"]["spec"];
    let volumes = pod["volumes"].as_array().unwrap();
    let volume = volumes.iter().find(|volume| volume["name"] == "data");
    let claim = &volume.unwrap()["persistentVolumeClaim"];
    assert_eq!(claim["claimName"], "simple-data");
    let server = &pod["containers"][0];
    let mounts = server["volumeMounts"].as_array().unwrap();
    let mount = json!({"name": "data", "mountPath": "/var/lib/reports-server", "readOnly": false});
    assert!(mounts.contains(&mount), "{mounts:?}");
    let variables = server["env"].as_array().unwrap();
    for (name, value) in [
        (
            "REPORTS_SERVER_MOVE_FILE",
            "/var/lib/reports-server/reports.db",
        ),
        ("SQLITE_TMPDIR", "/var/lib/reports-server"),
    ] {
        let variable = json!({"name": name, "value": value});
        assert!(variables.contains(&variable), "{variables:?}");
    }
    let args = server["args"].to_string();
    assert!(args.contains("--database-dir="), "{args}");
}

/// A pod on another node could not get the volume.
#[test]
fn a_server_that_has_the_volume_stays_as_it_is() {
    let present: PodTemplateSpec =
        serde_json::from_value(json!({"spec": {"containers": [{"name": "deployed"}]}})).unwrap();
    let spec = going_home(Some(present.clone()));
    let built = build(&spec, &material(), &operator());
    assert_eq!(built.deployment.spec.unwrap().template, present);
}

/// An autoscaler is not removed meanwhile.
#[test]
fn an_autoscaler_lets_the_one_server_be() {
    let mut spec = going_home(None);
    spec.scale.replicas = Replicas::Auto(Autoscaling {
        min: 2,
        max: 5,
        metrics: Vec::new(),
    });
    let built = build(&spec, &material(), &operator());
    let scaler = built.autoscaler.unwrap().spec.unwrap();
    assert_eq!((scaler.min_replicas, scaler.max_replicas), (Some(1), 1));
    assert_eq!(built.deployment.spec.unwrap().replicas, Some(1));
}
