//! The move from a PostgreSQL, as it is decided.

use std::collections::BTreeSet;

use crds::control::DatabaseMove;
use k8s_openapi::api::core::v1::PodTemplateSpec;

use crate::controller::watches::Watched;
use crate::database::between::{Egress, Source};
use crate::database::check::Target;
use crate::database::files::Values;
use crate::database::place::Storage;

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
    /// The reports have moved; old pods may be left.
    Moved,
    /// The last old pod is gone.
    Over,
}

/// A volume beside PostgreSQL, to which its one server moves the reports.
#[derive(Clone, Debug, PartialEq)]
pub struct Home {
    /// The volume, where it is asked for; one that is there stays as it is.
    pub storage: Option<Storage>,
    /// The template that the server's pod keeps, as it has the volume; the one of the specification
    /// where it is absent.
    pub template: Option<PodTemplateSpec>,
}

/// A move from a PostgreSQL to another one, or to the volume of its server.
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
    /// The volume that the server has meanwhile, where they are to move there.
    pub home: Option<Home>,
}
