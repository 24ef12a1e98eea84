//! The steps of a migration and their stable names.
//!
//! A name is used in the status, in events, in metrics, in logs and as a fault point.

use std::fmt;

use crds::v1alpha1::status::MigrationPhase;

/// One step; the order is that of a run forward, then of a run back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StepName {
    /// Check whether the group can be taken at all.
    Preflight,
    /// No CRD in the cluster: open the gate and create the APIServices.
    Register,
    /// Start the mirror and wait until the list is copied.
    Mirror,
    /// Compare both sides.
    Verify,
    /// Wait for the user.
    Approve,
    /// 4a: requests that reach our server wait.
    SwitchHold,
    /// 4b: the APIServices point to our server.
    SwitchPatch,
    /// 4c: every kube-apiserver answers from our server.
    SwitchConfirm,
    /// 4d: the side door is open and the old watches have ended.
    SwitchDrain,
    /// 4e: the floor is above etcd's revision and the gate is open.
    SwitchOpen,
    /// 4f: stragglers looked for, side door closed.
    SwitchSettle,
    /// Import the reports that only the database of a predecessor has.
    ImportDatabase,
    /// The CA bundle or the Service of our APIServices changed.
    Refresh,
    /// The side door is closed (a step of its own where it was found open).
    CloseDoor,
    /// Observe the served group.
    Soak,
    /// Delete the copies in etcd.
    Prune,
    /// Back: the side door is open and answers.
    BackOpenDoor,
    /// Back: etcd holds what we hold.
    BackWrite,
    /// Back: etcd's revision is raised beyond ours.
    BackBurn,
    /// Back: requests wait, the last differences are written.
    BackHold,
    /// Back: the APIServices are deleted and the CRDs answer everywhere.
    BackRelease,
    /// Back: the gate is closed, our watches end.
    BackClose,
}

impl StepName {
    /// Every step, in order.
    pub const ALL: [Self; 22] = [
        Self::Preflight,
        Self::Register,
        Self::Mirror,
        Self::Verify,
        Self::Approve,
        Self::SwitchHold,
        Self::SwitchPatch,
        Self::SwitchConfirm,
        Self::SwitchDrain,
        Self::SwitchOpen,
        Self::SwitchSettle,
        Self::ImportDatabase,
        Self::Refresh,
        Self::CloseDoor,
        Self::Soak,
        Self::Prune,
        Self::BackOpenDoor,
        Self::BackWrite,
        Self::BackBurn,
        Self::BackHold,
        Self::BackRelease,
        Self::BackClose,
    ];

    /// Returns the stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Preflight => "Preflight",
            Self::Register => "Register",
            Self::Mirror => "Mirror",
            Self::Verify => "Verify",
            Self::Approve => "Approve",
            Self::SwitchHold => "SwitchHold",
            Self::SwitchPatch => "SwitchPatch",
            Self::SwitchConfirm => "SwitchConfirm",
            Self::SwitchDrain => "SwitchDrain",
            Self::SwitchOpen => "SwitchOpen",
            Self::SwitchSettle => "SwitchSettle",
            Self::ImportDatabase => "ImportDatabase",
            Self::Refresh => "Refresh",
            Self::CloseDoor => "CloseDoor",
            Self::Soak => "Soak",
            Self::Prune => "Prune",
            Self::BackOpenDoor => "BackOpenDoor",
            Self::BackWrite => "BackWrite",
            Self::BackBurn => "BackBurn",
            Self::BackHold => "BackHold",
            Self::BackRelease => "BackRelease",
            Self::BackClose => "BackClose",
        }
    }

    /// Returns the step of that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.as_str() == name)
    }

    /// Returns what goes on in this step, for people.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Preflight => "checking whether the group can be taken over",
            Self::Register => "registering a group that no CRD serves",
            Self::Mirror => "copying the reports and following their changes",
            Self::Verify => "comparing every report on both sides",
            Self::Approve => "waiting for approval",
            Self::SwitchHold => "holding requests that reach the server",
            Self::SwitchPatch => "pointing the APIServices to the server",
            Self::SwitchConfirm => "waiting for the server's answers at every kube-apiserver",
            Self::SwitchDrain => "waiting for the end of the watches on the CRDs",
            Self::SwitchOpen => "opening the server for requests",
            Self::SwitchSettle => "looking for late writes to etcd",
            Self::ImportDatabase => {
                "served by the server; importing reports from the database of the other server"
            }
            Self::Refresh => "updating the APIServices",
            Self::CloseDoor => "removing the additional version from the CRDs",
            Self::Soak => "watching the API as clients see it",
            Self::Prune => "deleting the verified copies in etcd",
            Self::BackOpenDoor => "adding the version through which etcd is reached",
            Self::BackWrite => "writing the differences back to etcd",
            Self::BackBurn => "raising etcd's revision beyond the server's versions",
            Self::BackHold => "holding requests and writing the last differences",
            Self::BackRelease => "giving the APIServices back to the CRDs",
            Self::BackClose => "ending the watches on the server",
        }
    }

    /// Returns the phase that a group is in while this step runs or waits.
    #[must_use]
    pub fn phase(self) -> MigrationPhase {
        match self {
            Self::Preflight => MigrationPhase::Preflight,
            Self::Mirror => MigrationPhase::Mirroring,
            Self::Verify => MigrationPhase::Verifying,
            Self::Approve => MigrationPhase::AwaitingApproval,
            Self::Register
            | Self::SwitchHold
            | Self::SwitchPatch
            | Self::SwitchConfirm
            | Self::SwitchDrain
            | Self::SwitchOpen
            | Self::SwitchSettle => MigrationPhase::Switching,
            Self::ImportDatabase => MigrationPhase::Importing,
            Self::Soak => MigrationPhase::Soaking,
            Self::Refresh | Self::CloseDoor => MigrationPhase::Retaining,
            Self::Prune => MigrationPhase::Pruning,
            Self::BackOpenDoor
            | Self::BackWrite
            | Self::BackBurn
            | Self::BackHold
            | Self::BackRelease
            | Self::BackClose => MigrationPhase::RollingBack,
        }
    }
}

impl fmt::Display for StepName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::StepName;

    #[test]
    fn names_are_unique_and_parse_back() {
        let names: BTreeSet<_> = StepName::ALL.iter().map(|s| s.as_str()).collect();
        assert_eq!(names.len(), StepName::ALL.len());
        for step in StepName::ALL {
            assert_eq!(StepName::parse(step.as_str()), Some(step));
        }
        assert_eq!(StepName::parse("switchhold"), None);
    }

    #[test]
    fn all_lists_every_step_in_order() {
        assert!(StepName::ALL.windows(2).all(|w| w[0] < w[1]));
    }
}
