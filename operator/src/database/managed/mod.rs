//! PostgreSQL that the operator runs: a `StatefulSet` of one pod on the official image.
//!
//! [`settings`] makes of the specification what is wanted, [`Managed::meet`] of that and of what
//! the namespace holds already what is to be done, [`children`] the objects. None of it has a
//! client.

pub mod backup;
mod children;
mod conf;
mod constants;
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
pub use constants::{DATABASE, PASSWORD_KEY, PORT, ROLE, SUPERUSER};
pub use meet::{Known, Present};
pub use pod::CONTAINER;
pub use s3::Carrier;
pub use settings::{Managed, SettingsError, Surroundings, settings};
pub use version::{DEFAULT_IMAGE, SUPPORTED, major};
