//! The phase of a group, in one word.

/// A short, stable word for `status.migration.phase`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Nothing has been looked at yet, or something outside has to become ready first.
    #[default]
    Pending,
    /// The operator checks whether the group can be taken.
    Preflight,
    /// Objects are copied, and their changes are followed.
    Copying,
    /// Both sides are compared object by object.
    Verifying,
    /// Everything is verified, and nothing is going to be switched.
    DryRun,
    /// The migration waits for the user's approval of the plan.
    AwaitingApproval,
    /// The time between holding the first request and closing the side door.
    Switching,
    /// Served by us; reports that only the database of a predecessor has are imported.
    Importing,
    /// Served by us and under observation.
    Soaking,
    /// Served by us; the copies in etcd are kept until their time has come.
    Serving,
    /// The copies in etcd are being deleted.
    Pruning,
    /// Served by us and nothing left to do.
    Completed,
    /// Objects are written back to etcd, and the APIServices are given back.
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
