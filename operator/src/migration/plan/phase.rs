//! How far a group is, in one word.

/// Short, stable word for `status.migration.phase`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Nothing has been looked at yet, or something outside has to become ready first.
    #[default]
    Pending,
    /// Looking whether the group can be taken.
    Preflight,
    /// Copying objects and following their changes.
    Copying,
    /// Comparing both sides object by object.
    Verifying,
    /// Everything is verified, and nothing is to be switched.
    DryRun,
    /// Waiting for the user's approval of the plan.
    AwaitingApproval,
    /// Between holding the first request and closing the side door.
    Switching,
    /// Served by us; reports that only the database of a predecessor has are imported.
    Importing,
    /// Served by us and under observation.
    Soaking,
    /// Served by us; the copies in etcd are kept until their time has come.
    Serving,
    /// Deleting the copies in etcd.
    Pruning,
    /// Served by us and nothing left to do.
    Completed,
    /// Writing back to etcd and giving the APIServices back.
    RollingBack,
    /// Served by the CRDs.
    RolledBack,
}

impl Phase {
    /// Returns the word as it stands in the status.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Preflight => "Preflight",
            Self::Copying => "Copying",
            Self::Verifying => "Verifying",
            Self::DryRun => "DryRun",
            Self::AwaitingApproval => "AwaitingApproval",
            Self::Switching => "Switching",
            Self::Importing => "Importing",
            Self::Soaking => "Soaking",
            Self::Serving => "Serving",
            Self::Pruning => "Pruning",
            Self::Completed => "Completed",
            Self::RollingBack => "RollingBack",
            Self::RolledBack => "RolledBack",
        }
    }

    /// Returns whether the group is served by us and every step up to the soak is behind it.
    #[must_use]
    pub fn is_serving(self) -> bool {
        matches!(self, Self::Serving | Self::Pruning | Self::Completed)
    }
}
