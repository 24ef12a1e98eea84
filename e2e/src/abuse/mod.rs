//! Wrong hands on a `ReportsServer` and its children: whatever is done, conditions tell the truth, and
//! what was served is served again.
//!
//! [`Deck`] gives the actions, [`Hand`] carries them out, [`Prober`] asks the API as a client does,
//! [`judge`] compares what it finds with what the conditions say. The clients of [`crate::chaos`] write
//! and watch all the time.

mod action;
mod child;
mod crash;
mod deck;
mod did;
mod edit;
mod error;
mod expect;
mod hand;
pub mod judge;
mod outage;
mod outcome;
mod probe;
mod repaired;
mod run;
mod seen;
mod told;
mod wrong;

use std::time::Duration;

pub use action::{Action, Component, Manner, Pick};
pub use child::{Child, Harm};
pub use deck::Deck;
pub use did::Did;
pub use edit::ValidEdit;
pub use error::AbuseError;
pub use expect::Expect;
pub use hand::Hand;
pub use outage::{Outages, Spans};
pub use outcome::{Done, Outcome};
pub use probe::Prober;
pub use run::run;
pub use seen::{Group, Seen};
pub use told::{Said, Told};
pub use wrong::InvalidEdit;

/// Options of a run.
#[derive(Clone, Debug)]
pub struct AbuseOptions {
    /// Seed of all random choices.
    pub seed: u64,
    /// No action is begun after this time.
    pub time: Duration,
    /// Writes a second of the clients.
    pub rate: f64,
    /// Only the actions whose name has this word; all where it is empty.
    pub only: String,
}
