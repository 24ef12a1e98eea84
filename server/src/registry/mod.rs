//! The registry: the objects of a resource, and everything that decides about a write of one, as
//! `registry/generic/registry/store.go` of k8s.io/apiserver.
//!
//! ```text
//!  create  update  patch  apply  delete      the verbs that write: methods of Collection, a file each
//!     │       │      │      │      │
//!     │    body, json_patch        │         what a client has sent, decoded
//!     ▼       ▼      ▼      ▼      ▼
//!  strategy                                  pure decisions about an object
//!  collection, gate                          read, admitted, committed, tried again
//! ```
//!
//! [`sweep`] deletes what no client can reach.

mod apply;
pub mod body;
mod collection;
mod create;
mod delete;
mod error;
pub mod gate;
pub mod json_patch;
mod options;
mod patch;
pub mod strategy;
pub mod sweep;
mod unchanged;
mod update;
mod warnings;

pub use collection::{Collection, Form, Outcome};
pub use delete::Deleted;
pub use error::{RegistryError, causes, store_error, unknown_error};
pub use options::{DeleteOptions, FieldValidation, WriteOptions};
pub use patch::PatchType;
pub use strategy::Object;
pub use warnings::Warnings;
