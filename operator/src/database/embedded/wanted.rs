//! Backups and the restore of an embedded database as they are wanted, and the comparison with what
//! the namespace holds already.

use std::collections::BTreeMap;

use crds::v1alpha1::{ReportsServerSpec, reasons};
use k8s_openapi::api::core::v1::Toleration;
use sha2::{Digest, Sha256};

use crate::database::managed::backup::recovery_name;
use crate::database::managed::settings::{backup as backups_of, recovery as recovery_of};
use crate::database::managed::{Backup, Recovery, SettingsError, TransferImage};
use crate::database::notes::{self, DONE};
use crate::names::Names;

/// The wanted parts of an embedded database besides its volume.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedded {
    /// Backups, where they are asked for.
    pub backup: Option<Backup>,
    /// The server's image, which makes and restores backups.
    pub image: TransferImage,
    /// uid of the namespace `kube-system`.
    pub cluster_uid: String,
    /// Secrets with the registry's credentials.
    pub pull_secrets: Vec<String>,
    /// Labels that a node must have.
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Taints that are tolerated.
    pub tolerations: Option<Vec<Toleration>>,
    /// `PriorityClass`.
    pub priority_class: Option<String>,
    recovery: Option<Recovery>,
    known: Known,
}

/// The state of the restore of the backup that the database starts with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// uid of the claim of the volume, where there is one.
    pub claim: Option<String>,
    /// The note of the volume about the backup that it starts with.
    pub note: Option<String>,
    /// True when the Job that restores the backup into that volume has succeeded.
    pub restored: bool,
}

/// Reads the specification of the `ReportsServer` called `name`. `image` is the server's.
#[must_use]
pub fn settings(
    name: &str,
    spec: &ReportsServerSpec,
    image: TransferImage,
    cluster_uid: &str,
) -> Embedded {
    let database = spec.database.clone().unwrap_or_default();
    let embedded = database.embedded.unwrap_or_default();
    let recovery = embedded.bootstrap.and_then(|bootstrap| bootstrap.recovery);
    let recovery = recovery.map(|wanted| recovery_of(name, wanted, database.backup.as_ref()));
    let server = spec.server.clone().unwrap_or_default();
    let images = spec.images.clone().unwrap_or_default();
    let secrets = images.pull_secrets.into_iter().flatten();
    Embedded {
        backup: database.backup.map(backups_of),
        image,
        cluster_uid: cluster_uid.to_owned(),
        pull_secrets: secrets.map(|reference| reference.name).collect(),
        node_selector: server.node_selector,
        tolerations: server.tolerations,
        priority_class: server.priority_class_name,
        recovery,
        known: Known::default(),
    }
}

impl Embedded {
    /// Adapts what is wanted to what the namespace holds.
    ///
    /// # Errors
    /// If a backup should be restored into a database that exists.
    pub fn reconciled_with(self, known: Known) -> Result<Self, SettingsError> {
        if let Some(recovery) = &self.recovery {
            check(recovery, &known)?;
        }
        Ok(Self { known, ..self })
    }

    /// Returns the backup that the database starts with.
    #[must_use]
    pub fn recovery(&self) -> Option<&Recovery> {
        self.recovery.as_ref()
    }

    /// Returns the backup that still has to be restored before the server starts.
    #[must_use]
    pub fn recovering(&self) -> Option<&Recovery> {
        let note = self.known.note.as_deref();
        let done = self.known.restored || note.is_some_and(|note| note.starts_with(DONE));
        self.recovery.as_ref().filter(|_| !done)
    }

    /// Returns the name of the Job that restores it: none before there is a volume, and another one for
    /// each.
    #[must_use]
    pub fn job_name(&self, names: &Names) -> Option<String> {
        let claim = self.known.claim.as_deref()?;
        Some(job_name(self.recovery.as_ref()?, claim, names))
    }

    /// Returns the note for the volume about the backup that it starts with.
    #[must_use]
    pub fn recovery_note(&self) -> Option<String> {
        let recovery = self.recovery.as_ref()?;
        let pending = self.recovering().is_some();
        Some(notes::of_recovery(&recovery.backup, pending))
    }

    /// Returns whether there are Jobs for it.
    #[must_use]
    pub fn has_jobs(&self) -> bool {
        self.backup.is_some() || self.recovering().is_some()
    }
}

/// Returns the name of the Job that restores a backup into the volume with the uid `claim`. What was
/// restored into a volume that is lost says nothing about the next one.
#[must_use]
pub fn job_name(recovery: &Recovery, claim: &str, names: &Names) -> String {
    let mut hash = Sha256::new();
    hash.update(recovery_name(recovery, names));
    hash.update([0]);
    hash.update(claim);
    let hash: String = hex::encode(hash.finalize()).chars().take(8).collect();
    format!("{}-{hash}", names.recovery())
}

/// Checks that a backup is restored into a new volume only: nothing that is served is ever
/// overwritten.
fn check(recovery: &Recovery, known: &Known) -> Result<(), SettingsError> {
    let note = known.note.as_deref();
    let done = note.and_then(|note| note.strip_prefix(DONE));
    let why = match (done, note) {
        (Some(done), _) if done != recovery.backup => {
            format!("this database has started with {done} already")
        }
        (None, None) if known.claim.is_some() => "this database exists already".to_owned(),
        _ => return Ok(()),
    };
    Err(SettingsError {
        reason: reasons::INVALID_SPEC,
        message: format!(
            "spec.database.embedded.bootstrap.recovery: {why}; create a new ReportsServer with a \
             new volume to start with backup {} (docs/database.md, \"Backup and restore\")",
            recovery.backup
        ),
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::database::notes::PENDING;

    fn embedded() -> Embedded {
        let recovery = json!({"backupName": "nightly.dump"});
        let spec = json!({"targetNamespace": "target",
            "database": {"embedded": {"bootstrap": {"recovery": recovery}}}});
        let spec = serde_json::from_value(spec).unwrap();
        settings("simple", &spec, TransferImage::default(), "uid")
    }

    fn known(exists: bool, note: Option<&str>, restored: bool) -> Known {
        Known {
            claim: exists.then(|| "uid-of-claim".to_owned()),
            note: note.map(str::to_owned),
            restored,
        }
    }

    #[rstest]
    #[case::nothing_is_there(known(false, None, false), true, "pending")]
    #[case::it_is_under_way(known(true, Some("pending"), false), true, "pending")]
    #[case::the_job_is_done(known(true, Some("pending"), true), false, "done:nightly")]
    #[case::it_was_done(known(true, Some("done:nightly"), false), false, "done:nightly")]
    fn a_backup_is_restored_once(
        #[case] known: Known,
        #[case] recovering: bool,
        #[case] note: &str,
    ) {
        let embedded = embedded().reconciled_with(known).unwrap();
        assert_eq!(embedded.recovering().is_some(), recovering);
        assert_eq!(embedded.recovery_note().as_deref(), Some(note));
        assert_eq!(embedded.has_jobs(), recovering);
    }

    /// The Job of a volume that is lost has succeeded, and may be there still.
    #[test]
    fn each_volume_has_a_job_of_its_own() {
        let names = Names::new("simple");
        let name = |claim: Option<&str>| {
            let known = Known {
                claim: claim.map(str::to_owned),
                note: claim.map(|_| PENDING.to_owned()),
                restored: false,
            };
            embedded().reconciled_with(known).unwrap().job_name(&names)
        };
        assert_eq!(name(None), None);
        let [one, other] = ["one", "other"].map(|claim| name(Some(claim)).unwrap());
        assert!(one.starts_with("simple-recovery-"), "{one}");
        assert_ne!(one, other);
    }

    #[rstest]
    #[case::exists(known(true, None, false), "this database exists already")]
    #[case::another(
        known(true, Some("done:other"), false),
        "has started with other already"
    )]
    fn a_database_in_use_is_not_overwritten(#[case] known: Known, #[case] words: &str) {
        let error = embedded().reconciled_with(known).unwrap_err();
        assert_eq!(error.reason, reasons::INVALID_SPEC);
        assert!(error.message.contains(words), "{}", error.message);
    }
}
