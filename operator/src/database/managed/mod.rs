//! PostgreSQL that the operator runs: a `StatefulSet` of one pod on the official image.
//!
//! [`settings`] reads the wanted database from the specification, [`Managed::reconciled_with`]
//! compares it with what the namespace holds already, and [`children`] builds the objects. None of
//! it has a client.

pub mod backup;
mod children;
mod claim;
mod conf;
mod constants;
pub(super) mod parts;
mod pod;
mod present;
pub mod quantity;
pub(super) mod s3;
mod scope;
pub(super) mod settings;
mod tuning;
pub mod upgrade;
mod version;
mod wanted;

pub use children::{Children, STOPPED_ANNOTATION, children};
pub use constants::{DATABASE, PASSWORD_KEY, PORT, RECOVERY_ANNOTATION, ROLE, SUPERUSER};
pub use pod::CONTAINER;
pub use present::Known;
pub use scope::Scope;
pub use settings::{SettingsError, Surroundings, settings};
pub use version::{DEFAULT_IMAGE, SUPPORTED, major};
pub use wanted::{Backup, Destination, Managed, Present, Recovery, Source, TransferImage};
