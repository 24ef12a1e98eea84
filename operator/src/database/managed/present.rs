//! The comparison of the wanted database with what the namespace holds already.

use crds::v1alpha1::reasons;

use super::settings::SettingsError;
use super::upgrade::{self, Database, Seen, Upgrade, Volume, Volumes};
use super::wanted::{Managed, Present, Recovery};
use crate::database::notes::{self, DONE};

/// The parts of the database that the namespace holds already.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The superuser's password.
    pub password: String,
    /// Claims of the database, and others of the namespace.
    pub volumes: Vec<Volume>,
    /// True when the Job that restores the backup has succeeded.
    pub restored: bool,
    /// The state of the database, and of an upgrade that was begun.
    pub seen: Seen,
}

impl Managed {
    /// Returns the same database with the major version that it has, whatever is asked for: an
    /// upgrade is not begun, and one under way is given up.
    #[must_use]
    pub fn staying(mut self) -> Self {
        self.stays = true;
        self
    }

    /// Adapts the wanted database to what the namespace holds.
    ///
    /// # Errors
    /// If the volume is of a newer major version, or lost, or a backup should be restored into a
    /// database that exists.
    pub fn reconciled_with(self, known: Known) -> Result<Self, SettingsError> {
        let Known {
            password,
            volumes,
            restored,
            seen,
        } = known;
        let volumes = Volumes::sort(&self.names.postgres_data(), volumes);
        let present = Present {
            volumes: volumes.map_err(|lost| gone(&lost.left))?,
            restored,
            stopped: false,
            clear: false,
        };
        self.check_recovery(&present)?;
        let version = present.volume().and_then(|volume| volume.version);
        let mut met = self;
        met.password = password;
        met.present = present;
        match version {
            Some(version) if met.explicit && met.version < version => Err(met.older(version)),
            Some(version) if met.explicit && met.version > version => {
                Ok(met.upgraded(version, &seen))
            }
            present => Ok(met.kept(present, &seen)),
        }
    }

    /// Returns the database without an upgrade; one may have been wanted before.
    fn kept(mut self, version: Option<u32>, seen: &Seen) -> Self {
        self.version = version.unwrap_or(self.version);
        let left = !seen.jobs.is_empty() || seen.live;
        // One that is given up may have the volume still, and nothing of it must be left that could
        // be taken for a copy later.
        let held = seen.live || (left && self.present.volumes.pending);
        self.present.stopped = held && seen.database == Database::Stopped;
        self.present.clear = left;
        self
    }

    /// Returns the database as it is, of `version`, with the next stage of the upgrade to the
    /// wanted version.
    fn upgraded(self, version: u32, seen: &Seen) -> Self {
        let target = self.clone();
        let image = self
            .present
            .volume()
            .and_then(|volume| volume.image.clone());
        let mut met = self;
        met.version = version;
        met.pinned = image.or_else(|| seen.image.clone());
        if met.pinned.is_none() {
            met.image.tag = None;
            met.image.digest = None;
        }
        // A backup is restored first.
        if met.stays || met.recovering().is_some() {
            return met.kept(Some(version), seen);
        }
        let (check, copy) = upgrade::job_names(&met, &target);
        let stage = upgrade::plan(seen, &check, &copy);
        met.present.stopped = stage.is_stopped();
        met.present.clear = matches!(stage, upgrade::Stage::Clearing { .. });
        let mut upgrade = Upgrade {
            stage,
            target: Box::new(target),
            check,
            copy,
            begun: false,
        };
        let begun = |name: &str| seen.jobs.iter().any(|job| job.name == name);
        upgrade.begun = upgrade.job().is_some_and(begun);
        met.upgrade = Some(upgrade);
        met
    }

    /// Returns whether a major upgrade is under way.
    #[must_use]
    pub fn is_upgrading(&self) -> bool {
        let wanted = self.upgrade.as_ref();
        self.present.clear || wanted.is_some_and(|upgrade| upgrade.stage.is_under_way())
    }

    /// Returns the name of the claim of the volume in use.
    #[must_use]
    pub fn claim(&self) -> String {
        let present = self.present.volume().map(|volume| volume.name.clone());
        present.unwrap_or_else(|| self.names.postgres_data())
    }

    /// Returns the backup that still has to be restored before the first server starts.
    #[must_use]
    pub fn recovering(&self) -> Option<&Recovery> {
        let pending = !self.is_recovered();
        self.recovery.as_ref().filter(|_| pending)
    }

    /// Returns the backup that the database starts with.
    #[must_use]
    pub fn recovery(&self) -> Option<&Recovery> {
        self.recovery.as_ref()
    }

    fn is_recovered(&self) -> bool {
        let done = |note: &str| note.starts_with(DONE);
        self.present.restored || self.present.recovery().is_some_and(done)
    }

    /// Returns the note for the volume about the backup that it starts with.
    #[must_use]
    pub fn recovery_note(&self) -> Option<String> {
        let recovery = self.recovery.as_ref()?;
        let pending = self.recovering().is_some();
        Some(notes::of_recovery(&recovery.backup, pending))
    }

    /// Checks that a backup is restored into a new volume only: nothing that is served is ever
    /// overwritten.
    fn check_recovery(&self, present: &Present) -> Result<(), SettingsError> {
        let Some(recovery) = &self.recovery else {
            return Ok(());
        };
        let note = present.recovery();
        let done = note.and_then(|note| note.strip_prefix(DONE));
        let why = match (done, note) {
            (Some(done), _) if done != recovery.backup => {
                format!("this database has started with {done} already")
            }
            (None, None) if present.volume().is_some() => "this database exists already".to_owned(),
            _ => return Ok(()),
        };
        Err(SettingsError {
            reason: reasons::INVALID_SPEC,
            message: format!(
                "spec.database.managed.bootstrap.recovery: {why}; create a new ReportsServer to \
                 start with backup {} (docs/database.md, \"Backup and restore\")",
                recovery.backup
            ),
        })
    }

    fn older(&self, present: u32) -> SettingsError {
        SettingsError {
            reason: reasons::NOT_SUPPORTED,
            message: format!(
                "spec.database.managed.version: the volume is of PostgreSQL {present}, and {} is \
                 older; PostgreSQL can only be upgraded: set the version back to {present} \
                 (docs/database.md, \"Major versions\")",
                self.version
            ),
        }
    }
}

fn gone(left: &[Volume]) -> SettingsError {
    let names: Vec<_> = left.iter().map(|volume| volume.name.as_str()).collect();
    SettingsError {
        reason: reasons::VOLUME_MISSING,
        message: format!(
            "the volume of the database is gone, and only volumes from before an upgrade are left: \
             {}; create a new ReportsServer that starts with a backup, or go back to such a volume \
             (docs/database.md, \"Major versions\")",
            names.join(", ")
        ),
    }
}
