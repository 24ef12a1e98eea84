//! PostgreSQL that the operator runs: a `StatefulSet` of one pod on the official image.
//!
//! [`settings`] makes of the specification what is wanted, [`Managed::meet`] of that and of what
//! the namespace holds already what is to be done, [`children`] the objects. None of it has a
//! client.

pub mod backup;
mod children;
mod conf;
mod meet;
mod parts;
mod pod;
mod quantity;
mod s3;
mod settings;
mod tuning;
pub mod upgrade;
mod version;

pub use backup::{Backup, Destination, Recovery, Source};
pub use children::{Children, Home, STOPPED_ANNOTATION, children};
pub use meet::{Known, Present};
pub use pod::CONTAINER;
pub use s3::Carrier;
pub use settings::{Managed, SettingsError, Surroundings, settings};
pub use version::{DEFAULT_IMAGE, SUPPORTED, major};

/// The database.
pub const DATABASE: &str = "reports";
/// The role of the servers; the common name of their certificate.
pub const ROLE: &str = "reports_server";
/// The role that may do anything, inside the pod.
pub const SUPERUSER: &str = "postgres";
/// Key of the superuser's password in its Secret.
pub const PASSWORD_KEY: &str = "password";
/// Where PostgreSQL listens.
pub const PORT: i32 = 5432;
