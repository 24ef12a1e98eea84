//! The volumes of a managed database, and the choice of the one in use.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::super::constants::{RECOVERY_ANNOTATION, VERSION_ANNOTATION};

/// Annotation of a volume: the image with which the database on it has run.
pub const IMAGE_ANNOTATION: &str = "reports-server.io/postgres-image";
/// Annotation of a volume that an upgrade has made: [`PENDING`], or the version that it was made
/// from.
pub const UPGRADE_ANNOTATION: &str = "reports-server.io/upgrade";
/// Annotation of a volume whose contents are on a newer one: the name of that one, and the time.
pub const RETIRED_ANNOTATION: &str = "reports-server.io/retired";
/// Note on a volume that an upgrade has not filled and verified yet.
pub const PENDING: &str = "pending";

/// The notes on a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// Name of the `PersistentVolumeClaim`.
    pub name: String,
    /// Major version of the data.
    pub version: Option<u32>,
    /// Image of the database.
    pub image: Option<String>,
    /// The note about the backup that it started with.
    pub recovery: Option<String>,
    /// The note about the upgrade that made it.
    pub upgrade: Option<String>,
    /// The reason why it is not in use any more.
    pub retired: Option<String>,
    /// True when it is deleted with the `ReportsServer`.
    pub owned: bool,
}

impl Volume {
    /// Reads the notes of a claim.
    #[must_use]
    pub fn of(metadata: &ObjectMeta) -> Self {
        let annotations = metadata.annotations.as_ref();
        let note = |key: &str| annotations.and_then(|notes| notes.get(key)).cloned();
        let owners = metadata.owner_references.as_ref();
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            version: note(VERSION_ANNOTATION).and_then(|version| version.parse().ok()),
            image: note(IMAGE_ANNOTATION),
            recovery: note(RECOVERY_ANNOTATION),
            upgrade: note(UPGRADE_ANNOTATION),
            retired: note(RETIRED_ANNOTATION),
            owned: owners.is_some_and(|owners| !owners.is_empty()),
        }
    }

    fn is_pending(&self) -> bool {
        self.upgrade.as_deref() == Some(PENDING)
    }
}

/// The volumes of one database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volumes {
    /// The one in use.
    pub present: Option<Volume>,
    /// Those of earlier versions, whose contents are on [`Self::present`].
    pub earlier: Vec<Volume>,
    /// True when an upgrade has made a volume that is not filled yet.
    pub pending: bool,
}

/// The loss of the volume that was in use: only volumes of earlier versions are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The volumes that are left.
    pub left: Vec<Volume>,
}

impl Volumes {
    /// Tells the volumes apart. `first` is the name of the volume that a database begins with;
    /// those of upgrades have the version behind it, and others are not ours.
    ///
    /// A volume is in use from the moment when the note of the upgrade on it says that it is
    /// filled; of two such volumes, the one of the newer version is.
    ///
    /// # Errors
    /// If the volume in use is gone. An earlier one is not used in its place: it lacks what was
    /// written since the upgrade.
    pub fn sort(first: &str, all: impl IntoIterator<Item = Volume>) -> Result<Self, Lost> {
        let ours = |volume: &Volume| {
            let rest = volume.name.strip_prefix(first);
            let version = rest.and_then(|rest| rest.strip_prefix('-'));
            rest == Some("") || version.is_some_and(|version| version.parse::<u32>().is_ok())
        };
        let (pending, mut filled): (Vec<_>, Vec<_>) =
            all.into_iter().filter(ours).partition(Volume::is_pending);
        filled.sort_by_key(|volume| (volume.retired.is_none(), volume.version));
        let present = filled.pop();
        match present {
            Some(present) if present.retired.is_some() => {
                filled.push(present);
                Err(Lost { left: filled })
            }
            present => Ok(Self {
                present,
                earlier: filled,
                pending: !pending.is_empty(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn volume(name: &str, version: u32, upgrade: Option<&str>, retired: bool) -> Volume {
        Volume {
            name: name.into(),
            version: Some(version),
            upgrade: upgrade.map(str::to_owned),
            retired: retired.then(|| "its contents are on another one".to_owned()),
            ..Volume::default()
        }
    }

    #[rstest]
    #[case::none(vec![], None, &[])]
    #[case::one(vec![volume("d", 15, None, false)], Some("d"), &[])]
    #[case::being_filled(
        vec![volume("d", 15, None, false), volume("d-17", 17, Some(PENDING), false)], Some("d"), &[]
    )]
    #[case::just_filled(
        vec![volume("d-17", 17, Some("15"), false), volume("d", 15, None, false)], Some("d-17"), &["d"]
    )]
    #[case::twice(
        vec![volume("d-16", 16, Some("15"), true), volume("d", 15, None, true),
            volume("d-18", 18, Some("16"), false)],
        Some("d-18"), &["d", "d-16"]
    )]
    #[case::first_deleted(vec![volume("d-17", 17, Some("15"), false)], Some("d-17"), &[])]
    #[case::of_others(vec![volume("d-x", 17, None, false), volume("other-17", 17, None, false)], None, &[])]
    fn the_newest_that_is_filled_is_in_use(
        #[case] all: Vec<Volume>,
        #[case] present: Option<&str>,
        #[case] earlier: &[&str],
    ) {
        let sorted = Volumes::sort("d", all).unwrap();
        assert_eq!(sorted.present.map(|volume| volume.name).as_deref(), present);
        let names: Vec<_> = sorted.earlier.iter().map(|v| v.name.as_str()).collect();
        assert_eq!(names, earlier);
    }

    #[test]
    fn a_volume_that_was_retired_is_never_used_again_by_itself() {
        let lost = Volumes::sort("d", [volume("d", 15, None, true)]).unwrap_err();
        assert_eq!(lost.left[0].name, "d");
        let pending = volume("d-17", 17, Some(PENDING), false);
        assert!(Volumes::sort("d", [volume("d", 15, None, true), pending]).is_err());
    }

    #[test]
    fn what_is_noted_on_a_claim_is_read() {
        let metadata = serde_json::from_value(serde_json::json!({"name": "d-17", "annotations": {
            VERSION_ANNOTATION: "17", UPGRADE_ANNOTATION: PENDING, IMAGE_ANNOTATION: "i:17",
            RECOVERY_ANNOTATION: "done:x", RETIRED_ANNOTATION: "long ago"}}))
        .unwrap();
        let expected = Volume {
            name: "d-17".into(),
            version: Some(17),
            image: Some("i:17".into()),
            recovery: Some("done:x".into()),
            upgrade: Some(PENDING.into()),
            retired: Some("long ago".into()),
            owned: false,
        };
        assert_eq!(Volume::of(&metadata), expected);
    }
}
