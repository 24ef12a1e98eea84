//! The progress of a move.

use std::time::Duration;

use crds::control::{DatabaseMove, MovePhase};

/// The state of a move; `None` while there is no database to move to.
pub(in crate::store) type Progress = Option<MoveState>;

/// The state of a move.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::store) struct MoveState {
    pub phase: MovePhase,
    pub target: String,
    pub attempts: u64,
    pub objects_copied: u64,
    pub objects_total: u64,
    pub seq: u64,
    pub held: Option<Duration>,
    pub message: String,
}

impl Default for MoveState {
    fn default() -> Self {
        Self {
            phase: MovePhase::Waiting,
            target: String::new(),
            attempts: 0,
            objects_copied: 0,
            objects_total: 0,
            seq: 0,
            held: None,
            message: String::new(),
        }
    }
}

impl MoveState {
    /// Returns the state of an order of which nothing is known yet.
    pub fn waiting(target: &str) -> Self {
        Self {
            target: target.to_owned(),
            ..Self::default()
        }
    }

    /// Returns the state as another server told it.
    pub fn told(told: DatabaseMove) -> Self {
        Self {
            phase: told.phase,
            target: told.target,
            attempts: told.attempts,
            objects_copied: told.objects_copied,
            objects_total: told.objects_total,
            seq: told.sequence,
            held: told.held_milliseconds.map(Duration::from_millis),
            message: told.message,
        }
    }

    /// Returns the state in the form of the control API.
    pub fn describe(&self) -> DatabaseMove {
        DatabaseMove {
            phase: self.phase,
            target: self.target.clone(),
            attempts: self.attempts,
            objects_copied: self.objects_copied,
            objects_total: self.objects_total,
            sequence: self.seq,
            held_milliseconds: self
                .held
                .map(|held| u64::try_from(held.as_millis()).unwrap_or(u64::MAX)),
            message: self.message.clone(),
        }
    }
}
