//! The reasons why a copy has ended, and the bound that they name.

use std::time::Duration;

use crate::migration::cluster::endpoints::EndpointsError;
use crate::migration::cluster::wire::WireError;

/// The time that is allowed for the silence of all watches.
pub(super) const QUIET_WITHIN: Duration = Duration::from_secs(10);

/// The reason why a copy has ended.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// A request failed for good.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The kube-apiservers are not known.
    #[error(transparent)]
    Endpoints(#[from] EndpointsError),
    /// An object cannot be stored.
    #[error(
        "the server to take over from has objects of {resource} without name or uid, such as \
         {example}; delete them there"
    )]
    Unusable {
        /// Plural name.
        resource: String,
        /// The first of these objects.
        example: String,
    },
    /// Nobody can tell any more which writes the predecessor got.
    #[error("{0} while the switch was under way")]
    Cut(String),
    /// Requests still reach the predecessor.
    #[error(
        "clients still write {resource} to the server that the group is taken over from, \
         {} s after its APIServices were switched",
        QUIET_WITHIN.as_secs()
    )]
    Busy {
        /// Plural name.
        resource: String,
    },
    /// An APIService was led elsewhere.
    #[error(
        "an APIService was pointed back to the other server during the switch; name that server's \
         account in spec.apis[].from.server.serviceAccount"
    )]
    TakenBack,
    /// The task is gone; its progress names the reason.
    #[error("the copy of {0} has ended")]
    Gone(String),
}
