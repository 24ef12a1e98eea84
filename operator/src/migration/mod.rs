//! Moving an API group from its CRDs to our server and back, step by step (`docs/migration.md`).
//!
//! Every task is a loop: observe the cluster and the server, decide ([`plan`], pure), carry one
//! step out. What was reached is read off the cluster and the server, never remembered, so the
//! operator may be killed between any two steps and the next one goes on.

mod act;
mod action;
mod actor;
mod acts;
mod admission;
mod attention;
mod back;
mod changes;
mod control;
mod cx;
mod deletion;
mod deps;
mod diff;
mod door;
mod door_io;
mod due;
mod endpoints;
mod estimate;
mod fault;
mod feed;
mod import;
mod journal;
mod live;
mod marks;
mod metrics;
mod mirror;
#[cfg(test)]
mod model;
mod notes;
mod observe;
mod observed;
mod origin;
mod orphans;
mod pages;
mod phase;
mod plan;
mod predecessor;
mod preflight;
mod prune;
mod publisher;
mod recover;
mod report;
mod restart;
mod revisions;
pub(crate) mod rights;
mod sample;
mod settle;
mod soak;
mod status;
mod step;
mod stillness;
mod supervisor;
mod suspension;
mod switch;
mod target;
mod throttle;
mod verified;
mod verify;
mod wire;
mod writeback;

pub use deps::Deps;
pub use estimate::Plan;
pub use metrics::Metrics;
pub use phase::Phase;
pub use status::{
    ApiServiceStatus, Dropped, GroupStatus, Imported, Problem, Pruned, ReportSummary,
    ResourceProgress, Restart, ServedBy,
};
pub use step::StepName;
pub use stillness::Stillness;
pub use supervisor::Supervisor;
pub use target::{
    ApiOwner, Approval, DEFAULT_SOAK, GroupTarget, OnFailure, Owner, Predecessor,
    PredecessorDatabase, Settings, SourcePolicy, Verification, Workload,
};
