//! Major upgrades: the database is dumped from its volume and restored into another one.
//!
//! First a Job checks whether the new image and the new volume will do, while the present database
//! serves. Then that one is stopped, and a second Job has both volumes to itself: it starts the old
//! server once more without a network, dumps everything, restores it into a new database, and
//! compares both. Only then does the note on the new volume say that it is the one in use. Until
//! that moment the old volume is the only one that counts; afterwards it is kept.
//!
//! [`volumes`] tells the volumes apart, [`plan`] decides the next stage, and [`jobs`] builds the
//! objects. None of it has a client.

mod jobs;
mod plan;
mod under_way;
mod volumes;

pub use jobs::{Children, Run, children};
pub use plan::{Database, Job, Outcome, Seen, Stage};
pub use under_way::Upgrade;
pub use volumes::{
    IMAGE_ANNOTATION, PENDING, RETIRED_ANNOTATION, UPGRADE_ANNOTATION, Volume, Volumes,
};

pub(super) use jobs::job_names;
pub(super) use plan::plan;
