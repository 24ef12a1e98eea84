//! Real Kyverno on a cluster with a node, under churn, while the operator moves the report groups
//! to the server, back and there again: the problems that Kyverno noticed, by its own metrics, by
//! the audit log of the kube-apiserver, and by the reports that there are in the end.
//!
//! [`Parts`] are built by `hack/lib/kyverno.sh`; [`run`] is the whole run; [`Outcome`] its figures.

mod audit;
mod canary;
mod check;
mod churn;
mod controllers;
mod error;
mod install;
mod logs;
mod metrics;
mod options;
mod outcome;
mod run;

pub use controllers::{CONTROLLERS, NAMESPACE};
pub use error::KyvernoError;
pub use install::Parts;
pub use options::KyvernoOptions;
pub use outcome::{Gaps, Outcome, Silent};
pub use run::run;
