//! The databases that servers store their reports in: where one is, and those that the operator
//! runs itself.

pub mod check;
pub mod cloudnativepg;
pub mod external;
pub mod files;
pub mod known;
pub mod managed;
pub mod metrics;
pub mod moving;
pub mod place;
