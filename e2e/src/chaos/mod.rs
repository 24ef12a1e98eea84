//! Groups go to the server and back, again and again, under load, beside other load, and under
//! faults: no client may notice.
//!
//! Every write of the harness puts a number and a unique id into the object, so that the states
//! that readers and watchers see can be told apart whatever uid and resourceVersion they have: an
//! object that is written back to etcd has another version there, and may have another uid.
//! [`Ledger`] knows the writes, [`Observer`] compares the view of a watcher with them, [`Tally`]
//! counts. A [`Driver`] switches the groups.

mod clientgo;
mod collection;
mod compare;
mod counter;
mod crew;
mod dispute;
mod driver;
mod error;
mod harness;
mod ledger;
mod node;
mod noise;
mod object;
mod observer;
mod outcome;
mod poller;
mod processes;
mod request;
mod run;
mod tally;
mod watcher;
mod work;
mod writer;

use std::time::Duration;

pub use dispute::{Dispute, Window};
pub use driver::{Driver, Dropped, Fault, Planned, Struck};
pub use error::ChaosError;
pub use harness::{Harness, requesters};
pub use ledger::Ledger;
pub use node::NodeDriver;
pub use object::LABEL;
pub use observer::Observer;
pub use outcome::{Holds, Outcome};
pub use processes::{ProcessDriver, at_cluster};
pub use request::{Answer, Requester, media};
pub use run::run;
pub use tally::{Direction, Flaw, Moment, Note, Suspect, Tally};

use testreports::ReportKind;

/// Options of a run.
#[derive(Clone, Debug)]
pub struct ChaosOptions {
    /// Most rounds.
    pub rounds: Option<u32>,
    /// No round is begun after this time.
    pub time: Option<Duration>,
    /// Seed of all random choices.
    pub seed: u64,
    /// True when every second round has faults.
    pub faults: bool,
    /// Kinds that are written to.
    pub busy: Vec<ReportKind>,
    /// Kinds that are written to once, at the end.
    pub idle: Vec<ReportKind>,
    /// Writes a second, of the writers of all verbs together.
    pub rate: f64,
}

impl Default for ChaosOptions {
    fn default() -> Self {
        Self {
            rounds: None,
            time: None,
            seed: 1,
            faults: true,
            busy: vec![
                ReportKind::PolicyReport,
                ReportKind::EphemeralReport,
                ReportKind::ClusterPolicyReport,
            ],
            idle: vec![ReportKind::ClusterEphemeralReport],
            rate: 25.0,
        }
    }
}

impl ChaosOptions {
    /// Returns whether the run is over after these rounds and this time. Without any limit it has
    /// one round.
    #[must_use]
    fn over(&self, rounds: u32, elapsed: Duration) -> bool {
        match (self.rounds, self.time) {
            (None, None) => rounds >= 1,
            (most, time) => {
                most.is_some_and(|most| rounds >= most) || time.is_some_and(|time| elapsed >= time)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_at_the_first_limit() {
        let minute = Duration::from_mins(1);
        let options = |rounds, time| ChaosOptions {
            rounds,
            time,
            ..ChaosOptions::default()
        };
        assert!(options(None, None).over(1, Duration::ZERO));
        assert!(!options(Some(2), None).over(1, minute));
        assert!(options(Some(2), Some(minute)).over(1, minute));
        assert!(options(Some(2), Some(minute)).over(2, Duration::ZERO));
    }
}
