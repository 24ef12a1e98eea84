//! The incumbent, kyverno/reports-server: a real one on a control plane without nodes, clients that
//! write through it and account for each answer, and the comparison with what is stored afterwards.
//!
//! Its source is not part of this repository: [`parts`] builds it where it is present.

mod ledger;
mod manifests;
mod objects;
mod server;
mod writers;

use std::{path::PathBuf, time::Duration};

pub use crate::cluster::incumbent as parts;
pub use ledger::{Account, Ledger};
pub use manifests::Manifests;
pub use objects::{Key, Objects, key, kinds, list};
pub use server::{Incumbent, api_services, leads_to, serving};
pub use writers::Writers;

/// Name of its Service, its `ServiceAccount`, its roles, and of their namespace.
pub const NAME: &str = "reports-server";

/// Why the incumbent, or what is done with it, did not work.
#[derive(Debug, thiserror::Error)]
pub enum IncumbentError {
    /// The cluster did not do as asked.
    #[error(transparent)]
    Cluster(#[from] crate::cluster::Error),
    /// Its database.
    #[error("PostgreSQL of the incumbent: {0}")]
    Postgres(String),
    /// A file.
    #[error("{}: {source}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Its manifests are not what they were.
    #[error("manifests of the incumbent: {0}")]
    Manifests(String),
    /// A request to the kube-apiserver failed.
    #[error("cannot {doing}: {source}")]
    Kube {
        /// What was about to be done.
        doing: &'static str,
        /// What the kube-apiserver or the connection said.
        source: kube::Error,
    },
    /// An APIService cannot be followed.
    #[error("APIService {name}: {source}")]
    Wait {
        /// Its name.
        name: String,
        /// What the kube-apiserver or the connection said.
        source: kube::runtime::wait::Error,
    },
    /// A state was not reached.
    #[error("{what} was not reached within {limit:?}; the incumbent's log ends with:\n{log}")]
    NotReached {
        /// The awaited state.
        what: String,
        /// How long it was awaited.
        limit: Duration,
        /// The end of its log.
        log: String,
    },
}

impl IncumbentError {
    fn kube(doing: &'static str) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Kube { doing, source }
    }

    fn postgres(error: impl std::fmt::Display) -> Self {
        Self::Postgres(format!("{error:#}"))
    }
}
