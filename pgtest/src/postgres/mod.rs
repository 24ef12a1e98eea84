//! A PostgreSQL server.

mod backup;
mod clock;
mod config;
mod connections;
mod disk;
mod faults;
mod instance;
mod options;
mod process;
mod start;

pub use backup::{Backup, Timeline};
pub use connections::HeldConnections;
pub use faults::Shutdown;
pub use instance::Postgres;
pub use options::{Disk, PostgresOptions, Preload, Tls};
