//! The version, the image and the volume of a PostgreSQL that the operator runs.

use crds::v1alpha1::reasons;
use rstest::rstest;
use serde_json::{Value, json};

use crate::controller::fixtures::try_validate;
use crate::controller::validate::{Refusal, Validated};
use crate::database::managed::upgrade::Volume;
use crate::database::managed::{Known, Managed};

pub(super) fn managed(managed: &Value, image: &Value) -> Result<Validated, Refusal> {
    try_validate(json!({"database": {"mode": "Managed", "managed": managed},
        "images": {"postgres": image}}))
}

pub(super) fn settings(spec: &Validated) -> &Managed {
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
