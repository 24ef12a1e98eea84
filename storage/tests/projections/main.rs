//! Projections of reports in PostgreSQL, as analysts see them, against the reports themselves.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy takes helpers outside #[test] functions for production code"
)]

mod bed;
mod ephemeral;
mod generated;
mod histories;
mod manual;
mod readers;
