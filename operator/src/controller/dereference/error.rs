//! The errors of reading.

use crate::cert_manager;
use crate::controller::{apply, upgrade};
use crate::database::{cloudnativepg, files};
use crate::said::{is_forbidden, said};

/// The error of a read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The target namespace.
    #[error("cannot read namespace {name}: {}", said(.source))]
    Namespace {
        /// Name of the object.
        name: String,
        /// The cause.
        source: kube::Error,
    },
    /// A Secret with certificates.
    #[error("cannot read secret {namespace}/{name}: {}", said(.source))]
    Secret {
        /// Namespace of the object.
        namespace: String,
        /// Name of the object.
        name: String,
        /// The cause.
        source: kube::Error,
    },
    /// The addresses of the kube-apiservers.
    #[error("cannot list the EndpointSlices of the Service default/kubernetes: {}", said(.source))]
    ApiServers {
        /// The cause.
        source: kube::Error,
    },
    /// A volume.
    #[error("cannot read persistentvolumeclaim {namespace}/{name}: {}", said(.source))]
    Claim {
        /// Namespace of the object.
        namespace: String,
        /// Name of the object.
        name: String,
        /// The cause.
        source: kube::Error,
    },
    /// The Job that restores a backup.
    #[error("cannot read job {namespace}/{name}: {}", said(.source))]
    Job {
        /// Namespace of the object.
        namespace: String,
        /// Name of the object.
        name: String,
        /// The cause.
        source: kube::Error,
    },
    /// The account that the specification names.
    #[error("cannot read serviceaccount {namespace}/{name}: {}", said(.source))]
    Account {
        /// The namespace of the account.
        namespace: String,
        /// The name of the account.
        name: String,
        /// The cause.
        source: kube::Error,
    },
    /// The specification that was carried out last.
    #[error("cannot read configmap {namespace}/{name}: {}", said(.source))]
    ConfigMap {
        /// Namespace of the object.
        namespace: String,
        /// Name of the object.
        name: String,
        /// The cause.
        source: kube::Error,
    },
    /// The database.
    #[error("cannot read statefulset {namespace}/{name}: {}", said(.source))]
    StatefulSet {
        /// Namespace of the object.
        namespace: String,
        /// Name of the object.
        name: String,
        /// The cause.
        source: kube::Error,
    },
    /// The server.
    #[error("cannot read deployment {namespace}/{name}: {}", said(.source))]
    Deployment {
        /// Namespace of the object.
        namespace: String,
        /// Name of the object.
        name: String,
        /// The cause.
        source: kube::Error,
    },
    /// The cluster has no namespace `kube-system`.
    #[error(
        "namespace kube-system, whose uid identifies this cluster, does not exist: set \
         spec.clusterIdentity.id"
    )]
    NoIdentity,
    /// The objects that the connection to a database is made of.
    #[error(transparent)]
    Connection(#[from] files::Error),
    /// The cluster of `CloudNativePG`.
    #[error(transparent)]
    CloudNativePg(#[from] cloudnativepg::Error),
    /// The `Certificate` of cert-manager.
    #[error(transparent)]
    CertManager(#[from] cert_manager::Error),
    /// A major upgrade of the database.
    #[error(transparent)]
    Upgrade(#[from] upgrade::Error),
    /// The operator did not get access to the target namespace.
    #[error(transparent)]
    Access(#[from] apply::Error),
}

impl Error {
    /// Returns whether the kube-apiserver said that the operator may not.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        let source = match self {
            Self::Namespace { source, .. }
            | Self::Secret { source, .. }
            | Self::ApiServers { source }
            | Self::Claim { source, .. }
            | Self::Job { source, .. }
            | Self::Account { source, .. }
            | Self::ConfigMap { source, .. }
            | Self::StatefulSet { source, .. }
            | Self::Deployment { source, .. }
            | Self::Connection(files::Error { source, .. })
            | Self::CertManager(cert_manager::Error { source, .. })
            | Self::CloudNativePg(cloudnativepg::Error { source, .. }) => source,
            Self::Upgrade(error) => return error.is_forbidden(),
            Self::Access(error) => return error.is_forbidden(),
            Self::NoIdentity => return false,
        };
        is_forbidden(source)
    }

    /// Returns whether it is about the database.
    #[must_use]
    pub fn is_database(&self) -> bool {
        matches!(
            self,
            Self::Connection(_) | Self::CloudNativePg(_) | Self::Upgrade(_)
        )
    }
}
