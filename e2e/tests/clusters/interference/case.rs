//! The cases: an interference in a step, and the result that it has to have.

use std::fmt;

use e2e::steps::BACK;

use crate::common::rights;

/// Points at which the operator dies on the way there.
pub const THERE: [&str; 10] = [
    "Preflight",
    "Mirror",
    "Verify",
    "SwitchHold",
    "SwitchPatch",
    "SwitchConfirm",
    "SwitchDrain",
    "SwitchOpen",
    "before:SwitchSettle",
    "SwitchSettle",
];

/// An act of somebody while the operator is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interference {
    /// Applies the CRD as it was shipped.
    Reapplied,
    /// The same again and again, until the migration has ended or names who does it.
    AppliedInALoop,
    /// Adds a served version to the CRD, and writes a report through it.
    VersionGained,
    /// Adds a property and a printer column to the CRD.
    SchemaChanged,
    /// Deletes the CRD.
    CrdDeleted,
    /// Deletes the CRD and installs it again.
    CrdReplaced,
    /// Deletes a namespace with reports.
    NamespaceDeleted,
    /// Kills the server, and starts it again some time later.
    ServerKilled,
    /// Stops the server with all connections open, and lets it go on some time later.
    ServerStopped,
    /// Fills the file system of the server's database, and makes room some time later.
    DatabaseFull,
    /// Lets the server run for a small part of the time only, and all of it some time later: its
    /// database answers slowly.
    DatabaseSlow,
    /// Sets the clocks of the operator and the server an hour ahead.
    ClockAhead,
    /// Sets them an hour back.
    ClockBack,
    /// Takes rights away from the operator.
    RightsAway,
    /// Asks for the other direction, and when that has ended for this one again.
    OwnerFlipped,
    /// Deletes the APIService.
    ApiServiceDeleted,
}

impl Interference {
    pub const ALL: [Self; 16] = [
        Self::Reapplied,
        Self::AppliedInALoop,
        Self::VersionGained,
        Self::SchemaChanged,
        Self::CrdDeleted,
        Self::CrdReplaced,
        Self::NamespaceDeleted,
        Self::ServerKilled,
        Self::ServerStopped,
        Self::DatabaseFull,
        Self::DatabaseSlow,
        Self::ClockAhead,
        Self::ClockBack,
        Self::RightsAway,
        Self::OwnerFlipped,
        Self::ApiServiceDeleted,
    ];
}

impl Interference {
    /// Seconds by which clocks are ahead of the real time from then on.
    pub fn clock(self) -> Option<i64> {
        match self {
            Self::ClockAhead => Some(3600),
            Self::ClockBack => Some(-3600),
            _ => None,
        }
    }
}

/// One case.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub back: bool,
    pub step: &'static str,
    pub what: Interference,
}

/// The duty of a migration to name the reason and to wait until it is mended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stall {
    /// It reaches its goal by itself.
    Never,
    /// It may reach its goal first.
    Maybe(&'static [&'static str]),
    /// It cannot reach its goal before.
    Always(&'static [&'static str]),
}

impl Case {
    /// Every case that makes sense.
    pub fn all() -> Vec<Self> {
        let there = THERE.map(|step| (false, step));
        let steps = there.into_iter().chain(BACK.map(|step| (true, step)));
        let cases =
            steps.flat_map(|(back, step)| Interference::ALL.map(|what| Self { back, step, what }));
        cases.filter(Self::makes_sense).collect()
    }

    fn makes_sense(&self) -> bool {
        self.what != Interference::ApiServiceDeleted || self.is_ours()
    }

    fn place(&self) -> usize {
        let steps: &[&str] = if self.back { &BACK } else { &THERE };
        steps.iter().position(|step| *step == self.step).unwrap()
    }

    /// Returns whether the APIService is the server's when the operator dies.
    fn is_ours(&self) -> bool {
        let from = THERE
            .iter()
            .position(|step| *step == "SwitchPatch")
            .unwrap();
        let to = BACK.iter().position(|step| *step == "BackHold").unwrap();
        if self.back {
            self.place() <= to
        } else {
            self.place() >= from
        }
    }

    /// Returns whether the way back takes a minute or so, because the server's versions are far
    /// above etcd's: after a switch that was interrupted, and after a takeover.
    pub fn is_slow(&self) -> bool {
        use Interference::{ApiServiceDeleted, VersionGained};
        let interrupted = ["SwitchPatch", "SwitchConfirm", "SwitchDrain"].contains(&self.step);
        interrupted || self.is_ours() && matches!(self.what, ApiServiceDeleted | VersionGained)
    }

    /// Returns whether etcd has the last word when the operator dies.
    fn is_of_etcd(&self) -> bool {
        !self.is_ours() || self.step == "BackHold"
    }

    /// Returns whether the reports of the CRD go with it.
    pub fn reports_go(&self) -> bool {
        use Interference::{CrdDeleted, CrdReplaced};
        matches!(self.what, CrdDeleted | CrdReplaced) && self.is_of_etcd()
    }

    /// Returns what the migration has to say before the interference ends.
    pub fn stall(&self) -> Stall {
        const APPLIED: &[&str] = &[
            "CRDReapplied (stalled)",
            "gitops",
            "/spec/versions",
            "ignoreDifferences",
        ];
        const RIGHT: &[&str] = &["Forbidden (stalled)", rights::NEEDED[0].1];
        const RIGHT_AT_THE_END: &[&str] = &["Forbidden (stalled)", rights::NEEDED[1].1];
        match self.what {
            Interference::AppliedInALoop => Stall::Maybe(APPLIED),
            Interference::CrdDeleted if self.back && !self.is_of_etcd() => {
                Stall::Always(&["CRDMissing (stalled)", "install"])
            }
            Interference::RightsAway => match self.step {
                "SwitchSettle" | "BackRelease" | "BackClose" => Stall::Never,
                "BackHold" => Stall::Always(RIGHT_AT_THE_END),
                _ => Stall::Always(RIGHT),
            },
            _ => Stall::Never,
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = if self.back { "back" } else { "there" };
        write!(f, "{way}/{}/{:?}", self.step, self.what)
    }
}
