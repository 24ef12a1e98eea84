//! Connections to PostgreSQL, for the server and the operator: parameters, TLS, and what an error
//! of the database means for the person who set it up.
//!
//! - [`Parameters`] say where the database is and who connects. They come from a directory
//!   ([`ParametersReader`] reads it again and tells when it changed) or from a map of keys, with
//!   the same names in both: see [`parameters::key`].
//! - [`connect`] opens a connection: every host and address in turn, each with a bounded time, TLS
//!   as libpq means it, a check of the version and of whether the session can write.
//! - [`inspect`] asks whether a database can hold reports, and how much it holds.
//! - [`Diagnosis`] sorts errors by what has to be done about them.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod inspect;
pub mod parameters;

mod connect;
mod diagnosis;
mod session;
mod tls;
mod value;
mod version;

pub use connect::{AttemptError, ConnectError, ConnectOptions, Reason, Role, connect, establish};
pub use diagnosis::Diagnosis;
pub use parameters::{Parameters, ParametersError, ParametersReader, Reading};
pub use session::{Connection, ConnectionTask, Session};
pub use version::{MINIMUM_MAJOR, ServerVersion};
