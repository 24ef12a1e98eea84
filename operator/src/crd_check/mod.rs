//! The CRD of `ReportsServer` in the cluster, held against the operator's own. With a CRD of an
//! earlier release, the operator works with the fields that both have, and says which are missing.
//!
//! The kube-apiserver drops unknown fields of a `ReportsServer` that users write, unless they ask it
//! to be strict. It refuses the whole status for one unknown field, as that is written by server-side
//! apply. So the status is written without these. What the operator remembers in the status alone, such
//! as `database.history`, is in the CRD of every release.
//!
//! No condition tells of it: the CRD is one for all `ReportsServer`s, and none of them is less served
//! for it. It is told by the log, by a metric, and by an event about each `ReportsServer`.

mod check;
mod installed;
mod schema;
#[cfg(test)]
mod tests;
mod told;

pub use self::check::{Check, selected};
pub use self::installed::{Installed, absent};
pub use self::told::Told;
