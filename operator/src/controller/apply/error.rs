//! The errors of writing children.

use crate::controller::upgrade;
use crate::said::{is_forbidden, said};

/// The error of a write.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A child was refused.
    #[error("cannot apply {kind} {name}: {}", said(.source))]
    Apply {
        /// Kind of the child.
        kind: String,
        /// `namespace/name` or name of the child.
        name: String,
        /// The cause.
        source: kube::Error,
    },
    /// An object of that name is somebody else's.
    #[error(
        "{kind} {name} exists and does not belong to this ReportsServer{manager}: it is left \
         unchanged; remove it, or give the ReportsServer another name or targetNamespace",
        manager = managed_by(.manager.as_deref())
    )]
    Foreign {
        /// Kind of the child.
        kind: String,
        /// `namespace/name` or name of the child.
        name: String,
        /// The field manager that made it.
        manager: Option<String>,
    },
    /// The account of the server's pods could not be read.
    #[error("cannot read ServiceAccount {account}: {}", said(.source))]
    Account {
        /// `namespace/name` of the account.
        account: String,
        /// The cause.
        source: kube::Error,
    },
    /// Leftovers could not be listed or deleted.
    #[error("cannot remove a {kind} that is no longer needed: {}", said(.source))]
    Orphans {
        /// Kind of the leftovers.
        kind: String,
        /// The cause.
        source: kube::Error,
    },
    /// `APIService`s of a server that is gone could not be deleted.
    #[error("cannot give the APIs of a server that is gone back to their CRDs: {}", said(.source))]
    Release {
        /// The cause.
        source: kube::Error,
    },
    /// Backups could not be listed.
    #[error("cannot list the jobs of the backups: {}", said(.source))]
    Backups {
        /// The cause.
        source: kube::Error,
    },
    /// A pod of an old template that cannot start could not be deleted.
    #[error("cannot delete pod {pod}, which blocks its replacement: {}", said(.source))]
    InTheWay {
        /// Name of the pod.
        pod: String,
        /// The cause.
        source: kube::Error,
    },
    /// The server's pods could not be read.
    #[error("cannot read the server's pods: {}", said(.source))]
    Pods {
        /// The cause.
        source: kube::Error,
    },
    /// The operator's rights in the target namespace.
    #[error("cannot check the operator's rights in namespace {namespace}: {}", said(.source))]
    Access {
        /// The target namespace.
        namespace: String,
        /// The cause.
        source: kube::Error,
    },
    /// The binding is there and has no effect.
    #[error(
        "the operator has no access to namespace {0}: bind the ClusterRole \
         reports-server-operator:operand to its ServiceAccount there (docs/install.md)"
    )]
    NoAccess(String),
    /// A major upgrade of the database could not go on.
    #[error(transparent)]
    Upgrade(#[from] upgrade::Error),
}

impl Error {
    /// Returns whether the kube-apiserver refuses an object as it would be.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        matches!(self, Self::Apply { source: kube::Error::Api(status), .. } if status.code == 422)
    }

    /// Returns whether a webhook that has to admit the object did not answer.
    #[must_use]
    pub fn is_unanswered_webhook(&self) -> bool {
        let Self::Apply {
            source: kube::Error::Api(status),
            ..
        } = self
        else {
            return false;
        };
        status.code == 500 && status.message.contains("failed calling webhook")
    }

    /// Returns whether the kube-apiserver said that the operator may not.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        match self {
            Self::Apply { source, .. }
            | Self::Orphans { source, .. }
            | Self::Release { source }
            | Self::Backups { source }
            | Self::InTheWay { source, .. }
            | Self::Pods { source }
            | Self::Account { source, .. }
            | Self::Access { source, .. } => is_forbidden(source),
            Self::Upgrade(error) => error.is_forbidden(),
            Self::NoAccess(_) => true,
            Self::Foreign { .. } => false,
        }
    }
}

fn managed_by(manager: Option<&str>) -> String {
    manager.map_or_else(String::new, |manager| format!(" (created by {manager})"))
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(500, "Internal error occurred: failed calling webhook \"m\": no", true)]
    #[case(500, "Internal error occurred: etcd", false)]
    #[case(
        422,
        "admission webhook \"vcluster.cnpg.io\" denied the request: no",
        false
    )]
    fn a_webhook_that_refuses_has_answered(
        #[case] code: u16,
        #[case] message: &str,
        #[case] unanswered: bool,
    ) {
        let status = Status {
            message: message.to_owned(),
            code,
            ..Status::default()
        };
        let error = Error::Apply {
            kind: "Cluster".to_owned(),
            name: "ns/a-postgres".to_owned(),
            source: kube::Error::Api(status.boxed()),
        };
        assert_eq!(error.is_unanswered_webhook(), unanswered);
    }
}
