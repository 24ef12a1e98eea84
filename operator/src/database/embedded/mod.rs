//! Backups of a database in the server's own pod, and the restore of one.
//!
//! Nobody but the server may open the volume while it runs, and only pods of its node could. So a
//! `CronJob` has the server send a copy, and keeps it on a volume of its own or in a bucket; a
//! `ReportsServer` that starts with a backup gets a Job that fills the empty volume before the server
//! starts. All of it has the names that it has with PostgreSQL. There is no client here.

mod children;
mod constants;
mod wanted;

pub use children::{Children, children};
pub use constants::{COPIES, DIRECTORY, file};
pub use wanted::{Embedded, Known, job_name, settings};
