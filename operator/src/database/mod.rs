//! The databases that servers store their reports in: where one is, and those that the operator
//! runs itself.

pub mod place;
