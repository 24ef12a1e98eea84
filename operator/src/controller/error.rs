//! The errors of a reconciliation, by step.

use std::time::Duration;

use super::validate::Refusal;
use super::{apply, dereference, finalizer, status};
use crate::certs;
use crate::said::is_forbidden;

/// An error of a step.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The object is not what its CRD promises.
    #[error("ReportsServer {name} cannot be read: {error}")]
    Unreadable {
        /// The name of the object.
        name: String,
        /// The cause.
        error: String,
    },
    /// The kube-apiserver refuses the watch of the APIServices.
    #[error("cannot watch the APIServices: {0}")]
    ApiServices(String),
    /// Something could not be read.
    #[error(transparent)]
    Dereference(#[from] dereference::Error),
    /// Certificates could not be issued.
    #[error(transparent)]
    Certificates(#[from] certs::Error),
    /// Something could not be written.
    #[error(transparent)]
    Apply(#[from] apply::Error),
    /// The finalizer could not be changed.
    #[error(transparent)]
    Finalizer(#[from] finalizer::Error),
    /// The status could not be written.
    #[error(transparent)]
    Status(#[from] status::Error),
    /// The children could not be cut loose.
    #[error("deletionPolicy.apis Orphan cannot be carried out: {0}")]
    Orphan(String),
    /// The database that has the reports does not run.
    #[error("the reports cannot be given back to their CRDs: {0}")]
    GiveBack(String),
}

impl Error {
    /// Label of metrics and logs.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "unreadable",
            Self::Dereference(error) if error.is_database() => "database",
            Self::ApiServices(_) | Self::Dereference(_) => "dereference",
            Self::Certificates(_) => "certificates",
            Self::Apply(apply::Error::Upgrade(_)) => "database",
            Self::Apply(_) => "apply",
            Self::Finalizer(_) => "finalizer",
            Self::Status(_) => "status",
            Self::Orphan(_) => "orphan",
            Self::GiveBack(_) => "give-back",
        }
    }

    /// Returns whether the operator lacks a right.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        match self {
            Self::ApiServices(_) => true,
            Self::Dereference(error) => error.is_forbidden(),
            Self::Apply(error) => error.is_forbidden(),
            Self::Finalizer(finalizer::Error(error)) => is_forbidden(error),
            _ => false,
        }
    }

    /// Returns why a child can never be applied as it is, and what to change; nothing where trying
    /// again may help.
    #[must_use]
    pub fn refused(&self) -> Option<Refusal> {
        match self {
            Self::Apply(error) => error.refused(),
            _ => None,
        }
    }

    /// Returns whether the object has changed since it was read. The newer one is on its way to us.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        match self {
            Self::Finalizer(finalizer::Error(kube::Error::Api(status)))
            | Self::Status(status::Error(kube::Error::Api(status))) => status.code == 409,
            _ => false,
        }
    }

    /// Returns when to try again.
    #[must_use]
    pub fn retry_after(&self) -> Duration {
        match (self.is_conflict(), self.is_forbidden()) {
            (true, _) => Duration::from_millis(200),
            (_, true) => Duration::from_secs(30),
            _ => Duration::from_secs(5),
        }
    }
}
