//! A major upgrade under way.

use super::super::wanted::Managed;
use super::plan::Stage;

/// A major upgrade under way.
#[derive(Clone, Debug, PartialEq)]
pub struct Upgrade {
    /// What is to be done now.
    pub stage: Stage,
    /// The database as it will be.
    pub target: Box<Managed>,
    /// Name of the Job that looks whether it can be done.
    pub check: String,
    /// Name of the Job that copies.
    pub copy: String,
    /// Whether the Job of this stage is there. It is not made twice, whatever becomes of it: what it
    /// was decided on has changed then.
    pub begun: bool,
}

impl Upgrade {
    /// Name of the Job of this stage.
    #[must_use]
    pub fn job(&self) -> Option<&str> {
        match self.stage {
            Stage::Checking | Stage::Refused => Some(&self.check),
            Stage::Copying | Stage::Failed | Stage::Copied => Some(&self.copy),
            Stage::Clearing { .. } | Stage::Waiting | Stage::Stopping => None,
        }
    }
}
