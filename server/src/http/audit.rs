//! A line in the log for each request that does not come through the kube-apiserver: its audit log
//! does not have it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use apimachinery::request_info::RequestInfo;

use super::health::Health;
use crate::auth::{Authentication, AuthenticationError, Proof, UserInfo};
use crate::telemetry::AUDIT_TARGET;

/// The facts about a request for its line. Of a watch, the line is written when it begins.
pub(super) struct Audit {
    /// The request, where it is to be logged. Probes are not: they ask every few seconds.
    info: Option<RequestInfo>,
    /// The sender, where it is a direct client.
    sender: OnceLock<Sender>,
}

/// A direct client.
enum Sender {
    /// Who has shown a token, or nothing.
    User(Arc<UserInfo>, Proof),
    /// Whose credentials are not valid.
    Unknown,
}

impl Audit {
    /// Returns the record of a request, which stays empty unless it is `wanted`.
    pub(super) fn of(info: &RequestInfo, wanted: bool) -> Self {
        let wanted = wanted && !Health::is_endpoint(info);
        Self {
            info: wanted.then(|| info.clone()),
            sender: OnceLock::new(),
        }
    }

    /// Notes the sender. Who may be the kube-apiserver is not taken for a direct client.
    pub(super) fn sender(&self, outcome: &Result<Authentication, AuthenticationError>) {
        let sender = match outcome {
            Ok(sender) if sender.proof == Proof::FrontProxy => return,
            Err(AuthenticationError::NotReady) => return,
            Ok(sender) => Sender::User(sender.user.clone(), sender.proof),
            Err(AuthenticationError::Invalid(_) | AuthenticationError::Unavailable(_)) => {
                Sender::Unknown
            }
        };
        // It is noted once.
        let _ = self.sender.set(sender);
    }

    /// Writes the line of a direct client's request.
    pub(super) fn finish(&self, request_id: &str, code: u16, elapsed: Duration) {
        let (Some(info), Some(sender)) = (&self.info, self.sender.get()) else {
            return;
        };
        let (user, proof) = match sender {
            Sender::User(user, Proof::Anonymous) => (user.username.as_str(), "none"),
            Sender::User(user, _) => (user.username.as_str(), "token"),
            Sender::Unknown => ("", "invalid"),
        };
        tracing::info!(
            target: AUDIT_TARGET,
            request_id,
            user,
            proof,
            verb = info.verb,
            group = info.api_group,
            resource = info.resource,
            subresource = info.subresource,
            namespace = info.namespace,
            name = info.name,
            path = info.path,
            code,
            ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            "request of a direct client"
        );
    }
}
