//! The databases in which servers store their reports: the place of each, and those that the
//! operator runs itself.

pub mod between;
pub mod check;
pub mod cloudnativepg;
pub mod embedded;
pub mod external;
pub mod files;
pub mod history;
pub mod known;
pub mod managed;
pub mod metrics;
pub mod moving;
mod notes;
pub mod place;
