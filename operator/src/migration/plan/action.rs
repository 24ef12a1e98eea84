//! The decisions and the actions of a migration.

use crds::v1alpha1::status::MigrationPhase;
use jiff::Timestamp;

use super::step::StepName;
use crate::migration::report::status::Problem;

/// A decision.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Carry this out.
    Run(Action),
    /// Something outside has to happen first; look again soon.
    Wait {
        /// The step that waits.
        step: StepName,
        /// The phase to show.
        phase: MigrationPhase,
        /// Reason and message.
        problem: Problem,
    },
    /// Nothing to do before `wake`, or before anything changes.
    Idle {
        /// The phase to show.
        phase: MigrationPhase,
        /// One sentence.
        message: String,
        /// The time at which something becomes due.
        wake: Option<Timestamp>,
    },
}

/// The point at which a switch begins or goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchFrom {
    /// At 4a, with live mirrors.
    Hold,
    /// At 4b: an earlier run died while it patched the APIServices of several versions.
    Patch,
    /// At 4c: the APIServices are ours, the gates are not open, and the mirrors are lost.
    Confirm,
}

/// An action to carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// No client is served by us: close the gates, so that the copy may begin.
    CloseGates,
    /// Open the gates and create the APIServices of a group without CRDs.
    Register,
    /// Start the mirrors that do not run, and wait until they follow.
    Mirror,
    /// Compare both sides.
    Verify,
    /// 4a to 4e.
    Switch(SwitchFrom),
    /// Open gates that were open before: a way back was not brought to its end.
    Reopen,
    /// Our APIServices were taken away although the server has taken writes: put it in charge
    /// again, and treat what etcd got meanwhile as stragglers.
    Retake,
    /// 4f.
    Settle,
    /// Import what only the database of a predecessor has.
    ImportDatabase,
    /// Close the side door.
    CloseDoor,
    /// Bring our APIServices up to date.
    Refresh,
    /// One observation of the soak.
    Soak,
    /// Delete the copies in etcd.
    Prune,
    /// Give back what was never opened: etcd has everything.
    Undo,
    /// Write back to etcd, then give the APIServices back.
    Back,
    /// Etcd has everything, and a gate says so: give the APIServices back, and close the gates.
    Release,
}

impl Action {
    /// Returns the step that this action begins with.
    #[must_use]
    pub fn step(self) -> StepName {
        match self {
            Self::CloseGates => StepName::Preflight,
            Self::Register => StepName::Register,
            Self::Mirror => StepName::Mirror,
            Self::Verify => StepName::Verify,
            Self::Switch(SwitchFrom::Hold) => StepName::SwitchHold,
            Self::Switch(SwitchFrom::Patch) | Self::Retake => StepName::SwitchPatch,
            Self::Switch(SwitchFrom::Confirm) => StepName::SwitchConfirm,
            Self::Reopen => StepName::SwitchOpen,
            Self::Settle => StepName::SwitchSettle,
            Self::ImportDatabase => StepName::ImportDatabase,
            Self::CloseDoor => StepName::CloseDoor,
            Self::Refresh => StepName::Refresh,
            Self::Soak => StepName::Soak,
            Self::Prune => StepName::Prune,
            Self::Back => StepName::BackOpenDoor,
            Self::Undo | Self::Release => StepName::BackRelease,
        }
    }

    /// Returns whether this action moves APIServices in the course of a switch. One that fails may
    /// have moved them to the server and back.
    #[must_use]
    pub fn moves_api_services(self) -> bool {
        matches!(
            self,
            Self::Register | Self::Switch(_) | Self::Undo | Self::Release
        )
    }
}
