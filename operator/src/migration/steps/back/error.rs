//! The reasons why a group is not given back, and the bounds that they name.

use std::time::Duration;

use crate::migration::cluster::endpoints::EndpointsError;
use crate::migration::cluster::wire::WireError;
use crate::migration::observe::origin::OriginError;
use crate::migration::steps::feed::FeedError;
use crate::migration::steps::writeback::WriteBackError;

/// The longest time for which requests are held. After it they are served again, and the way back
/// is tried again later. The server ends a hold that nobody ends after 5 s.
pub(super) const HOLD: Duration = Duration::from_secs(4);
/// The time that is allowed for the CRDs to answer at every kube-apiserver.
pub(super) const CONFIRM: Duration = Duration::from_mins(1);

/// The reason why a group was not given back.
#[derive(Debug, thiserror::Error)]
pub enum BackError {
    /// A request failed for good.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The kube-apiservers are not known.
    #[error(transparent)]
    Endpoints(#[from] EndpointsError),
    /// The server's changes are not known.
    #[error(transparent)]
    Feed(#[from] FeedError),
    /// It cannot be noted that etcd gets copies again.
    #[error(transparent)]
    Origin(#[from] OriginError),
    /// Some objects cannot be written to etcd.
    #[error(
        "{count} objects cannot be written back to etcd: {}; the group stays with the server \
         until they can be, or are deleted",
        .named.join("; ")
    )]
    Refused {
        /// The number of these objects.
        count: usize,
        /// The first of these objects, with the reasons.
        named: Vec<String>,
    },
    /// The rest could not be written in the time that requests may wait.
    #[error(
        "requests were held for {} s and the rest is not written to etcd; the server continues \
         to serve, and the operator tries again",
        HOLD.as_secs()
    )]
    Late,
    /// Somebody has changed a CRD, which cuts all watches.
    #[error("CRD {crd} was changed during the way back; the operator tries again")]
    CrdChanged {
        /// Name of the CRD.
        crd: String,
    },
    /// Etcd has grown further than the jump went.
    #[error("more was written to etcd than there was room for; the operator tries again")]
    Outgrown,
    /// The watches on the server were cut after the jump.
    #[error(
        "watches on the server were cut; the operator tries again when clients have reconnected"
    )]
    Cut,
    /// Somebody has taken an APIService away from our server, and the CRD answers too early.
    #[error(
        "an APIService was taken away from the server during the way back; the operator points \
         it to the server again, and the way back starts over"
    )]
    TakenAway,
    /// The CRD does not answer at a kube-apiserver.
    #[error(
        "after {} s the kube-apiserver {endpoint} does not answer {path} from the CRD; look at \
         the APIServices of the group",
        CONFIRM.as_secs()
    )]
    NotConfirmed {
        /// Path of the request.
        path: String,
        /// Address of the kube-apiserver.
        endpoint: String,
    },
}

impl From<WriteBackError> for BackError {
    fn from(error: WriteBackError) -> Self {
        match error {
            WriteBackError::Wire(error) => Self::Wire(error),
            WriteBackError::Feed(error) => Self::Feed(error),
            WriteBackError::TakenAway { .. } => Self::TakenAway,
        }
    }
}
