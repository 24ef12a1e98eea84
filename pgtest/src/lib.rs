//! A real PostgreSQL for tests: servers, poolers, and the faults that they may have.
//!
//! - [`Postgres`] is a server of its own on a free port of 127.0.0.1 and on a Unix socket, with a
//!   role and a database for the application. It can be stopped, killed, paused, filled up, made
//!   read-only, restored to an older state, followed by a standby.
//! - [`Pgbouncer`] is a pooler in transaction mode in front of one.
//! - [`Proxy`] is a TCP proxy that delays, swallows, withholds and cuts.
//! - [`Params`] is the directory from which a client learns the address of the database, as the
//!   kubelet writes it.
//! - [`Authority`] signs certificates of servers and clients.
//!
//! Servers run as the user `postgres` when the test runs as root, since PostgreSQL refuses root,
//! and as the user of the test otherwise. They and their files are gone when the value is dropped,
//! and also when the test's process dies in any way: a watcher outside of it cleans up.
//!
//! Debian packages: `hack/deps postgres`.

mod account;
mod binaries;
mod command;
mod params;
mod pgbouncer;
mod port;
mod postgres;
mod proxy;
mod template;
mod tls;
mod workdir;

pub use params::Params;
pub use pgbouncer::{Pgbouncer, PgbouncerOptions};
pub use postgres::{
    Backup, Disk, HeldConnections, Postgres, PostgresOptions, Preload, Shutdown, Timeline, Tls,
};
pub use proxy::{Direction, Proxy};
pub use template::{DATABASE, USER};
pub use tls::{Authority, Pair};
