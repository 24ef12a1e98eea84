//! The move from one PostgreSQL to another, as it is decided.

use std::collections::BTreeSet;

use crds::control::DatabaseMove;

use crate::controller::watches::Watched;
use crate::database::between::{Egress, Source};
use crate::database::check::Target;
use crate::database::files::Values;

/// The stage of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is not known yet whether there is anything to move.
    Looking,
    /// It has not begun.
    Waiting,
    /// The servers move the reports.
    Moving,
    /// The servers are to give it up.
    GivingUp,
    /// The reports have moved; pods of before may be left.
    Moved,
    /// The last pod of before is gone.
    Over,
}

/// A move from one PostgreSQL to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Between {
    /// The stage.
    pub stage: Stage,
    /// The content of the Secret; no Secret where it is absent.
    pub secret: Option<Values>,
    /// The progress that a server reports.
    pub told: Option<DatabaseMove>,
    /// The reason why the move does not begin or go on.
    pub waits_for: Option<String>,
    /// The database to examine beside the one in use.
    pub target: Option<Target>,
    /// The objects of others that the destination depends on.
    pub watched: BTreeSet<Watched>,
    /// The addresses that servers connect to beside those of the database in use.
    pub egress: Option<Egress>,
    /// The database that the reports leave.
    pub source: Source,
}
