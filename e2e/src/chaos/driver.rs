//! The switches of the groups to the server and back, and the faults meanwhile.

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use rand::seq::IndexedRandom as _;
use rand::{Rng, RngExt as _};
use serde::Serialize;

use super::ChaosError;
use super::dispute::Window;
use super::ledger::Key;
use super::tally::Direction;
use testcluster::Cluster;

/// Something that happens to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Fault {
    /// The operator is killed (`SIGKILL`).
    OperatorKilled,
    /// The operator hangs for a while (`SIGSTOP`, `SIGCONT`).
    OperatorPaused,
    /// A server is killed (`SIGKILL`).
    ServerKilled,
    /// A server's pod is deleted.
    ServerPodDeleted,
    /// The kube-apiserver with this index hangs for a while.
    ApiServerFrozen(usize),
    /// The kube-apiserver with this index is killed and started again.
    ApiServerRestarted(usize),
    /// An `APIService` of the groups is deleted by hand.
    ApiServiceDeleted,
    /// A CRD gets an annotation.
    CrdTouched,
    /// The `ReportsServer` is suspended for a while.
    Suspended,
    /// A managed PostgreSQL hangs for a while (`SIGSTOP`, `SIGCONT`).
    DatabasePaused,
    /// A managed PostgreSQL gets little of the processors for a while.
    DatabaseSlow,
}

impl Fault {
    /// Returns the kube-apiserver whose watches expire by it.
    #[must_use]
    pub fn restarts(self) -> Option<usize> {
        match self {
            Self::ApiServerRestarted(index) => Some(index),
            _ => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OperatorKilled => f.write_str("operator killed"),
            Self::OperatorPaused => f.write_str("operator paused"),
            Self::ServerKilled => f.write_str("server killed"),
            Self::ServerPodDeleted => f.write_str("server pod deleted"),
            Self::ApiServerFrozen(index) => write!(f, "kube-apiserver {index} frozen"),
            Self::ApiServerRestarted(index) => write!(f, "kube-apiserver {index} restarted"),
            Self::ApiServiceDeleted => f.write_str("APIService deleted"),
            Self::CrdTouched => f.write_str("CRD touched"),
            Self::Suspended => f.write_str("ReportsServer suspended"),
            Self::DatabasePaused => f.write_str("database paused"),
            Self::DatabaseSlow => f.write_str("database slow"),
        }
    }
}

/// A fault at a moment of a round.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The direction in which it is made.
    pub direction: Direction,
    /// The time from the start of that direction to the fault.
    pub after: Duration,
    /// The fault.
    pub fault: Fault,
    /// The duration of the fault, for those that have one.
    pub length: Duration,
}

/// A fault that was made, for the record.
#[derive(Clone, Debug, Serialize)]
pub struct Struck {
    /// Number of the round, from 1.
    pub round: u32,
    /// The direction of that time.
    pub direction: Direction,
    /// The fault in words.
    pub what: String,
    /// Seconds since the start.
    pub at: f64,
}

/// Returns the faults of a round: one or two.
pub fn plan(rng: &mut impl Rng, faults: &[Fault], longest: Duration) -> Vec<Planned> {
    let longest = u64::try_from(longest.as_millis())
        .unwrap_or(u64::MAX)
        .max(1);
    let count = rng.random_range(1..=2);
    (0..count)
        .filter_map(|_| {
            let back = rng.random_bool(0.5);
            Some(Planned {
                direction: if back {
                    Direction::Back
                } else {
                    Direction::Forward
                },
                after: Duration::from_millis(rng.random_range(0..longest)),
                fault: *faults.choose(rng)?,
                length: Duration::from_millis(rng.random_range(2000..7000)),
            })
        })
        .collect()
}

/// Writes to etcd that gave way to the server's own, as the operator reports them.
#[derive(Debug, Default)]
pub struct Dropped {
    /// The number of these writes.
    pub count: i64,
    /// The objects.
    pub named: HashSet<Key>,
}

/// The party that switches the groups. See the module.
#[async_trait]
pub trait Driver: Send + Sync {
    /// Returns the cluster.
    fn cluster(&self) -> &Cluster;

    /// Has the server serve all groups; returns when it does and the copies in etcd are as wanted.
    async fn forward(&self, prune: bool) -> Result<(), ChaosError>;

    /// Has the CRDs serve all groups; returns when they do.
    async fn back(&self) -> Result<(), ChaosError>;

    /// Returns the faults that it can make.
    fn faults(&self) -> Vec<Fault>;

    /// Returns the usual time of one direction; faults are made within it.
    fn usual(&self) -> Duration;

    /// Makes a fault; returns when it is over, with the time in which an APIService was away.
    async fn strike(&self, fault: Fault, length: Duration) -> Result<Option<Window>, ChaosError>;

    /// Returns the writes that have given way since the last switch.
    async fn dropped(&self) -> Result<Dropped, ChaosError> {
        Ok(Dropped::default())
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand::rngs::StdRng;

    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_faults() {
        let plan = |seed| {
            let mut rng = StdRng::seed_from_u64(seed);
            let faults = [Fault::OperatorKilled, Fault::CrdTouched];
            format!("{:?}", plan(&mut rng, &faults, Duration::from_secs(5)))
        };
        assert_eq!(plan(3), plan(3));
        assert!((0..9).any(|seed| plan(seed) != plan(3)));
    }
}
