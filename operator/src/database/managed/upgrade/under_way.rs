//! The upgrade to another major version while it is under way.

use super::super::wanted::Managed;
use super::plan::Stage;

/// A major upgrade under way.
#[derive(Clone, Debug, PartialEq)]
pub struct Upgrade {
    /// The present stage.
    pub stage: Stage,
    /// The database as it will be.
    pub target: Box<Managed>,
    /// Name of the Job that checks whether the upgrade can be done.
    pub check: String,
    /// Name of the Job that copies.
    pub copy: String,
    /// True when the Job of this stage is there. It is not made twice, whatever its outcome: the
    /// facts on which it was decided have changed then.
    pub begun: bool,
}

impl Upgrade {
    /// Returns the name of the Job of this stage.
    #[must_use]
    pub fn job(&self) -> Option<&str> {
        match self.stage {
            Stage::Checking | Stage::Refused => Some(&self.check),
            Stage::Copying | Stage::Failed | Stage::Copied => Some(&self.copy),
            Stage::Clearing { .. } | Stage::Waiting | Stage::Stopping => None,
        }
    }
}
