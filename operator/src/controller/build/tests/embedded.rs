//! Backups of an embedded database, and the restore of one, as a cluster would get them.

use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec};
use serde_json::{Value, json};

use super::{Validated, build, children, existing, value};
use crate::controller::fixtures::{material, operator, validated};
use crate::database::embedded::{Children, Known};
use crate::security;

/// Returns every child, with its field's name. Taken apart without `..`: a new one cannot be left out.
pub fn all_of(children: Children) -> Vec<(&'static str, Value)> {
    let Children {
        recovery,
        backups,
        backup,
    } = children;
    existing([
        ("recovery", value(&recovery)),
        ("backups", value(&backups)),
        ("backup", value(&backup)),
    ])
}

fn bucket() -> Value {
    json!({"bucket": "reports", "prefix": "west", "credentialsSecretRef": {"name": "s3"},
        "caSecretRef": {"name": "s3-ca"}})
}

fn backed_up(destination: &Value) -> Value {
    json!({"database": {"backup": {"schedule": "5 * * * *", "retention": "2h",
        "destination": destination}}})
}

fn embedded(spec: Value) -> Children {
    children(spec).embedded.unwrap()
}

/// Returns the specification of a database that starts with a backup.
fn starting(known: Known) -> Validated {
    let recovery = json!({"recovery": {"backupName": "nightly"}});
    let spec = validated(json!({"database": {"embedded": {"bootstrap": recovery}}}));
    spec.embedded_reconciled_with(known).unwrap()
}

/// Returns what is known of a volume that is waiting for its backup.
fn pending(restored: bool) -> Known {
    Known {
        claim: Some("uid-of-claim".into()),
        note: Some("pending".into()),
        restored,
    }
}

fn template_of_backup(children: &Children) -> PodTemplateSpec {
    let cron_job = children.backup.clone().unwrap().spec.unwrap();
    cron_job.job_template.spec.unwrap().template
}

fn args(container: &Value) -> Vec<String> {
    serde_json::from_value(container["args"].clone()).unwrap()
}

#[test]
fn a_database_without_backups_has_no_more_than_its_server() {
    let children = children(json!({}));
    assert_eq!(all_of(children.embedded.clone().unwrap()), []);
    let kept = children.kept();
    assert_eq!((kept.cron_jobs, kept.jobs), (Vec::new(), Vec::new()));
    let pod = value(&children.deployment)["spec"]["template"]["spec"].clone();
    assert!(!pod.to_string().contains("copies"), "{pod}");
}

#[test]
fn a_backup_on_a_volume_is_a_copy_that_the_server_sends() {
    let children = children(backed_up(&json!({"pvc": {"storage": {"size": "3Gi"}}})));
    assert_eq!(children.kept().cron_jobs, ["simple-backup"]);
    let own = children.embedded.clone().unwrap();
    let cron_job = value(&own.backup);
    assert_eq!(cron_job["metadata"]["name"], "simple-backup");
    assert_eq!(cron_job["spec"]["schedule"], "5 * * * *");
    assert_eq!(cron_job["spec"]["suspend"], false);
    let claim = value(&own.backups);
    assert_eq!(claim["metadata"]["name"], "simple-backup");
    assert_eq!(claim["metadata"]["ownerReferences"], Value::Null);
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "3Gi");
    let pod = value(&template_of_backup(&own).spec);
    assert_eq!(pod["serviceAccountName"], "simple-server");
    assert_eq!(pod["automountServiceAccountToken"], true);
    assert_eq!(
        args(&pod["containers"][0]),
        [
            "backup",
            "make",
            "--server=https://simple-server.target.svc",
            "--ca-file=/etc/reports-server-ca/ca.crt",
            "--retention-minutes=120",
            "--name=$(BACKUP_NAME)",
            "--directory=/backups",
            "--cluster-uid=uid-of-kube-system",
        ]
    );
    // The key of the certificate is none of its business.
    let ca = json!([{"key": "ca.crt", "path": "ca.crt"}]);
    assert_eq!(pod["volumes"][0]["secret"]["items"], ca);
    let server = value(&children.deployment)["spec"]["template"]["spec"].clone();
    let told = args(&server["containers"][0]);
    let directory = "/var/lib/reports-server-copies";
    assert!(
        told.contains(&format!("--copy-dir={directory}")),
        "{told:?}"
    );
    let mounts = server["containers"][0]["volumeMounts"].as_array().unwrap();
    let mount = mounts.iter().find(|mount| mount["mountPath"] == directory);
    let volumes = server["volumes"].as_array().unwrap();
    let volume = volumes
        .iter()
        .find(|volume| volume["name"] == mount.unwrap()["name"]);
    assert_eq!(volume.unwrap()["emptyDir"], json!({}));
}

#[test]
fn a_backup_in_a_bucket_is_carried_there_when_it_is_whole() {
    let own = embedded(backed_up(&json!({"s3": bucket()})));
    assert!(own.backups.is_none());
    let pod = value(&template_of_backup(&own).spec);
    let copy = args(&pod["initContainers"][0]);
    assert_eq!(copy[..2], ["backup", "make"]);
    assert!(
        !copy.iter().any(|arg| arg.contains("retention")),
        "{copy:?}"
    );
    let put = args(&pod["containers"][0]);
    assert_eq!(put[..3], ["backup", "put", "--retention-minutes=120"]);
    assert!(put.contains(&"--prefix=west".to_owned()), "{put:?}");
}

#[test]
fn a_backup_is_restored_before_the_server_starts() {
    // The Job comes when there is a volume for it.
    let children = build(&starting(Known::default()), &material(), &operator());
    assert!(children.embedded.unwrap().recovery.is_none());
    assert_eq!(children.deployment.spec.unwrap().replicas, Some(0));

    let spec = starting(pending(false));
    let children = build(&spec, &material(), &operator());
    let job = children.embedded.clone().unwrap().recovery.unwrap();
    let name = job.metadata.name.clone().unwrap();
    assert!(name.starts_with("simple-recovery-"), "{name}");
    assert_eq!(children.kept().jobs, [name]);
    let pod = value(&job.spec.unwrap().template.spec);
    let restore = args(&pod["containers"][0]);
    assert_eq!(
        restore[..3],
        [
            "backup",
            "restore",
            "--database=/var/lib/reports-server/reports.db"
        ]
    );
    let volumes = pod["volumes"].as_array().unwrap().iter();
    let claims = volumes.map(|own| &own["persistentVolumeClaim"]["claimName"]);
    assert_eq!(claims.collect::<Vec<_>>(), ["simple-data", "simple-backup"]);
    assert_eq!(children.deployment.spec.unwrap().replicas, Some(0));
    let note = "reports-server.io/recovery";
    let of = |claim: &Value| claim["metadata"]["annotations"][note].clone();
    assert_eq!(of(&value(&children.data)), "pending");

    let children = build(&starting(pending(true)), &material(), &operator());
    assert!(children.embedded.unwrap().recovery.is_none());
    assert_eq!(children.deployment.spec.unwrap().replicas, Some(1));
    assert_eq!(of(&value(&children.data)), "done:nightly");
}

#[test]
fn the_pods_of_jobs_pass_the_restricted_standard() {
    let mut pods: Vec<PodSpec> = [json!({"pvc": {}}), json!({"s3": bucket()})]
        .iter()
        .filter_map(|destination| template_of_backup(&embedded(backed_up(destination))).spec)
        .collect();
    let children = build(&starting(pending(false)), &material(), &operator());
    let job = children.embedded.unwrap().recovery.unwrap();
    pods.extend(job.spec.unwrap().template.spec);
    assert_eq!(pods.len(), 3);
    for pod in pods {
        assert_eq!(security::violations(&pod), Vec::<String>::new());
    }
}
