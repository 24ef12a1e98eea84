//! The incumbent, kyverno/reports-server: a real one on a control plane without nodes, clients that
//! write through it and record each answer, and the comparison with the stored objects afterwards.
//!
//! The source of the incumbent is not part of this repository: [`parts`] builds it where it is
//! present.

mod error;
mod ledger;
mod manifests;
mod objects;
mod server;
mod writers;

pub use error::IncumbentError;
pub use ledger::{Account, Ledger};
pub use manifests::Manifests;
pub use objects::{Key, Objects, key, list};
pub use server::{Incumbent, api_services, leads_to, serving};
pub use testcluster::incumbent as parts;
pub use writers::Writers;

/// Name of its Service, its `ServiceAccount`, its roles, and of their namespace.
pub const NAME: &str = "reports-server";
