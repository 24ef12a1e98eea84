//! Moving an API group from its CRDs to our server and back, step by step (`docs/migration.md`).
//!
//! Every task is a loop: observe the cluster and the server, decide ([`plan`], pure), carry one
//! step out. The progress is read from the cluster and the server, never remembered, so the
//! operator may be killed between any two steps and the next one goes on.

mod cluster;
mod context;
#[cfg(test)]
mod model;
mod observe;
mod plan;
mod report;
mod steps;
mod task;

#[cfg(test)]
pub(crate) use cluster::rights;
pub use context::deps::Deps;
pub use context::hold_lock::HoldLock;
pub use observe::bypass::Bypass;
pub use observe::notes::{NAME as NOTES, NoteBook};
pub use plan::estimate::Plan;
pub use plan::step::StepName;
pub use plan::target::{
    DEFAULT_SOAK, GroupTarget, Owner, Predecessor, PredecessorDatabase, Settings, Workload,
};
pub use report::metrics::Metrics;
pub use report::status::{
    ApiServiceStatus, Counted, Dropped, GroupStatus, Imported, Problem, Pruned, ReportSummary,
    ResourceProgress, Restart,
};
pub use task::supervisor::Supervisor;
