//! A PostgreSQL that the operator runs, as a cluster would get it.

use serde_json::{Value, json};

use super::{all, children, existing, value, yaml};
use crate::controller::fixtures::{material, operator, validated};
use crate::database::managed::upgrade::{Run, Volume};
use crate::database::managed::{Children, Known};
use crate::security;

/// Returns every child, with its field's name. Taken apart without `..`: a new one cannot be left out.
pub fn all_of(children: Children) -> Vec<(&'static str, Value)> {
    let Children {
        password,
        tls,
        client,
        config,
        data,
        service,
        pods,
        stateful_set,
        upgrade,
        recovery,
        backups,
        backup,
    } = children;
    let new = upgrade.as_ref();
    let upgrade_job = match new.and_then(|new| new.run.as_ref()) {
        Some(Run::Begin(job)) => value(job),
        _ => Value::Null,
    };
    existing([
        ("password", value(&password)),
        ("tls", value(&tls)),
        ("client", value(&client)),
        ("config", value(&config)),
        ("data", value(&data)),
        ("service", value(&service)),
        ("pods", value(&pods)),
        ("stateful_set", value(&stateful_set)),
        ("upgrade_data", value(&new.map(|new| &new.data))),
        ("upgrade_config", value(&new.map(|new| &new.config))),
        ("upgrade_job", upgrade_job),
        ("recovery", value(&recovery)),
        ("backups", value(&backups)),
        ("backup", value(&backup)),
    ])
}

fn managed(spec: Value) -> Children {
    let known = Known {
        password: "secret".into(),
        ..Known::default()
    };
    let spec = validated(spec).reconciled_with(known).unwrap();
    super::build(&spec, &material(), &operator())
        .managed
        .unwrap()
}

#[test]
fn children_of_the_smallest_database() {
    insta::assert_snapshot!(yaml(&all_of(managed(
        json!({"database": {"mode": "Managed"}})
    ))));
}

#[test]
fn a_database_with_everything_said() {
    let children = managed(json!({
        "database": {"mode": "Managed", "pool": {"maxConnections": 40}, "managed": {
            "version": "15",
            "storage": {"size": "100Gi", "storageClassName": "fast"},
            "resources": {"requests": {"memory": "8Gi"}, "limits": {"cpu": "4", "memory": "8Gi"}},
        }},
        "server": {"replicas": 3, "nodeSelector": {"zone": "a"},
            "tolerations": [{"operator": "Exists"}], "priorityClassName": "high"},
        "images": {"registry": "mirror.example", "pullSecrets": [{"name": "pull"}],
            "postgres": {"pullPolicy": "Always"}},
    }));
    let config = children.config.data.unwrap()["postgresql.conf"].clone();
    let pod = children.stateful_set.spec.unwrap().template.spec;
    let mut pod = value(&pod);
    // Probes and mounts are those of the smallest one.
    for container in pod["containers"].as_array_mut().unwrap() {
        let fields = container.as_object_mut().unwrap();
        fields.retain(|name, _| {
            ["image", "imagePullPolicy", "name", "resources"].contains(&name.as_str())
        });
    }
    pod.as_object_mut().unwrap().remove("volumes");
    let data = value(&children.data);
    insta::assert_snapshot!(format!(
        "{}---\n{config}",
        yaml(&[("data", data), ("pod", pod)])
    ));
}

#[test]
fn its_pod_passes_the_restricted_standard() {
    let children = managed(json!({"database": {"mode": "Managed"}}));
    let pod = children.stateful_set.spec.unwrap().template.spec.unwrap();
    assert_eq!(security::violations(&pod), Vec::<String>::new());
}

#[test]
fn volume_and_password_stay_unless_the_user_confirms() {
    let stay = |spec: Value, annotated: bool| {
        let mut object = crate::controller::fixtures::object(spec);
        let confirm = (
            "reports-server.io/confirm-data-deletion".to_owned(),
            "simple".to_owned(),
        );
        object.metadata.annotations = annotated.then(|| [confirm].into());
        let read = crate::controller::fixtures::read();
        let spec = crate::controller::validate::specification(&object, &read).unwrap();
        let built = super::build(&spec, &material(), &operator())
            .managed
            .unwrap();
        all_of(built)
            .into_iter()
            .filter(|(_, object)| object["metadata"]["ownerReferences"].is_null())
            .map(|(name, _)| name)
            .collect::<Vec<_>>()
    };
    let spec = json!({"database": {"mode": "Managed"}, "deletionPolicy": {"data": "Delete"}});
    assert_eq!(stay(spec.clone(), false), ["password", "data"]);
    assert_eq!(stay(spec, true), Vec::<&str>::new());
}

#[test]
fn the_servers_reach_it_by_the_name_in_its_certificate() {
    let spec = validated(json!({"database": {"mode": "Managed"}}));
    let children = children(json!({"database": {"mode": "Managed"}}));
    let host = children.connection.unwrap().data.unwrap()["host"].clone();
    let names = &spec.certs.database.unwrap().server;
    assert!(names.contains(&host), "{host} in {names:?}");
    let service = children.managed.unwrap().service;
    let name = service.metadata.name.unwrap();
    assert!(host.starts_with(&format!("{name}.target.")), "{host}");
}

#[test]
fn services_select_its_pod_and_not_the_servers() {
    let children = children(json!({"database": {"mode": "Managed"}}));
    let database = children.managed.unwrap();
    let labels = database
        .stateful_set
        .spec
        .unwrap()
        .template
        .metadata
        .unwrap()
        .labels
        .unwrap();
    let matches = |selector: Option<std::collections::BTreeMap<String, String>>| {
        selector
            .unwrap()
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value))
    };
    assert!(matches(database.service.spec.unwrap().selector));
    assert!(matches(database.pods.spec.unwrap().selector));
    assert!(!matches(children.service.spec.unwrap().selector));
}

#[test]
fn the_pod_is_started_anew_only_for_what_takes_a_restart() {
    let key = |spec: Value| {
        let template = managed(spec).stateful_set.spec.unwrap().template;
        template.metadata.unwrap().annotations.unwrap()
    };
    let of = |size: &str, memory: &str, replicas: i32| {
        json!({"database": {"mode": "Managed", "managed": {"storage": {"size": size},
            "resources": {"limits": {"memory": memory}}}}, "server": {"replicas": replicas}})
    };
    let small = key(of("10Gi", "1Gi", 2));
    assert_eq!(
        small,
        key(of("10Gi", "1Gi", 3)),
        "connections come in steps"
    );
    assert_eq!(
        small,
        key(of("100Gi", "1Gi", 2)),
        "the log's size is read again"
    );
    assert_ne!(
        small,
        key(of("10Gi", "2Gi", 2)),
        "shared memory is taken at the start"
    );
}

#[test]
fn nothing_of_it_is_swept_away() {
    let children = children(json!({"database": {"mode": "Managed"},
        "server": {"autoscaling": {"maxReplicas": 4}}}));
    let kept = format!("{:?}", children.kept());
    for (name, object) in all(children) {
        let namespaced = object["metadata"]["namespace"] == "target";
        let swept = !["PersistentVolumeClaim"].contains(&object["kind"].as_str().unwrap());
        if namespaced && swept {
            let named = object["metadata"]["name"].as_str().unwrap();
            assert!(
                kept.contains(&format!("{named:?}")),
                "{name}: {named} in {kept}"
            );
        }
    }
}

fn recovery() -> Value {
    json!({
        "database": {"mode": "Managed", "backup": {"schedule": "30 1 * * *", "retention": "48h",
            "destination": {"pvc": {"storage": {"size": "5Gi", "storageClassName": "slow"}}}},
            "managed": {"bootstrap": {"recovery": {"backupName": "before-upgrade"}}}},
        "server": {"autoscaling": {"maxReplicas": 4}},
    })
}

#[test]
fn backups_and_the_way_back() {
    let children = managed(recovery());
    let objects = [
        ("recovery", value(&children.recovery)),
        ("backups", value(&children.backups)),
        ("backup", value(&children.backup)),
    ];
    insta::assert_snapshot!(yaml(&objects));
}

#[test]
fn their_pods_pass_the_restricted_standard() {
    let children = managed(recovery());
    let job = children.recovery.unwrap().spec.unwrap();
    let cron = children
        .backup
        .unwrap()
        .spec
        .unwrap()
        .job_template
        .spec
        .unwrap();
    for job in [job, cron] {
        let pod = job.template.spec.unwrap();
        assert_eq!(security::violations(&pod), Vec::<String>::new());
    }
}

#[test]
fn no_server_runs_and_no_backup_is_made_before_the_restore() {
    let at = |known: Known| {
        let spec = validated(recovery()).reconciled_with(known).unwrap();
        let children = super::build(&spec, &material(), &operator());
        let managed = children.managed.unwrap();
        let note = managed.data.metadata.annotations.unwrap();
        (
            children.deployment.spec.unwrap().replicas,
            children.autoscaler.is_some(),
            managed.backup.unwrap().spec.unwrap().suspend,
            managed.recovery.is_some(),
            note["reports-server.io/recovery"].clone(),
        )
    };
    let new = Known::default();
    assert_eq!(
        at(new),
        (Some(0), false, Some(true), true, "pending".to_owned())
    );
    let with = |note: &str| Known {
        volumes: vec![Volume {
            name: "simple-postgres-data".into(),
            recovery: Some(note.into()),
            ..Volume::default()
        }],
        ..Known::default()
    };
    let pending = with("pending");
    let waits = (Some(0), false, Some(true), true, "pending".to_owned());
    assert_eq!(at(pending.clone()), waits);
    let goes_on = (
        None,
        true,
        Some(false),
        false,
        "done:before-upgrade".to_owned(),
    );
    let restored = Known {
        restored: true,
        ..pending
    };
    assert_eq!(at(restored), goes_on);
    // The Job is gone: the volume remembers.
    assert_eq!(at(with("done:before-upgrade")), goes_on);
}

/// Backups go to a bucket, and the database starts with one of them.
fn bucket(recovery: &Value) -> Value {
    json!({
        "database": {"mode": "Managed",
            "backup": {"retention": "48h", "destination": {"s3": {
                "bucket": "kept", "prefix": "west", "endpoint": "https://s3.example",
                "credentialsSecretRef": {"name": "keys"}, "caSecretRef": {"name": "ca"}}}},
            "managed": {"bootstrap": {"recovery": recovery}}},
        "images": {"server": {"tag": "own"}},
    })
}

#[test]
fn a_file_is_dumped_before_it_is_sent_and_fetched_before_it_is_restored() {
    let children = managed(bucket(&json!({"backupName": "nightly"})));
    assert!(children.backups.is_none(), "a bucket needs no volume");
    let cron = value(&children.backup);
    let put = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"].clone();
    let get = value(&children.recovery)["spec"]["template"]["spec"].clone();
    for (pod, first, last) in [(&put, "postgres", "s3"), (&get, "s3", "postgres")] {
        assert_eq!(pod["initContainers"][0]["name"], first);
        assert_eq!(pod["containers"][0]["name"], last);
        assert_eq!(
            pod["volumes"][0],
            json!({"name": "backups", "emptyDir": {}})
        );
        let pod = serde_json::from_value(pod.clone()).unwrap();
        assert_eq!(security::violations(&pod), Vec::<String>::new());
    }
    let carrier = &put["containers"][0];
    assert_eq!(carrier["image"], "registry.example/reports-server:own");
    let common = [
        "--name=$(BACKUP_NAME)",
        "--directory=/backups",
        "--bucket=kept",
        "--prefix=west",
        "--endpoint=https://s3.example",
        "--ca-file=/etc/reports-s3/ca.crt",
    ];
    let args = |first: &[&str]| json!([first, common.as_slice()].concat());
    assert_eq!(
        carrier["args"],
        args(&["backup", "put", "--retention-minutes=2880"])
    );
    assert_eq!(get["initContainers"][0]["args"], args(&["backup", "get"]));
    let secrets: Vec<&Value> = carrier["env"].as_array().unwrap()[1..]
        .iter()
        .map(|variable| &variable["valueFrom"]["secretKeyRef"]["name"])
        .collect();
    assert_eq!(secrets, ["keys"; 3]);
}

#[test]
fn a_backup_is_where_the_user_says_else_where_backups_go() {
    let source = |recovery: Value| {
        let job = value(&managed(bucket(&recovery)).recovery);
        let volume = &job["spec"]["template"]["spec"]["volumes"][0];
        let args = &job["spec"]["template"]["spec"]["initContainers"][0]["args"];
        let claim = volume["persistentVolumeClaim"]["claimName"].as_str();
        let bucket = args.to_string();
        (claim.map(str::to_owned), bucket.contains("--bucket=other"))
    };
    assert_eq!(source(json!({"backupName": "a"})), (None, false));
    let claim = json!({"backupName": "a", "volumeClaimRef": {"name": "old"}});
    assert_eq!(source(claim), (Some("old".to_owned()), false));
    let other = json!({"backupName": "a", "s3": {"bucket": "other",
        "credentialsSecretRef": {"name": "keys"}}});
    assert_eq!(source(other), (None, true));
}
